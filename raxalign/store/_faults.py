"""The operating system's errors about a storage, as messages for users."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

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
    errno.EEXIST: ("there is a file where a folder should be", f"Move that file away {_ELSEWHERE}"),
}
_NO_SPACE = os.strerror(errno.ENOSPC)


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

    A full disk is known by its text too: libraries with their own exceptions (safetensors, torch)
    only pass that on.
    """
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        if _is_of_storage(error, folder):
            cause = error if isinstance(error, OSError) else OSError(errno.ENOSPC, _NO_SPACE)
            raise storage_error(cause, folder, "write an artifact") from error
        raise


def _is_of_storage(error: Exception, folder: str) -> bool:
    if not isinstance(error, OSError):
        return _NO_SPACE in str(error)
    if isinstance(error.filename, (str, bytes)):
        return os.fsdecode(error.filename).startswith(folder) and error.errno in _MEANING
    return error.errno in (*_FULL, errno.EROFS) or _NO_SPACE in str(error)
