"""What may be shown on a terminal: no passwords of URIs, and no control characters of data. What
cannot be shown ends no work. Tables of texts are fitted to the width of a terminal: names wrap,
columns fold into several bands, and where a line does not fit at all it becomes a list. No value is
ever cut.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TextIO

_BEFORE_AT = re.compile(r"(?<![^\s@'\"])[^\s@'\"]++@")
"""Only its beginning is where a match may begin: long texts take no more time than their length."""
_USER = re.compile(r"(?<=://)(?:[^/]+|[^/:]*:(?!\d+/).+)@$")
"""Secrets may have a slash; what a port is before is a path."""
_TOKEN = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|([Bb]earer |[?&][\w.;-]{0,40}"
    r"(?i:token|secret|passw(?:or)?d|sig(?:nature)?|(?:api|access)[_-]?key)=)[^\s&#'\"<>]+"
)
_MARKS = ("hf_", "earer ", "?", "&")
"""What each match of `_TOKEN` has. To look for these takes a tenth of the time, and a report has
megabytes of values.
"""
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""Return a text that is safe to show.

    User names and passwords in URIs become ``***``. Control characters, which move the cursor or
    change the terminal, and marks that change the direction of writing are written as escapes;
    line ends and tabs stay.

    >>> printable("http://ann:secret@host/x \x1b[2Jgone")
    'http://***@host/x \\u001b[2Jgone'
    """
    return _CONTROL.sub(_escaped, masked(text))


def masked(text: str) -> str:
    """Return a text that may leave this machine: without what lets its readers in somewhere.

    >>> masked("https://me:secret@host/path")
    'https://***@host/path'
    """
    if "@" in text:
        text = _BEFORE_AT.sub(lambda found: _USER.sub("***@", found.group()), text)
    return _TOKEN.sub(r"\1***", text) if any(mark in text for mark in _MARKS) else text


def counted(count: int, noun: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "trial"), counted(2_000, "trial")
    ('1 trial', '2,000 trials')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def are(count: int) -> str:
    """Return the verb that so many things have.

    >>> are(1), are(2)
    ('is', 'are')
    """
    return "is" if count == 1 else "are"


def with_article(noun: str) -> str:
    """Return a noun, or the name of a class, with its indefinite article.

    >>> with_article("AlignedEncoder"), with_article("method")
    ('an AlignedEncoder', 'a method')
    """
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"


class _Lasting(io.FileIO):
    """A file that never fails: what it cannot write is dropped, and the last reason is `lost`."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or drop."""
        try:
            while (written := super().write(data)) is None:  # it is full, and does not block
                select.select((), (self,), ())
        except OSError as error:
            self.lost, written = error, memoryview(data).nbytes
        return written


def lasting(stream: TextIO) -> TextIO:
    """Return what writes to where a standard stream does, and outlives its reader, its terminal and
    the room on its disk; signs that its encoding lacks become escapes. A notebook's own stream, or
    a test's, stays what it is.
    """
    with suppress(OSError, AttributeError):
        if (number := stream.fileno()) in (1, 2):
            file = io.BufferedWriter(_Lasting(number, "w", closefd=False))
            # an unbuffered stream (PYTHONUNBUFFERED) does not call itself line-buffered
            lines = number == 2 or bool(stream.line_buffering or stream.write_through)  # type: ignore[attr-defined]
            return io.TextIOWrapper(file, stream.encoding, "backslashreplace", line_buffering=lines)
    return stream


def why_lost(stream: TextIO) -> OSError | None:
    """Return why something was dropped of what a lasting stream was to write."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.lost if isinstance(raw, _Lasting) else None


def to_stderr(text: str, *, past_buffer: bool = False) -> None:
    """Print what is not a result. What a signal has to say goes `past_buffer`: it may come in the
    middle of another line's way to the stream, and what is added to its buffer there is lost.
    """
    if past_buffer:
        # a notebook's stream, or a test's, has no number
        with suppress(OSError, ValueError):
            number = sys.stderr.fileno()
            with suppress(OSError):
                os.write(number, f"{printable(text)}\n".encode())
            return
    with suppress(OSError):  # of the stream of who uses the package as functions
        sys.stderr.write(printable(text.rstrip("\n")) + "\n")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


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

    def fitted(self, width: int | None) -> list[str]:
        """Return the lines of the table, which are at most `width` wide (None: as wide as the
        table).

        Heads without any text are left out. The first head wraps between words before columns fold.
        What is wider than the terminal even alone is not cut.
        """
        count = len(self.heads)
        kept = [n for n in range(count) if n == 0 or any(line[n] for line in self.lines)]
        lines = tuple((*(line[n] for n in kept), *line[count:]) for line in self.lines)
        table = replace(self, heads=tuple(self.heads[n] for n in kept), lines=lines)
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
            for number, part in enumerate(paragraph(value, width - named - 2 * GAP)):
                yield f"  {_padded('' if number else column, named, left=True)}  {part}"


def _padded(text: str, width: int, *, left: bool) -> str:
    fill = " " * max(0, width - _cells(text))
    return text + fill if left else fill + text


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
