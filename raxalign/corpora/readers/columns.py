"""The reader of all files whose columns tabs, commas or other marks divide."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from raxalign.corpora.readers.inspection import Report, refuse
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.errors import DataError

_LONGEST = 1 << 17  # characters of a row: beyond that a quotation mark is not closed


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, packed or not."""
    with opened(path) as stream:
        yield from read_lines(stream, path)


def read_columns(
    path: Path, cut: str = "", lines: Callable[[Path], Iterator[str]] = lines_of
) -> Iterator[tuple[int, list[str]]]:
    """Yield (1-based line, columns) of each row. They are divided by `cut` (none: commas in a
    ``.csv`` file without a tab in its first line, else tabs). Commas are quoted by RFC 4180.
    Elsewhere a quotation mark is text, unless a program for CSV has written the file: each mark in
    it is around a column or doubled within one, and one is doubled or all columns have them.

    Raises `DataError` with the line of a mark that RFC 4180 does not have.
    """
    rows, quoted, number = lines(path), None if len(cut) < 2 else False, 0
    for number, line in enumerate(rows, 1):
        cut = cut or ("," if ".csv" in path.suffixes[-2:] and "\t" not in line else "\t")
        if quoted is None and (cut == "," or '"' in line):
            quoted = cut == "," or _is_quoted(lines(path), cut)
        if quoted:
            rows = chain([line], rows)
            break
        yield number, line.split(cut)
    else:
        return
    read = csv.reader((f"{line}\n" for line in rows), delimiter=cut, strict=True)
    first = number
    try:
        for row in read:
            yield number, row or [""]
            number = first + read.line_num
    except csv.Error as error:
        remedy = "Double a quotation mark within quotation marks, or divide columns by tabs"
        raise DataError(path, f"is not quoted well ({error})", line=number, remedy=remedy) from None


def read_records(
    path: Path, report: Report = refuse, *, cut: str = "", names: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (1-based line, columns by their names) of each row but blank ones; none are named: the
    first row names them. A row with another number of columns goes to `report`.
    """
    for number, row in read_columns(path, cut):
        if not names:
            names = [name.strip() for name in row]
        elif len(row) == len(names):
            yield number, dict(zip(names, row, strict=True))
        elif row != [""]:
            told = f"{len(row)} column{'s'[: len(row) != 1]}, the header has {len(names)}"
            report(DataError(path, told, line=number))


def read_objects(path: Path, report: Report = refuse) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line, object) of a file with one JSON object per line, and blank lines; what
    is none goes to `report`.
    """
    for number, line in enumerate(lines_of(path), 1):
        try:
            found = json.loads(line if line.strip() else "null")
            if isinstance(found, dict):
                yield number, found
            elif line.strip():
                report(DataError(path, "is not a JSON object", line=number))
        except json.JSONDecodeError as error:
            remedy = "One object per line is expected"
            report(DataError(path, f"is not JSON ({error.msg})", line=number, remedy=remedy))


def _is_quoted(lines: Iterator[str], cut: str) -> bool:
    """Whether a program for CSV has written a file (see `read_columns`)."""
    mark, cut = r'"(?:[^"]|"")*"', re.escape(cut)
    well = re.compile(f'(?:(?:{mark}|[^"{cut}]*)(?:{cut}|$))+')
    doubled = re.compile(f'(?:^|{cut})"(?:[^"]|"")*""(?:[^"]|"")*"(?:{cut}|$)')
    all_columns = re.compile(f"{mark}(?:{cut}{mark})+|")
    row, seen, around = "", False, True
    for line in lines:
        row = f"{row}\n{line}" if row else line
        if len(row) > _LONGEST:
            return False
        if row.count('"') % 2 == 0:
            if not well.fullmatch(row):
                return False
            seen |= doubled.search(row) is not None
            around &= all_columns.fullmatch(row) is not None
            row = ""
    return not row and (seen or around)
