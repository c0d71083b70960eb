"""Locks in a storage that hold across machines, with an owner, a sign of life and an end.

A lock is a folder with one file per holder, numbered from 1. Who wants it creates the file with the
next number, which only one process can; the file with the highest number is the holder's. The
holder writes its file again every `BEAT` seconds. It is free when the holder has written that it is
done, when its process is dead (known on its own machine), or when the file did not change for
`EXPIRY` seconds on the clock of who waits: clocks of two machines are never compared. Who can ask
another machine, as on a Ray cluster, need not wait so long.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from raxalign.errors import StorageError
from raxalign.store._filesystem import Storage
from raxalign.store._open import open_storage
from raxalign.store._temporary import maker_name, process_of

BEAT, EXPIRY, LOOK, ASK = 20.0, 180.0, 1.0, 5.0
"""Seconds between two signs of life, until a silent holder loses the lock, between two looks of who
waits, and between two questions whether the holder lives.
"""


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock: the name of its host, and the name that no other process has."""

    host: str
    process: str

    def lives(self) -> bool | None:
        """Return whether it lives; None on another machine than its own, and after a new start of
        its own.
        """
        return process_of(self.process)


def patient(holder: Holder) -> float:  # noqa: ARG001
    """Return the seconds of silence after which a holder loses the lock, where nothing is known."""
    return EXPIRY


@contextmanager
def lease(
    root: str,
    name: str,
    waiting: Callable[[str], None] | None = None,
    patience: Callable[[Holder], float] = patient,
) -> Iterator[None]:
    """Wait until no other process of any machine holds the lock of this name, and hold it.

    Args:
        root: The storage root.
        name: The name of the lock, which may hold ``/``.
        waiting: Called once with the holder's host and process where the lock is held.
        patience: Returns the seconds of silence after which a holder loses the lock: 0 for one that
            is known to be dead. It is asked every `ASK` seconds.

    Raises:
        StorageError: The storage cannot be read or written.
    """
    held = _Held(open_storage(root), f"locks/{name}")
    held.take(waiting or (lambda holder: None), patience)  # noqa: ARG005
    over = threading.Event()
    thread = threading.Thread(target=held.beat, args=(over,), name="raxalign-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        held.give_back()


def clear(root: str, name: str) -> None:
    """Remove the files of a lock that nobody needs again: what it guarded is made, and who still
    waits for the lock looks for that first.
    """
    with suppress(StorageError):
        open_storage(root).delete_all(f"locks/{name}")


class _Held:
    """One process's part in a lock."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self._folder = storage, folder
        self._nonce = uuid.uuid4().hex
        self._number, self._beats = 0, 0

    def take(self, waiting: Callable[[str], None], patience: Callable[[Holder], float]) -> None:
        """Return when the lock is held."""
        watched, since, asked, told = b"", 0.0, 0.0, False
        while True:
            number, data = self._last()
            now, holder = time.monotonic(), _parsed(data)
            if data != watched:
                watched, since, asked = data, now, float("-inf")
            free = number == 0 or _is_free(holder)
            if not free and now - asked >= ASK:
                asked = now
                limit = patience(Holder(str(holder.get("host", "")), str(holder.get("maker", ""))))
            if free or now - since >= limit:
                self._number = number + 1
                if self._storage.create(self._path(self._number), self._record()):
                    self._remove_before(self._number)
                    return
                continue
            if not told:
                waiting(f"{holder.get('host', 'another machine')} (process {holder.get('pid')})")
                told = True
            time.sleep(LOOK)

    def beat(self, over: threading.Event) -> None:
        """Give signs of life until it is over, or another process has taken the lock."""
        while not over.wait(BEAT):
            self._beats += 1
            # a storage that is away for a while ends the lock for others, and not the work
            with suppress(StorageError):
                if self._last()[0] != self._number:
                    return
                self._storage.write(self._path(self._number), self._record())

    def give_back(self) -> None:
        """Write that the lock is free, where it is still held. A number is never used again: who
        saw the last holder cannot mistake the next one for it.
        """
        with suppress(StorageError):
            if self._last()[0] == self._number:
                self._storage.write(self._path(self._number), self._record(done=True))

    def _last(self) -> tuple[int, bytes]:
        """Return the highest number and its file; 0 where nobody has held the lock."""
        numbers = [int(name) for name in self._storage.names(self._folder) if name.isdigit()]
        if not numbers:
            return 0, b""
        try:
            return max(numbers), self._storage.read(self._path(max(numbers)))
        except FileNotFoundError:  # its next holder has removed it in between
            return self._last()

    def _remove_before(self, number: int) -> None:
        for name in self._storage.names(self._folder):
            if name.isdigit() and int(name) < number:
                self._storage.delete(f"{self._folder}/{name}")

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}"

    def _record(self, *, done: bool = False) -> bytes:
        record = {"maker": maker_name(), "host": socket.gethostname(), "pid": os.getpid()}
        return json.dumps(
            {**record, "nonce": self._nonce, "beat": self._beats, "done": done}
        ).encode()


def _parsed(data: bytes) -> dict[str, object]:
    """Return a holder's record; an empty one where it is being written, or damaged."""
    try:
        record = json.loads(data)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _is_free(holder: dict[str, object]) -> bool:
    return holder.get("done") is True or process_of(str(holder.get("maker", ""))) is False
