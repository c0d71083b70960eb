"""Studies on disk: Optuna's journal, which drivers share and `optuna-dashboard` opens."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from raxalign.errors import StorageError
from raxalign.store.key import digest
from raxalign.store.lease import lease
from raxalign.store.lock import turn
from raxalign.store.storage import Storage
from raxalign.store.studies import FOLDER

JOURNAL = "journal.log"
PAUSE = 10.0
"""Seconds between two turns at an object store of a driver that has nothing to report."""
_PLACE = f"{FOLDER}/{JOURNAL}"


class _InTurn:
    """No lock: studies are read and written within a turn alone. Optuna's own locks are waited for
    30 seconds where a process died that held one.
    """

    def acquire(self) -> bool:
        """Do nothing."""
        return True

    def release(self) -> None:
        """Do nothing."""


class _Sealed(JournalFileBackend):  # type: ignore[misc]
    """Optuna's file, in which each line has a checksum of its own, so that no changed value is
    taken for a result. The first lines of a journal of an earlier version have none.
    """

    _begun = False

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write lines with their checksums."""
        super().append_logs([{**log, "sha256": digest(log)} for log in logs])

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the lines. Raises `ValueError` for a changed one."""
        for number, log in enumerate(super().read_logs(log_number_from), log_number_from + 1):
            found = log.pop("sha256", None)
            self._begun = self._begun or found is not None
            if self._begun and found != digest(log):
                raise ValueError(f"line {number} was changed: it does not match its checksum")
            yield log


@dataclass
class Journal:
    """The journal of all studies of a storage.

    On a file system it is ``<root>/studies/journal.log``. For an object store, which cannot append,
    it is in the machine's own folder. A turn there holds a lock in the store: it begins with what
    other machines have added to the store's copy, and ends with the whole journal in the store. So
    the store's copy only grows, and its length says which one it is.
    """

    storage: Storage
    folder: Path
    _storage: JournalStorage | None = field(default=None, init=False)
    _there: int = field(default=0, init=False)  # bytes that the object store has
    _left: float = field(default=-math.inf, init=False)  # when the last turn ended

    @classmethod
    def open(cls, storage: Storage, local: Path) -> Journal:
        """Open the journal of a storage; `local` is the machine's own folder of it."""
        journal = cls(storage, local / FOLDER)
        journal.folder.mkdir(parents=True, exist_ok=True)
        return journal

    @contextmanager
    def turn(self) -> Iterator[JournalStorage]:
        """Wait until no other driver of the storage reads and writes studies, and keep others out
        meanwhile.

        Raises `StorageError` where the store cannot be used, or this machine was silent for so long
        in its turn that another one has begun its own.
        """
        remote = self.storage.is_remote
        with (
            turn(self.folder / "turn.lock"),
            lease(self.storage, FOLDER) if remote else nullcontext(),
        ):
            if remote:
                self._fetch()
            yield self._read()
            if remote:
                self._bring()
        self._left = time.monotonic()

    @property
    def rests(self) -> bool:
        """Whether a turn should wait, since it costs requests to an object store and the last one
        was a moment ago.
        """
        return self.storage.is_remote and time.monotonic() - self._left < PAUSE

    @property
    def path(self) -> Path:
        """The file of the journal on this machine."""
        return self.folder / JOURNAL

    def _read(self) -> JournalStorage:
        """Return the studies as they are now."""
        try:
            if self._storage is None:
                self._storage = self._opened()
            self._storage.get_all_studies()
        except Exception as error:  # Optuna raises anything for lines that it cannot use
            raise StorageError(
                f"{self.path}: the journal of the searches cannot be read ({error}). Restore it, or"
                " delete it: they begin again with what the ledger has of them"
            ) from error
        return self._storage

    def _opened(self) -> JournalStorage:
        """Open the file, without the half line of a driver that was killed while it wrote."""
        if self.path.exists():
            data = self.path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(self.path, whole)
        return JournalStorage(_Sealed(str(self.path), _InTurn()))

    def _fetch(self) -> None:
        """Add what other machines have written. What this machine alone has stays where nobody has
        written since (a driver was killed before its turn ended), and is dropped otherwise: its
        points have not run.
        """
        if (size := self._size_there()) == self._there:
            return
        there = self.storage.files.read(_PLACE)
        here = self.path.read_bytes() if self.path.exists() else b""
        if there.startswith(here):
            with self.path.open("ab") as file:
                file.write(there[len(here) :])
        elif not here.startswith(there):
            if self._storage is not None:
                raise self._overtaken()
            self.path.write_bytes(there)
        self._there = size

    def _bring(self) -> None:
        """Copy the journal to the store, where it has grown since."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size == self._there:
            return
        if self._size_there() != self._there:
            raise self._overtaken()
        self.storage.files.write(_PLACE, self.path.read_bytes())
        self._there = size

    def _size_there(self) -> int:
        return self.storage.files.names(FOLDER).get(JOURNAL, 0)

    def _overtaken(self) -> StorageError:
        return StorageError(
            f"{self.storage}/{_PLACE}: another machine has written to it during this one's turn,"
            " which took too long. Run the grid again: nothing that has run is lost"
        )
