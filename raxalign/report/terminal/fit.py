"""Tables of texts fitted to the width of a terminal: names wrap, columns fold into several bands,
and where a line does not fit at all it becomes a list. No value is ever cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = 2
_RULE = "─"


@dataclass(frozen=True)
class Texts:
    """A table of texts.

    Attributes:
        heads: Names of the columns that name a line.
        columns: Names of the columns of values.
        lines: One text per head and column.
        words: Columns of words, which are set to the left; numbers are set to the right.
    """

    heads: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()

    def transposed(self, head: str) -> Texts:
        """Return the table with a line per column, and a column per line.

        Args:
            head: What the columns are, which names the lines.
        """
        first = len(self.heads)
        names = tuple(", ".join(filter(None, line[:first])) for line in self.lines)
        turned = tuple(
            (column, *(line[first + place] for line in self.lines))
            for place, column in enumerate(self.columns)
        )
        return Texts((head,), names, turned, self.words)


def fitted(table: Texts, width: int | None) -> list[str]:
    """Return the lines of a table that are at most `width` wide (None: as wide as the table).

    Heads without any text are left out. The first head wraps between words before columns fold.
    What is wider than the terminal even alone is not cut.
    """
    table = _without_empty_heads(table)
    natural = _widths(table)
    if width is None or _total(natural) <= width:
        return _band(table, natural, range(len(table.columns)))
    first, names = len(table.heads), natural[0]
    narrowest = max(map(_longest_word, [table.heads[0], *(line[0] for line in table.lines)]))
    best: tuple[int, list[range], list[int]] | None = None
    for wide in range(names, min(narrowest, names) - 1, -1):
        widths = [wide, *natural[1:]]
        bands = _bands(widths, first, width)
        if bands and (best is None or len(bands) < best[0]):
            best = (len(bands), bands, widths)
    if best is None:
        return list(_stacked(table, width))
    parts = [_band(table, best[2], band) for band in best[1]]
    return [line for part in parts for line in ("", *part)][1:]


def paragraph(text: str, width: int | None) -> list[str]:
    """Return the lines of a text, wrapped between words where there is a width."""
    lines = text.splitlines()
    if width is None:
        return lines
    return [
        part
        for line in lines
        for part in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        or [""]
    ]


def _without_empty_heads(table: Texts) -> Texts:
    kept = [
        place
        for place in range(len(table.heads))
        if place == 0 or any(line[place] for line in table.lines)
    ]
    rest = range(len(table.heads), len(table.heads) + len(table.columns))
    lines = tuple(tuple(line[place] for place in (*kept, *rest)) for line in table.lines)
    heads = tuple(table.heads[place] for place in kept)
    return Texts(heads, table.columns, lines, table.words)


def _widths(table: Texts) -> list[int]:
    names = (*table.heads, *table.columns)
    return [
        max(map(_cells, [name, *(line[place] for line in table.lines)]))
        for place, name in enumerate(names)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_word(text: str) -> int:
    return max(map(_cells, text.split()), default=0)


def _bands(widths: Sequence[int], first: int, width: int) -> list[range]:
    """Return which columns of values each band has; nothing where one does not fit alone."""
    used = _total(widths[:first])
    found: list[range] = []
    start, total = 0, used
    for place, wide in enumerate(widths[first:]):
        if used + GAP + wide > width:
            return []
        if total + GAP + wide > width:
            found.append(range(start, place))
            start, total = place, used
        total += GAP + wide
    return [*found, range(start, len(widths) - first)]


def _band(table: Texts, widths: Sequence[int], band: range) -> list[str]:
    """Return the lines of the heads and some columns of values."""
    first = len(table.heads)
    places = [*range(first), *(first + place for place in band)]
    names = (*table.heads, *table.columns)
    left = {0} | {place for place in places if names[place] in table.words}
    rows = []
    for texts in (names, *table.lines):
        wrapped = paragraph(texts[0], widths[0]) or [""]
        for number, name in enumerate(wrapped):
            row = [name, *(texts[place] if number == 0 else "" for place in places[1:])]
            rows.append(
                (" " * GAP)
                .join(
                    _set(text, widths[place], left=place in left)
                    for text, place in zip(row, places, strict=True)
                )
                .rstrip()
            )
        if texts is names:
            rows.append(_RULE * _total([widths[place] for place in places]))
    return rows


def _stacked(table: Texts, width: int) -> Iterator[str]:
    """Yield each line as a list: its name, and one value per line under it."""
    first = len(table.heads)
    named = max(map(_cells, table.columns), default=0)
    for line in table.lines:
        yield from paragraph(", ".join(filter(None, line[:first])), width)
        for column, value in zip(table.columns, line[first:], strict=True):
            if value:
                yield f"  {_set(column, named, left=True)}  {value}"


def _set(text: str, width: int, *, left: bool) -> str:
    fill = " " * max(0, width - _cells(text))
    return text + fill if left else fill + text


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
