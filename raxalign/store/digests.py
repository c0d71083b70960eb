"""Digests of local data files, remembered so that a corpus of gigabytes is read once for them."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from raxalign.errors import DataError, StorageError
from raxalign.store._filesystem import Files
from raxalign.store.key import file_digest
from raxalign.store.manifest import Sha256
from raxalign.store.sealed import recorded, seal, unseal

_REMEMBERED = "digests.json"
# a file this new may change again within one tick of its file system's clock
_SETTLED_NS = 2_000_000_000
_CHANGED = "Restore it, on every machine of the run, or run the command again to plan with this one"
_MEANWHILE = "Nothing was stored. Run the command again when the file is whole"
Stamp = tuple[int, int, int, int]
"""What changes with a file: its bytes, both times of change in nanoseconds, its inode."""


@recorded
class _Remembered:
    files: Mapping[str, tuple[int, int, int, int, Sha256]]  # path -> stamp, digest


class FileDigests:
    """SHA-256 of files, remembered in ``<root>/digests.json`` by absolute path, size, times of
    change, of which the second cannot be set back, and inode.

    What is remembered is a help and never a need: a damaged file starts afresh, a storage that
    cannot be written is not, and of two processes that write at once one may lose an entry, which
    is then computed again.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: Mapping[str, tuple[int, int, int, int, str]] | None = None

    def of(self, path: Path) -> str:
        """64 hexadecimal digits; OSError where the file cannot be read."""
        return self._found(path)[0]

    @contextmanager
    def unchanged(self, planned: Mapping[Path, str]) -> Iterator[None]:
        """Let the block read files whose SHA-256s were planned. Raises `DataError` before the block
        or after it for a file that is another one or is not there, and for one that was changed
        meanwhile.
        """
        before = self._compared(planned)
        try:
            yield
        except Exception:
            self._compared(planned, before)  # what was wrong with a file may be all of the error
            raise
        self._compared(planned, before)

    def _compared(
        self, planned: Mapping[Path, str], before: Mapping[Path, Stamp] | None = None
    ) -> dict[Path, Stamp]:
        """The stamps of files that are those that were planned, and as they were before."""
        stamps = dict[Path, Stamp]()
        for path, digest in planned.items():
            told = f"its SHA-256 was {digest} when this was planned"
            try:
                found, stamps[path] = self._found(path)
            except OSError as error:
                fault = f"cannot be read ({error.strerror or error}); {told}"
                raise DataError(path, fault, remedy=_CHANGED) from error
            if found != digest:
                raise DataError(path, f"was changed: {told}, and is {found} now", remedy=_CHANGED)
            if before is not None and stamps[path] != before[path]:
                raise DataError(path, "was changed while it was read", remedy=_MEANWHILE)
        return stamps

    def _found(self, path: Path) -> tuple[str, Stamp]:
        """The SHA-256 of a file, and its stamp before the file was read."""
        place = Path(os.path.realpath(path.expanduser()))  # `resolve` has no OSError for a loop
        stamp = stamp_of(place)
        if self._known is None:
            self._known = self._load()
        known = self._known.get(str(place))
        if known is not None and known[:4] == stamp:
            return known[4], stamp
        found = file_digest(place)
        settled = time.time_ns() - max(stamp[1:3]) > _SETTLED_NS
        if stamp_of(place) == stamp and settled:
            self._known = {**self._known, **self._load(), str(place): (*stamp, found)}
            with suppress(StorageError):
                self._files.write(_REMEMBERED, seal({"files": self._known}))
        return found, stamp

    def _load(self) -> Mapping[str, tuple[int, int, int, int, str]]:
        with suppress(FileNotFoundError, StorageError, ValueError):
            return unseal(self._files.read(_REMEMBERED), _Remembered).files
        return {}


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file. Raises `OSError` for what is none: a pipe may never end."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # opening tells folders
        raise OSError(errno.EINVAL, "is not a regular file")
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
