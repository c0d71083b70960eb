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

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from raxalign.printing import masked

SHOWN = 100
"""Faults of a grid file that are printed. More come of one mistake that is made again and again."""


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


_DISK_FULL = "the disk is full"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM)
_ELSEWHERE = "or give another storage (--storage or RAXALIGN_STORAGE)"
_MEANING = {
    **dict.fromkeys(_FULL, (_DISK_FULL, f"Free some space {_ELSEWHERE}")),
    **dict.fromkeys(_REFUSED, ("no permission", f"Allow your account to write there {_ELSEWHERE}")),
    errno.EROFS: ("the file system is read-only", f"Mount it for writing {_ELSEWHERE}"),
    errno.ENOTDIR: (
        "a part of this path is a file, not a folder",
        f"Move that file away {_ELSEWHERE}",
    ),
    errno.EIO: ("the disk reports an error", f"Check the disk, or who serves it, {_ELSEWHERE}"),
    errno.ESTALE: ("its server no longer has this folder", f"Mount it again {_ELSEWHERE}"),
    errno.EEXIST: ("there is a file where a folder should be", f"Move that file away {_ELSEWHERE}"),
}
_OWN = (*_FULL, errno.EROFS, errno.EIO, errno.ESTALE)  # also where no file is named
_RUST = re.compile(r"\(os error (\d+)\)")


class StorageError(RaxalignError):
    """The storage cannot be read or written. What the operating system reports becomes one message:
    where, what, and what to do.
    """

    DISK_FULL: ClassVar = _DISK_FULL
    """In every message on a storage that has no room left."""

    @staticmethod
    def of(error: Exception, place: str, doing: str) -> StorageError:
        """Return the error for what happened while something was done (``read``) at a place."""
        number = error.errno if isinstance(error, OSError) else None
        said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        what, remedy = _MEANING.get(
            number or 0, (said or type(error).__name__, f"Check the storage {_ELSEWHERE}")
        )
        return StorageError(f"{place}: cannot {doing}: {what}. {remedy}")

    @staticmethod
    @contextmanager
    def at(place: str, doing: str) -> Iterator[None]:
        """Raise errors of the operating system in the block as `StorageError`."""
        try:
            yield
        except OSError as error:
            raise StorageError.of(error, place, doing) from error

    @staticmethod
    @contextmanager
    def of_build(folder: str) -> Iterator[None]:
        """Raise as `StorageError` those errors of a build function that are the storage's; all
        others stay what they are.
        """
        try:
            yield
        except RaxalignError:
            raise
        except Exception as error:
            if cause := _known(error, folder) or _refusal(folder):
                raise StorageError.of(cause, folder, "write an artifact") from error
            raise


def _known(error: BaseException | None, folder: str) -> OSError | None:
    """Return the error of the operating system about a folder that an error is, or came from."""
    while error is not None:
        rust = _RUST.search(str(error))  # safetensors, tokenizers
        cause = OSError(int(rust[1]), os.strerror(int(rust[1]))) if rust else error
        if isinstance(cause, OSError) and cause.errno in _MEANING:
            place = cause.filename if isinstance(cause.filename, str | bytes) else None
            if cause.errno in _OWN if place is None else os.fsdecode(place).startswith(folder):
                return cause
        error = error.__cause__ or error.__context__
    return None


def _refusal(folder: str) -> OSError | None:
    """Return the error of writing to a folder, None where it can be written: libraries with errors
    of their own (torch, NumPy) leave out that it was the disk, or why.
    """
    try:
        with Path(folder, ".probe").open("wb") as probe:
            probe.write(bytes(2**20))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error
    return None


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
