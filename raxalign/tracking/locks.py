"""Turns among the drivers that write to one tracking store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from raxalign.store.key import digest
from raxalign.store.lock import turn
from raxalign.store.storage import Storage
from raxalign.tracking.client import SQLITE


class Turns:
    """A lock that a driver holds while it reads and changes runs.

    The lock of a database is a file next to it, so all drivers that can write to the database share
    it. The lock of a server is a file in the storage: it keeps the drivers of one storage apart.
    Nothing keeps apart the drivers of two storages on one server, or those of an object store, or
    those on a file system without locks; `alone` is then False, and `Registry` settles afterwards
    what two drivers made at once.
    """

    def __init__(self, uri: str, storage: Storage | None = None) -> None:
        self._database = uri.startswith(SQLITE)
        self._path: Path | None = None
        if self._database:
            database = Path(uri.removeprefix(SQLITE))
            self._path = database.with_name(f".{database.name}.runs.lock")
        elif storage is not None and not storage.is_remote:
            self._path = storage.local / f".tracking-{digest(uri)[:16]}.lock"
        self.alone = False

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the turn, and hold it until the block ends. It is freed when the process
        dies.
        """
        with ExitStack() as held:
            try:
                if self._path is not None:
                    held.enter_context(turn(self._path))
                self.alone = self._database
            except OSError:  # a file system that has no locks, or a storage that is read-only
                self.alone = False
            yield
