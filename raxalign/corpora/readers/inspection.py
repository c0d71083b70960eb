"""Reading a data file to its end: what its reader refuses is collected, so that all faults of all
files are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from raxalign.config.sources import LocalFile, Source
from raxalign.corpora.readers.dictionary import read_dictionary
from raxalign.errors import DataError

KEPT = 20
"""Faults of one file that are kept; those beyond are counted."""

Report = Callable[[DataError], None]


def refuse(fault: DataError) -> NoReturn:
    """Raises the fault: what a reader does with one unless it is asked to go on."""
    raise fault


@dataclass
class Refusals:
    """Hands faults to `report`, and counts those after which it went on."""

    report: Report = refuse
    count: int = 0

    def __call__(self, fault: DataError) -> None:
        """Reports a fault and counts it."""
        self.report(fault)
        self.count += 1


@dataclass(frozen=True)
class FileRead:
    """What a reader found in one file: its number of rows (examples, sentences, questions, entries)
    and its first faults in the order of the file; `more` counts the faults beyond them.
    """

    path: Path
    rows: int
    faults: tuple[DataError, ...] = ()
    more: int = 0


def read_through(path: Path, read: Callable[[Report], int]) -> FileRead:
    """Calls `read`, which reads the file and returns its number of rows; it reports the faults
    after which it can go on, and raises others.
    """
    faults: list[DataError] = []
    rows = 0
    try:
        rows = read(faults.append)
    except DataError as fault:
        faults.append(fault)
    except OSError as error:
        faults.append(DataError(path, f"cannot be read ({error.strerror or error})"))
    return FileRead(path, rows, tuple(faults[:KEPT]), len(faults[KEPT:]))


def read_dictionaries(sources: Iterable[Mapping[str, Source]]) -> Iterator[FileRead]:
    """Reads the local file called ``dictionary`` in each language's sources, where there is one."""
    for of_language in sources:
        source = of_language.get("dictionary")
        if isinstance(source, LocalFile):
            yield read_through(source.path, partial(_entries, source.path))


def _entries(path: Path, _: Report) -> int:
    return len(read_dictionary(path))
