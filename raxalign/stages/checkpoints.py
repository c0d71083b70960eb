"""The checkpoints of a stage's training: a folder of this machine, and a copy in the storage where
that is an object store. Another machine goes on from the copy.

Each process that trains has a copy of its own, ``checkpoints/<key>/<process>/``. So one that was
silent for so long that another took over, and does not know it yet, overwrites nothing. A copy is
removed by a process that is further, and the furthest one is gone on from. One that was there when
a process began, and is still further when it copies for the first time, was of no use to it (of
another version of the training, or damaged): it is removed too.
"""

from __future__ import annotations

import shutil
import time
import uuid
import warnings

from raxalign.errors import StorageError
from raxalign.store.mirror import Mirror
from raxalign.store.storage import Storage
from raxalign.train.checkpoint import kept_steps, newest_steps

SHARE = 0.1
"""The largest share of a training's time that goes into copying its checkpoints."""


class Checkpoints:
    """The checkpoints of one stage. Who uses them holds the lock of the stage."""

    def __init__(self, storage: Storage, key: str) -> None:
        self.folder = storage.local / "checkpoints" / key
        self._storage, self._path = storage, f"checkpoints/{key}"
        self._own = (
            Mirror(storage, f"{self._path}/{uuid.uuid4().hex}") if storage.is_remote else None
        )
        self._next, self._before = 0.0, set[str]()
        self._alone = False

    def restore(self) -> None:
        """Fetch the furthest copy, unless this machine's own folder is as far, or further."""
        here, copies = kept_steps(self.folder), self._copies()
        self._before, self._alone = {place for _, place, _ in copies}, False
        for steps, _, copy in reversed(copies):
            if steps <= here:
                return
            if copy.pull(self.folder) is not None:
                return
            warnings.warn(f"{copy.place}: damaged checkpoints are passed over", stacklevel=2)

    def saved(self) -> None:
        """Copy what is there to the storage, after a checkpoint was written. Where the copies of
        large checkpoints would take more than `SHARE` of the time, some are left out. A copy that
        fails is a warning: the training goes on.
        """
        start = time.monotonic()
        if self._own is None or start < self._next:
            return
        paths = {path.relative_to(self.folder): path for path in sorted(self.folder.rglob("*"))}
        files = {
            name.as_posix(): path
            for name, path in paths.items()
            if path.is_file() and not any(part.startswith(".") for part in name.parts)
        }
        try:
            self._own.push(files)
            if not self._alone:
                self._remove_others(self._own.place)
        except StorageError as error:
            warnings.warn(f"a checkpoint was not copied to the storage: {error}", stacklevel=2)
        end = time.monotonic()
        self._next = end + (end - start) * (1 - SHARE) / SHARE

    def steps(self) -> int:
        """Return how far the trainings of the stage are, as the newest checkpoints show it: those
        that every machine can go on from.
        """
        if self._own is None:
            return kept_steps(self.folder)
        return max((steps for steps, _, _ in self._copies()), default=0)

    def remove(self) -> None:
        """Remove them here and in the storage, after the training has ended. A copy that cannot be
        removed is a warning: what was trained is there.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            if self._own is not None:
                self._storage.files.delete_all(self._path)
        except StorageError as error:
            warnings.warn(f"checkpoints are left in the storage: {error}", stacklevel=2)

    def _copies(self) -> list[tuple[int, str, Mirror]]:
        """Return the copies in an object store, the furthest last: its steps, its place, itself."""
        if self._own is None:
            return []
        names = self._storage.files.names(self._path)
        owners = {name.partition("/")[0] for name in names if name.endswith("/index.json")}
        copies = [Mirror(self._storage, f"{self._path}/{owner}") for owner in sorted(owners)]
        found = [(newest_steps(copy.names()), copy.place, copy) for copy in copies]
        return sorted(found, key=lambda entry: entry[:2])

    def _remove_others(self, own: str) -> None:
        """Remove the copies that the own one has overtaken, and those that were of no use."""
        copies = self._copies()
        places = [place for _, place, _ in copies]
        behind = places[: places.index(own)] if own in places else []
        for _, place, copy in copies:
            if place in behind or (place in self._before and place != own):
                copy.remove()
        self._alone = True
