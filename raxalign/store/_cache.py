"""The machine's copies of what an object store holds, within a limit.

A copy that was used longest ago gives way to a new one, unless a living process uses it. Each
`Cache` writes what it uses into a file of its own, whose name holds the process; the file goes with
the `Cache` or, where the process was killed, with the next look.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from raxalign.store._faults import told
from raxalign.store._filesystem import Problem, make_folders
from raxalign.store.alive import PREFIX, discard, is_abandoned, temporary_name
from raxalign.store.key import digest
from raxalign.store.lock import turn

DEFAULT_GIB = 50.0
LIMIT = "RAXALIGN_CACHE_GIB"
_SHORT = 16  # hexadecimal digits in the name of a copy
_COPIES = ("artifacts/*/*/*/*", "ledger/*/*", "small/*")
_LOOK = 0.02  # of the limit: what may be added before the cache is looked through again
_ADDED: dict[Path, float] = {}  # bytes that this process added to a cache since its last look
_USERS, _SMALL = "users", "small"


def local_cache(root: str) -> Path:
    """Return the folder of this machine for an object store: copies, downloads, checkpoints."""
    base = os.environ.get("RAXALIGN_CACHE") or "~/.cache/raxalign"
    return Path(base).expanduser().absolute() / digest(root.rstrip("/"))[:16]


class Cache:
    """The copies of one storage, in one folder of this machine that all its processes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._users = folder / _USERS / temporary_name("use").removeprefix(PREFIX)
        self._used: set[Path] = set()
        weakref.finalize(self, discard, self._users)

    def use(self, path: str, marker: bytes) -> Path:
        """Return the place of a copy, which stays there as long as this object lives. A folder that
        is made again has another marker, and so never replaces one that is in use.
        """
        place = self._place(path, marker)
        with told(str(self.folder), "write"):
            if place not in self._used:
                with turn(self.folder / ".lock"):
                    make_folders(self._users.parent)
                    with self._users.open("a") as file:
                        file.write(f"{place.relative_to(self.folder)}\n")
                self._used.add(place)
            with suppress(FileNotFoundError):
                os.utime(place)
        return place

    def keep(self, staged: Path, path: str, marker: bytes, problem: Problem) -> None:
        """Make a staged folder the copy, unless another process has put a whole one there. Older
        ones are removed where there is too much.
        """
        cached = self.use(path, marker)
        with told(str(cached), "write"):
            make_folders(cached.parent)
            while True:
                try:
                    staged.rename(cached)
                    os.utime(cached)
                except OSError:
                    if not cached.exists():
                        raise
                    if problem(cached) is None:
                        return
                    damaged = cached.with_name(temporary_name(cached.name))
                    with suppress(FileNotFoundError):
                        cached.rename(damaged)
                    discard(damaged)
                    continue
                break
        new = _ADDED.get(self.folder, float("inf")) + _size(cached)
        if new >= limit_bytes() * _LOOK:  # a look reads all folders
            # another process removes or replaces what is looked at: the next look sees the rest
            with suppress(FileNotFoundError):
                self.evict()
            new = 0.0
        _ADDED[self.folder] = new

    def drop(self, path: str, marker: bytes) -> None:
        """Remove a copy."""
        discard(self._place(path, marker))

    def evict(self) -> int:
        """Remove the copies that were used longest ago and that no living process uses, until the
        rest is within the limit; returns the bytes that were freed.
        """
        found = [place for pattern in _COPIES for place in self.folder.glob(pattern)]
        whole = (place for place in found if not place.name.startswith(PREFIX) and place.is_dir())
        copies = sorted((place.stat().st_mtime, place) for place in whole)
        sizes = {place: _size(place) for _, place in copies}
        over, freed = sum(sizes.values()) - limit_bytes(), 0
        doomed: list[Path] = []
        if over > 0:
            with turn(self.folder / ".lock"):  # no process uses another copy meanwhile
                used = self._in_use()
                for _, place in copies:
                    if freed < over and place not in used:
                        aside = place.with_name(temporary_name(place.name))
                        with suppress(FileNotFoundError):
                            place.rename(aside)
                            doomed.append(aside)
                            freed += sizes[place]
        for place in doomed:
            discard(place)
            with suppress(OSError):  # folders of other copies stay
                place.parent.rmdir()
        return freed

    def remembered(self, stamps: Mapping[str, str | None]) -> dict[str, bytes]:
        """Return the bytes of the small objects that this machine has read under these stamps."""
        found = {}
        for path, stamp in stamps.items():
            with suppress(OSError):
                data = self._small(path, stamp).read_bytes() if stamp else b""
                if hashlib.sha256(data[32:]).digest() == data[:32]:
                    found[path] = data[32:]
        return found

    def remember(self, stamps: Mapping[str, str | None], found: Mapping[str, bytes]) -> None:
        """Keep the bytes of small objects. It is a help: what cannot be written is not kept."""
        for path, data in found.items():
            if (stamp := stamps[path]) is None:
                continue
            place = self._small(path, stamp)
            partial = place.with_name(temporary_name(place.name))
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(hashlib.sha256(data).digest() + data)
                partial.rename(place)

    def _small(self, path: str, stamp: str) -> Path:
        name = digest([path, stamp])
        return self.folder / _SMALL / name[:2] / name[:32]

    def _place(self, path: str, marker: bytes) -> Path:
        return self.folder / path / hashlib.sha256(marker).hexdigest()[:_SHORT]

    def _in_use(self) -> set[Path]:
        """Return the copies that living processes use."""
        used: set[Path] = set()
        for file in (self.folder / _USERS).glob("*"):
            if is_abandoned(file):
                discard(file)
                continue
            with suppress(FileNotFoundError):
                used.update(
                    self.folder / line for line in file.read_text(errors="replace").splitlines()
                )
        return used


def limit_bytes() -> float:
    """Return how much the copies of a storage may take: `RAXALIGN_CACHE_GIB`, which `run.cache_gib`
    sets for the workers of a grid.
    """
    try:
        return float(os.environ.get(LIMIT) or DEFAULT_GIB) * 2**30
    except ValueError:
        return DEFAULT_GIB * 2**30


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total
