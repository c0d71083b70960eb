"""The operating system's errors about a storage, as messages for users."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raxalign.errors import DISK_FULL, RaxalignError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM)
_ELSEWHERE = "or give another storage (--storage or RAXALIGN_STORAGE)"
_MEANING = {
    **dict.fromkeys(_FULL, (DISK_FULL, f"Free some space {_ELSEWHERE}")),
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


def storage_error(error: Exception, place: str, doing: str) -> StorageError:
    """Return one message: where, what, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    what, remedy = _MEANING.get(
        number or 0, (said or type(error).__name__, f"Check the storage {_ELSEWHERE}")
    )
    return StorageError(f"{place}: cannot {doing}: {what}. {remedy}")


@contextmanager
def told(place: str, doing: str) -> Iterator[None]:
    """Operating system errors in the block become `StorageError`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, place, doing) from error


@contextmanager
def told_of_build(folder: str) -> Iterator[None]:
    """Of the errors of a build function, those that are the storage's become `StorageError`; all
    others stay what they are.
    """
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        if cause := _known(error, folder) or _refusal(folder):
            raise storage_error(cause, folder, "write an artifact") from error
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
