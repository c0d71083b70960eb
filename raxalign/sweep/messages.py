"""Lines that workers leave in Ray's scratch folder for the screen of the driver: what holds a step
up, and what plug-ins print and log (`said`).
"""

from __future__ import annotations

import time
from contextlib import suppress

from raxalign.store.files import files_of, split_place

EVERY = 5.0  # seconds between two looks of the driver
HELD_UP, SAID = "notices", "said"  # the folders


def leave_notice(scratch: str, key: str, text: str, *, folder: str = HELD_UP) -> None:
    """Leave a line about a trial or a stage. Where it cannot be written, the work goes on."""
    if not scratch:
        return
    # object stores raise anything, and a line stops nothing
    with suppress(Exception):
        storage, name = split_place(f"{scratch}/{folder}/{time.time_ns():020d}-{key}")
        storage.write(name, text.encode())


class Notices:
    """What workers have left, as the driver reads it."""

    def __init__(self, scratch: str, folder: str = HELD_UP) -> None:
        self._folder = f"{scratch}/{folder}" if scratch else ""
        self._seen: set[str] = set()
        self._looked = time.monotonic()

    def new(self, *, last: bool = False) -> list[tuple[str, str]]:
        """Return the lines since the last look, oldest first, each with the key of its trial or
        stage; none where that was a moment ago, unless this is the `last` look.
        """
        now = time.monotonic()
        if not self._folder or (now - self._looked < EVERY and not last):
            return []
        self._looked = now
        # a sweep whose lines cannot be read goes on all the same
        with suppress(Exception):
            storage = files_of(self._folder)
            names = sorted(storage.names("").keys() - self._seen)
            found = storage.read_many(names)
            self._seen.update(found)
            return [(n.partition("-")[2], found[n].decode()) for n in names if n in found]
        return []
