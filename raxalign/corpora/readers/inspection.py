"""Reading a data file to its end: what its reader refuses is collected, so that all faults of all
files are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from raxalign.errors import DataError

KEPT = 20
"""Faults of one file that are kept; those beyond are counted."""

Report = Callable[[DataError], None]


def refuse(fault: DataError) -> NoReturn:
    """Raise the fault: what a reader does with one unless it is asked to go on."""
    raise fault


class Remark(DataError):
    """What is not a fault, and is reported next to the faults of a file: rows that are left out."""

    @classmethod
    def all(cls, place: Path | str, told: Iterable[str], report: Report) -> None:
        """Report several remarks on one file."""
        for text in told:
            report(cls(place, text))


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
class Translations:
    """Words or sentences of a language with those of the pivot that mean the same, as read."""

    lang: str
    pivot: str
    pairs: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class FileRead:
    """What a reader found in one file: its number of rows (examples, sentences, questions, entries)
    and its first faults in the order of the file; `more` counts the faults beyond them. `remarks`
    are not faults. `translations` are what the file has in two languages.
    """

    path: Path
    rows: int
    faults: tuple[DataError, ...] = ()
    more: int = 0
    remarks: tuple[Remark, ...] = ()
    translations: Translations | None = None


def read_through(path: Path, read: Callable[[Report], int]) -> FileRead:
    """Calls `read`, which reads the file and returns its number of rows; it reports the faults
    after which it can go on, and remarks, and raises others.
    """
    found: list[DataError] = []
    rows = 0
    try:
        rows = read(found.append)
    except DataError as fault:
        found.append(fault)
    except OSError as error:
        found.append(DataError(path, f"cannot be read ({error.strerror or error})"))
    remarks = tuple(entry for entry in found if isinstance(entry, Remark))
    faults = [entry for entry in found if not isinstance(entry, Remark)]
    return FileRead(path, rows, tuple(faults[:KEPT]), len(faults[KEPT:]), remarks)


@dataclass(frozen=True)
class LocalRows:
    """The rows of a language and split in local files: what reads them before anything runs reads
    them when they are evaluated.

    Attributes:
        split: their split.
        path: the file to whose name the number of rows belongs.
        read: reads them; its `remarks` say what was left out. Raises `DataError`.
        translations: returns what they have in two languages, where that is to be compared with the
            grid's own text.
    """

    split: str
    path: Path
    read: Callable[[], Any]
    translations: Callable[[Any], Translations] | None = None

    def inspected(self) -> FileRead:
        """Read the rows, and return what was found."""
        kept = list[Translations]()

        def count(report: Report) -> int:
            rows = self.read()
            Remark.all(self.path, rows.remarks, report)
            kept.extend([self.translations(rows)] if self.translations else ())
            return len(rows)

        return replace(read_through(self.path, count), translations=next(iter(kept), None))
