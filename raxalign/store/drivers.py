"""Drivers that work on a storage: each leaves a sign of life with the plan that it runs, so that
nothing is removed that another one uses.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from raxalign.errors import StorageError
from raxalign.store import alive
from raxalign.store._filesystem import Files
from raxalign.store.alive import DAY_SECONDS, beating, maker_name
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage

_TOP, _MARKER = "drivers", "driver.json"
SILENCE = 300.0  # seconds after which a search's driver on another machine counts as dead


@dataclass(frozen=True)
class Sign:
    """The sign of a driver. A process of this machine is asked for. One of another machine counts
    as dead after a day without a new sign, and where its sign is dated more than a day ahead.
    """

    name: str
    host: str
    pid: int
    plan: str  # its place in the storage; that of the sign itself where it is damaged
    lives: bool

    @property
    def own(self) -> bool:
        """Whether it is the sign of this process."""
        return self.name == maker_name()


@recorded
class _Left:
    """What a driver leaves; one that searches leaves another one without a plan."""

    name: str
    host: str
    pid: int
    at: float
    plan: str = ""


@contextmanager
def signed_on(storage: Storage, plan: str) -> Iterator[None]:
    """Give signs of life for this process, with the place of the plan that it runs, until the block
    ends.
    """
    beat = partial(_write, storage.files, plan)
    beat()
    try:
        with beating(beat, every=alive.BEAT_SECONDS, name="raxalign-driver"):
            yield
    finally:
        with suppress(StorageError):
            remove_sign(storage, maker_name())


def signs(storage: Storage) -> list[Sign]:
    """Return the signs of all drivers, dead ones included. One that is damaged counts as one whose
    plan is not known, and that was given when its file was written.
    """
    files, found = storage.files, []
    paths = [f"{path}/{_MARKER}" for path in files.marked(_TOP, 1, _MARKER)]
    for path, data in files.read_many(paths).items():
        name = path.split("/")[1]
        try:
            left = unseal(data, _Left)
        except ValueError:
            left = _Left(name, "an unknown machine", 0, files.modified(path))
        # a plan is looked for in the storage itself, whatever place its sign names
        plan = files.place(f"plans/{left.plan.rpartition('/')[2]}" if left.plan else path)
        lives = alive.lives(name, time.time() - left.at, DAY_SECONDS)
        found.append(Sign(name, left.host, left.pid, plan, lives))
    return found


def clock_lead(storage: Storage) -> float:
    """Return the seconds by which the clock of a storage is ahead of this machine's: it dates a
    file that is written now. Where none can be written, the two are taken to agree.
    """
    files, path = storage.files, alive.temporary_name("clock")
    with suppress(StorageError):
        files.write(path, b"")
        lead = files.modified(path) - time.time()
        files.delete(path)
        return lead
    return 0.0


def dated_sign(name: str, lead: float) -> bytes:
    """Return the sign of a driver that searches, dated by the clock of the storage, which is so
    many seconds ahead.
    """
    return seal(vars(_Left(name, socket.gethostname(), os.getpid(), time.time() + lead)))


def is_alive(sign: bytes, lead: float) -> bool:
    """Return whether the driver that left a dated sign lives: on this machine its process is asked,
    on another one the age of the sign decides. What cannot be read counts as none.
    """
    try:
        left = unseal(sign, _Left)
    except ValueError:
        return False
    return alive.lives(left.name, time.time() + lead - left.at, SILENCE)


def remove_sign(storage: Storage, name: str) -> None:
    """Remove the sign of a driver; nothing where there is none."""
    storage.files.remove(f"{_TOP}/{name}", _MARKER)


def _write(files: Files, plan: str) -> None:
    name = maker_name()
    record = _Left(name, socket.gethostname(), os.getpid(), time.time(), plan)
    files.write(f"{_TOP}/{name}/{_MARKER}", seal(vars(record)))
