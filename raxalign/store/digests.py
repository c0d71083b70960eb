"""Digests of local data files, remembered so that a plan reads a corpus of gigabytes once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store._filesystem import Files
from raxalign.store.key import file_digest
from raxalign.store.manifest import Sha256
from raxalign.store.sealed import recorded, seal, unseal

_REMEMBERED = "digests.json"
# a file this new may change again within one tick of its file system's clock
_SETTLED_NS = 2_000_000_000


@recorded
class _Remembered:
    files: Mapping[str, tuple[int, int, Sha256]]  # path -> bytes, nanoseconds, digest


class FileDigests:
    """SHA-256 of files, remembered in ``<root>/digests.json`` by absolute path, size and time of
    change.

    What is remembered is a help and never a need: a damaged file starts afresh, a storage that
    cannot be written is not, and of two processes that write at once one may lose an entry, which
    is then computed again.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: Mapping[str, tuple[int, int, str]] | None = None

    def of(self, path: Path) -> str:
        """64 hexadecimal digits; OSError where the file cannot be read."""
        place = path.expanduser().resolve()
        before = place.stat()
        stamp = (before.st_size, before.st_mtime_ns)
        if self._known is None:
            self._known = self._load()
        known = self._known.get(str(place))
        if known is not None and known[:2] == stamp:
            return known[2]
        found = file_digest(place)
        after = place.stat()
        settled = time.time_ns() - after.st_mtime_ns > _SETTLED_NS
        if (after.st_size, after.st_mtime_ns) == stamp and settled:
            self._known = {**self._known, **self._load(), str(place): (*stamp, found)}
            with suppress(StorageError):
                self._files.write(_REMEMBERED, seal({"files": self._known}))
        return found

    def _load(self) -> Mapping[str, tuple[int, int, str]]:
        with suppress(FileNotFoundError, StorageError, ValueError):
            return unseal(self._files.read(_REMEMBERED), _Remembered).files
        return {}
