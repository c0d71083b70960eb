"""The exceptions that a user may see, and what each means for the exit code and for retries.

::

    RaxalignError            anything that is the user's to mend: one message, exit code 2
    ├── GridError            a grid file has faults (all of them, each with its line)
    ├── DataError            a data file is bad (file and line are named)
    ├── DependencyError      a program or library that is needed is not installed
    ├── TrainingDiverged     a training's loss exploded; another learning rate may do
    ├── ResourceError        the cluster can never give what a trial asks for
    ├── StorageError         the storage cannot be read or written
    │   └── DamagedArtifact  an artifact's bytes are not those of its manifest
    └── TransientError       worth a retry: a worker died, a server did not answer
        ├── PeerLost         another worker of the same training is gone
        └── LeaseLost        another process has taken over what this one was making
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from raxalign.printing import masked

SHOWN = 100
"""Faults of a grid file that are printed. More come of one mistake that is made again and again."""


DISK_FULL = "the disk is full"
"""In every message on a storage that has no room left."""


class RaxalignError(Exception):
    """An error whose message says what, where and what to do; shown without a traceback."""

    exit_code: ClassVar[int] = 2

    def __str__(self) -> str:
        return masked(super().__str__())


@dataclass(frozen=True)
class Fault:
    """One fault of a grid file: its line (1-based, None for the whole), the key it is at, what is
    wrong, what would be right.
    """

    line: int | None
    key: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{where}{self.key}: {self.problem}{remedy}"


class GridError(RaxalignError):
    """A grid file with faults; holds all of them and prints the first `SHOWN`, one per line."""

    def __init__(self, path: Path | str, faults: list[Fault]) -> None:
        self.path = Path(path)
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.key)))
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults):,} faults"
        shown, more = self.faults[:SHOWN], len(self.faults[SHOWN:])
        lines = [f"{path}: {count}", *(f"  {fault}" for fault in shown)]
        super().__init__("\n".join([*lines, f"  and {more:,} more"] if more else lines))


class DataError(RaxalignError):
    """Bad input data; the message begins with the file and, if there is one, the 1-based line."""

    def __init__(
        self, file: Path | str, problem: str, *, line: int | None = None, remedy: str = ""
    ) -> None:
        self.file, self.line, self.problem = str(file), line, problem
        where = f"{file}:{line}" if line is not None else str(file)
        super().__init__(f"{where}: {problem}" + (f". {remedy}" if remedy else ""))


class DependencyError(RaxalignError):
    """A program or an optional library is missing; the message says how to install it."""


class TrainingDiverged(RaxalignError):
    """The loss of a training is no longer a number, or has exploded; no retry would mend that."""


class ResourceError(RaxalignError):
    """No node of the cluster can ever give what is asked for; names the resource."""


class StorageError(RaxalignError):
    """The storage cannot be read or written."""


class DamagedArtifact(StorageError):
    """An artifact's files are missing, truncated or changed."""


class TransientError(RaxalignError):
    """Something that may go well when tried again."""


class PeerLost(TransientError):
    """Another worker of the same training is gone, so that this one cannot go on either."""


class LeaseLost(TransientError):
    """Another process has taken over what this one was making, since this one gave no sign of life
    for too long: who raises it stops, and finds the other one's result.
    """
