"""Tables of texts fitted to the width of a terminal: names wrap, columns fold into several bands,
and where a line does not fit at all it becomes a list. No value is ever cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

GAP = 2


@dataclass(frozen=True)
class TextTable:
    """A table of texts: one per line, and per column that names a line (`heads`) or has values
    (`columns`). The columns in `words` are set to the left, those of numbers to the right.
    """

    heads: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()

    def transposed(self, head: str) -> TextTable:
        """Return the table with a line per column, which `head` names, and a column per line."""
        first = len(self.heads)
        names = tuple(", ".join(filter(None, line[:first])) for line in self.lines)
        turned = tuple(
            (column, *(line[first + place] for line in self.lines))
            for place, column in enumerate(self.columns)
        )
        return TextTable((head,), names, turned, self.words)


def fitted(table: TextTable, width: int | None) -> list[str]:
    """Return the lines of a table that are at most `width` wide (None: as wide as the table).

    Heads without any text are left out. The first head wraps between words before columns fold.
    What is wider than the terminal even alone is not cut.
    """
    count = len(table.heads)
    kept = [n for n in range(count) if n == 0 or any(line[n] for line in table.lines)]
    lines = tuple((*(line[n] for n in kept), *line[count:]) for line in table.lines)
    table = replace(table, heads=tuple(table.heads[n] for n in kept), lines=lines)
    columns = zip((*table.heads, *table.columns), *table.lines, strict=True)
    natural = [max(map(_cells, texts)) for texts in columns]
    if width is None or _total(natural) <= width:
        return _band(table, natural, range(len(table.columns)))
    words = [
        word
        for text in (table.heads[0], *(line[0] for line in table.lines))
        for word in text.split()
    ]
    narrowest = min(max(map(_cells, words), default=0), natural[0])
    tries = [[wide, *natural[1:]] for wide in range(natural[0], narrowest - 1, -1)]
    folded = [(bands, widths) for widths in tries if (bands := _bands(widths, table, width))]
    if not folded:
        return list(_stacked(table, width))
    bands, widths = min(folded, key=lambda found: len(found[0]))
    return [line for band in bands for line in ("", *_band(table, widths, band))][1:]


def paragraph(text: str, width: int | None) -> list[str]:
    """Return the lines of a text, wrapped between words where there is a width."""
    lines = text.splitlines()
    if width is None:
        return lines
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap
    return [part for line in lines for part in wrap(line) or [""]]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _bands(widths: Sequence[int], table: TextTable, width: int) -> list[range]:
    """Return which columns of values each band has; nothing where one does not fit alone."""
    first = len(table.heads)
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


def _band(table: TextTable, widths: Sequence[int], band: range) -> list[str]:
    """Return the lines of the heads and some columns of values."""
    first, names = len(table.heads), (*table.heads, *table.columns)
    places = [*range(first), *(first + place for place in band)]
    rows = []
    for texts in (names, *table.lines):
        for number, name in enumerate(paragraph(texts[0], widths[0]) or [""]):
            row = [name, *(texts[place] if number == 0 else "" for place in places[1:])]
            shown = (
                _padded(text, widths[place], left=place == 0 or names[place] in table.words)
                for text, place in zip(row, places, strict=True)
            )
            rows.append((" " * GAP).join(shown).rstrip())
        if texts is names:
            rows.append("─" * _total([widths[place] for place in places]))
    return rows


def _stacked(table: TextTable, width: int) -> Iterator[str]:
    """Yield each line as a list: its name, and one value per line under it."""
    first = len(table.heads)
    named = max(map(_cells, table.columns), default=0)
    for line in table.lines:
        yield from paragraph(", ".join(filter(None, line[:first])), width)
        for column, value in zip(table.columns, line[first:], strict=True):
            if value:
                yield f"  {_padded(column, named, left=True)}  {value}"


def _padded(text: str, width: int, *, left: bool) -> str:
    fill = " " * max(0, width - _cells(text))
    return text + fill if left else fill + text


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
