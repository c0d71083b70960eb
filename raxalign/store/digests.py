"""Digests of local data files, remembered so that a plan reads a corpus of gigabytes once."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from raxalign.errors import StorageError
from raxalign.store._filesystem import Files
from raxalign.store.key import file_digest
from raxalign.store.sealed import seal, unseal

_REMEMBERED = "digests.json"
# a file this new may change again within one tick of its file system's clock
_SETTLED_NS = 2_000_000_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileDigests:
    """SHA-256 of files, remembered in ``<root>/digests.json`` by absolute path, size and time of
    change.

    What is remembered is a help and never a need: a damaged file starts afresh, a storage that
    cannot be written is not, and of two processes that write at once one may lose an entry, which
    is then computed again.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, list[Any]] | None = None

    def of(self, path: Path) -> str:
        """64 hexadecimal digits; OSError where the file cannot be read."""
        place = path.expanduser().resolve()
        before = place.stat()
        stamp = [before.st_size, before.st_mtime_ns]
        if self._known is None:
            self._known = self._load()
        known = self._known.get(str(place))
        if known is not None and known[:2] == stamp:
            return str(known[2])
        found = file_digest(place)
        after = place.stat()
        settled = time.time_ns() - after.st_mtime_ns > _SETTLED_NS
        if [after.st_size, after.st_mtime_ns] == stamp and settled:
            self._known = {**self._known, **self._load(), str(place): [*stamp, found]}
            with suppress(StorageError):
                self._files.write(_REMEMBERED, seal({"files": self._known}))
        return found

    def _load(self) -> dict[str, list[Any]]:
        """Return the entries that have the form of one."""
        with suppress(FileNotFoundError, StorageError, ValueError, KeyError, AttributeError):
            entries = unseal(self._files.read(_REMEMBERED))["files"].items()
            return {path: entry for path, entry in entries if _is_entry(entry)}
        return {}


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, list) or [type(part) for part in entry] != [int, int, str]:
        return False
    return _SHA256.fullmatch(entry[2]) is not None
