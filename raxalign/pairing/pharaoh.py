"""Pharaoh files: one sentence pair per line, its links as `i-j` or `isj`, or `ipj` for one that is
possible but not sure; before them there may be the line's number and a tab, as SimAlign has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO

from raxalign.arrays import Bools
from raxalign.corpora.readers.lines import opened
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.pairing.aligners.base import Links

_BLOCK = 1 << 24
_ZERO, _NEWLINE, _HYPHEN, _S, _P = (ord(c) for c in "0\n-sp")
_LINK = re.compile(rb"\d{1,9}[-spSP]\d{1,9}")
_LINE = re.compile(rb"\s*(?:%b(?:\s+|$))*" % _LINK.pattern)
_NUMBERED = re.compile(rb"^(\d{1,9})(?:\t|\r?$)", re.MULTILINE)


def read_marked(path: Path) -> tuple[Links, Bools]:
    """Return all links of a file as written, and which are merely possible (number of links,).
    Raises `DataError` with the line of what is not a link.
    """
    parts: list[tuple[Links, Bools]] = []
    first = 1
    with opened(path) as file:
        for block in _whole_lines(file):
            parts.append(_parse(_without_numbers(block, path, first), path, first))
            first += len(parts[-1][0])
    marks = [np.zeros(0, np.bool_), *(possible for _, possible in parts)]
    return Links.join([links for links, _ in parts]), np.concatenate(marks)


def read_links(path: Path) -> Links:
    """Return all links of a file, possible ones like sure ones."""
    return read_marked(path)[0]


def write_links(path: Path, links: Links) -> None:
    """Write links as 0-based `i-j`, one sentence pair per line."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        for start in range(0, len(links), 4096):
            part = links.part(start, min(start + 4096, len(links)))
            words = [f"{s}-{t}" for s, t in zip(part.src.tolist(), part.tgt.tolist(), strict=True)]
            bounds = part.offsets.tolist()
            file.writelines(" ".join(words[a:b]) + "\n" for a, b in pairwise(bounds))


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Blocks that end with a newline; a last line without one is given one."""
    rest = b""
    while chunk := file.read(_BLOCK):
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest + b"\n"


def _without_numbers(block: bytes, path: Path, first: int) -> bytes:
    """Lines without their numbers, from 0 or 1, where each begins with one."""
    numbers = _NUMBERED.findall(block) if _NUMBERED.match(block) else []
    if len(numbers) < max(1, block.count(b"\n")) or b"\t" not in block:
        return block
    start = first - 1 + (int(numbers[0]) >= first)
    for line, number in enumerate(numbers):
        if int(number) != start + line:
            fault = f"begins with {int(number)}, not with {start + line}, the number of its line"
            remedy = "Cut the first column off, or write a line for each sentence pair in order"
            raise DataError(path, fault, line=first + line, remedy=remedy)
    return _NUMBERED.sub(b"", block)


def _parse(block: bytes, path: Path, first: int) -> tuple[Links, Bools]:
    """Find all numbers at once: 250,000 lines are 12 million of them."""
    data = np.frombuffer(block, np.uint8)
    digit = (data - np.uint8(_ZERO)) < 10  # below "0" wraps around to above 9
    change = np.flatnonzero(np.diff(digit.view(np.int8), prepend=0, append=0))
    starts, ends = change[0::2], change[1::2]
    letter = data | np.uint8(32)  # in lower case
    is_possible = letter == _P
    joins = np.flatnonzero((data == _HYPHEN) | is_possible | (letter == _S))
    newlines = np.flatnonzero(data == _NEWLINE)
    blanks = int(
        np.count_nonzero((data == ord(" ")) | (data == ord("\t")) | (data == ord("\r")))
    ) + len(newlines)
    paired = (
        len(starts) == 2 * len(joins)
        and (ends[0::2] == joins).all()
        and (starts[1::2] == joins + 1).all()
    )
    if (
        not paired
        or int(np.count_nonzero(digit)) + len(joins) + blanks != len(data)
        or (len(starts) and int((ends - starts).max()) > 9)
    ):
        raise _fault(block, path, first)
    values = np.zeros(len(starts), np.int32)
    for place in range(int((ends - starts).max(initial=0))):
        at = ends - 1 - place
        has = at >= starts
        values[has] += (data[at[has]] - np.uint8(_ZERO)).astype(np.int32) * np.int32(10**place)
    offsets = np.concatenate(
        [np.zeros(1, np.int64), np.searchsorted(joins, newlines).astype(np.int64)]
    )
    return Links(offsets, values[0::2].copy(), values[1::2].copy()), is_possible[joins]


def _fault(block: bytes, path: Path, first: int) -> DataError:
    for line, content in enumerate(block.split(b"\n"), start=first):
        if _LINE.fullmatch(content) is None:
            shown = next((w for w in content.split() if not _LINK.fullmatch(w)), content)[
                :40
            ].decode("utf-8", "replace")
            remedy = "Links are written i-j, possible ones ipj, with blanks between them"
            return DataError(path, f"{shown!r} is not a link", line=line, remedy=remedy)
    return DataError(path, "holds something that is not a link", line=first)
