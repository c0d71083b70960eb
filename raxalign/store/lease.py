"""Who works on a storage: locks that hold across machines, with an owner, a sign of life and an
end. Stages, evaluations, writers of runs, drivers and searches hold one each.

A lock is a folder with one file per holder, numbered from 1. Who wants it creates the file with the
next number, which only one process can; the file with the highest number is the holder's. The
holder writes its file again every `BEAT` seconds. It is free when the holder has written that it is
done, when its process is dead (known on its own machine), or when the file did not change for
`Locks.EXPIRY` seconds on the clock of who waits: clocks of two machines are never compared. Who can
ask another machine, as on a Ray cluster, need not wait so long.

No lock of this kind can stop a process that was silent from waking up. What makes it safe is that
numbers only grow: the highest file is never removed, so that a process that was overtaken finds a
higher number and learns it. A process may be stopped at any point, and go on later:

* Between its look and its creation: the number that it creates may have been held and removed
  meanwhile. So it looks once more after the creation, and where another number is higher, or the
  holder that it saw is gone, it removes its own and begins again.
* While it holds the lock, for longer than others wait: the next holder has a higher number. Its
  next sign of life finds that, and from then on `Held.check` raises `LeaseLost`.
* Between the look of a sign of life, or of giving back, and its writing: the file comes back below
  the highest one. Nobody reads it, and the next holder removes it.
* While its request is made again, as NFS and object stores do after a lost answer: creating finds
  its own file and counts as done (`Files.create`).

A lock that was given back stays as one file. Were it removed, numbers would begin anew, and a
process that was stopped before could take itself for the holder. `raxalign gc` removes free locks
while no driver lives. A lock with the name of a process in its own (`own_name`) is different: no
other process ever takes it. It shows that its holder lives, and what it works on, and is removed
when it is given back. Between the loss of a lock and the next sign of life two processes may work
at once. So what they do must bear that: an artifact is published once, and of checkpoints the
furthest one stays.
"""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

from raxalign.errors import LeaseLost, StorageError
from raxalign.store.alive import (
    DAY_SECONDS,
    beating,
    maker_name,
    process_of,
    temporary_name,
)
from raxalign.store.disk import Files
from raxalign.store.sealed import recorded, seal, unseal

BEAT, LOOK = 20.0, 1.0
"""Seconds between two signs of life, and between two looks of who waits."""
_TOP = "locks"
_NUMBER = re.compile("[1-9][0-9]*")


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock: the name of its host, the name that no other process has, and
    what it holds the lock for, where it said so.
    """

    host: str
    process: str
    purpose: str = ""

    def lives(self) -> bool | None:
        """Return whether it lives; None on another machine than its own, and after a new start of
        its own.
        """
        return process_of(self.process)


class Locks:
    """The locks of a storage."""

    EXPIRY: ClassVar = 180.0
    """Seconds until a silent holder loses its lock."""
    ASK: ClassVar = 5.0
    """Seconds between two questions whether the holder lives."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @contextmanager
    def hold(
        self,
        name: str,
        waiting: Callable[[str], None] | None = None,
        patience: Callable[[Holder], float] | None = None,
        purpose: str = "",
    ) -> Iterator[Held]:
        """Wait until no other process of any machine holds the lock of this name, and hold it.
        Raises `StorageError` where the storage cannot be read or written.

        Args:
            name: The name of the lock, which may hold ``/``.
            waiting: Called once with the holder's host and process where the lock is held.
            patience: Returns the seconds of silence after which a holder loses the lock: 0 for one
                that is known to be dead (None: `EXPIRY` for all). It is asked every `ASK` seconds.
            purpose: What others are shown of this holder (`Holder.purpose`).
        """
        held = Held(self._files, name, purpose)
        held.take(waiting, patience)
        try:
            with beating(held.beat, every=BEAT, name="raxalign-lease"):
                yield held
        finally:
            held.give_back()

    @staticmethod
    def own_name(kind: str, of: str = "") -> str:
        """Return the name of a lock that this process alone takes, of a kind and with what it works
        on: ``<kind>/<process>-<random>.<of>``.
        """
        return f"{kind}/{maker_name()}-{uuid.uuid4().hex[:8]}.{of}".rstrip(".")

    def living(self, kind: str = "", silence: float = DAY_SECONDS) -> dict[str, str]:
        """Return the names of the locks (of a kind, or all) that a living process holds, each with
        its host and process. Its own machine knows whether a process lives. One of another machine
        lives where its last sign is less than `silence` seconds old, by the clock of the storage
        alone.
        """
        files, highest, now = self._files, dict[str, int](), None
        for path in files.names(f"{_TOP}/{kind}".rstrip("/")):
            name, _, number = f"{kind}/{path}".lstrip("/").rpartition("/")
            if name and _NUMBER.fullmatch(number):
                highest[name] = max(highest.get(name, 0), int(number))
        places = {f"{_TOP}/{name}/{number}": name for name, number in highest.items()}
        found = dict[str, str]()
        for place, data in files.read_many(list(places)).items():
            holder = _parsed(data)
            lives = process_of(holder.maker)
            with suppress(FileNotFoundError):  # given back meanwhile
                if lives is None and not holder.done:
                    now = _clock(files) if now is None else now
                    lives = abs(now - files.modified(place)) < silence
            if lives and not holder.done:
                found[places[place]] = holder.who
        return found


def _clock(files: Files) -> float:
    """Return the time by the clock of a storage, which dates a file that is written now. Where none
    can be written, that of this machine stands for it.
    """
    path = temporary_name("clock")
    with suppress(StorageError, FileNotFoundError):
        files.write(path, b"")
        now = files.modified(path)
        files.delete(path)
        return now
    return time.time()


class Held:
    """One process's part in a lock."""

    def __init__(self, files: Files, name: str, purpose: str = "") -> None:
        self._files, self._purpose, self._folder = files, purpose, f"{_TOP}/{name}"
        self._nonce = uuid.uuid4().hex
        self._number, self._beats, self._lost = 0, 0, False
        self._own = maker_name() in name  # nobody else takes it: it may come back where it is gone

    def take(
        self,
        waiting: Callable[[str], None] | None = None,
        patience: Callable[[Holder], float] | None = None,
    ) -> None:
        """Return when the lock is held."""
        watched, since, asked, told = b"", 0.0, 0.0, False
        while True:
            number, data = self._last()
            now, holder = time.monotonic(), _parsed(data)
            if data != watched:
                watched, since, asked = data, now, float("-inf")
            free = number == 0 or holder.done or process_of(holder.maker) is False
            if not free and now - asked >= Locks.ASK:
                asked = now
                who = Holder(holder.host, holder.maker, holder.purpose)
                limit = patience(who) if patience else Locks.EXPIRY
            if free or now - since >= limit:
                if self._create_after(number):
                    return
                continue
            if waiting and not told:
                waiting(holder.who)
                told = True
            time.sleep(LOOK)

    def check(self) -> None:
        """Raise `LeaseLost` where the last sign of life has found that another process has taken
        the lock. The storage is not asked, so this may be called often.
        """
        if self._lost:
            raise LeaseLost(
                f"{self._files.root}/{self._folder}: another process has taken this lock, since"
                " this one gave no sign of life for too long. What it makes is the other one's now"
            )

    def beat(self) -> None:
        """Give a sign of life, or find that another process has taken the lock. A storage that is
        away for a while ends the lock for others, and not the work.
        """
        if self._own or self.is_held():
            self._beats += 1
            self._files.write(self._path(self._number), self._record())

    def is_held(self) -> bool:
        """Ask the storage whether this process still holds the lock."""
        self._lost = self._lost or max(self._numbers(), default=0) != self._number
        return not self._lost

    def give_back(self) -> None:
        """Write that the lock is free, where it is still held; remove one of its own."""
        with suppress(StorageError):
            if self._own:
                self._files.remove(self._folder)
            elif self.is_held():
                self._files.write(self._path(self._number), self._record(done=True))

    def _create_after(self, number: int) -> bool:
        """Take the lock after the holder of a number; return whether that was possible."""
        own = number + 1
        if not self._files.create(self._path(own), self._record()):
            return False
        there = self._numbers()
        if max(there, default=0) != own or (number and number not in there):
            self._files.delete(self._path(own))  # this process was too slow
            return False
        self._number = own
        for old in there - {own}:
            self._files.delete(self._path(old))
        return True

    def _numbers(self) -> set[int]:
        names = self._files.names(self._folder)
        return {int(name) for name in names if _NUMBER.fullmatch(name)}

    def _last(self) -> tuple[int, bytes]:
        """Return the highest number and its file; 0 where nobody has held the lock."""
        while numbers := self._numbers():
            # else its next holder has removed it in between
            with suppress(FileNotFoundError):
                return max(numbers), self._files.read(self._path(max(numbers)))
        return 0, b""

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number}"

    def _record(self, *, done: bool = False) -> bytes:
        who = (maker_name(), socket.gethostname(), os.getpid())
        return seal(vars(_Record(*who, self._nonce, self._beats, done, self._purpose)))


@recorded
class _Record:
    """What a holder writes."""

    maker: str
    host: str
    pid: int | None
    nonce: str
    beat: int
    done: bool
    purpose: str = ""

    @property
    def who(self) -> str:
        """Its host and process."""
        return f"{self.host or 'another machine'} (process {self.pid})"


def _parsed(data: bytes) -> _Record:
    """Return a holder's record; that of nobody where it is being written, or damaged."""
    try:
        return unseal(data, _Record, bare=True)
    except ValueError:
        return _Record("", "", None, "", 0, done=False)
