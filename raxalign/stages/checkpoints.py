"""The checkpoints of a stage's training: a folder of this machine, and a copy in the storage where
that is an object store. Another machine goes on from the copy.
"""

from __future__ import annotations

import shutil
import time
import warnings
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store.files import is_remote
from raxalign.store.mirror import Mirror
from raxalign.train.steps import kept_steps, newest_steps

SHARE = 0.1
"""The largest share of a training's time that goes into copying its checkpoints."""


class Checkpoints:
    """The checkpoints of one stage. Who uses them holds the lock of the stage."""

    def __init__(self, root: str, local: Path, key: str) -> None:
        self.folder = local / "checkpoints" / key
        self._mark = self.folder.with_name(f".{key}.copied")
        self._mirror = Mirror(root, f"checkpoints/{key}") if is_remote(root) else None
        self._next = 0.0

    def restore(self) -> None:
        """Fetch the copy, unless this machine's own folder goes on from it: then the folder is as
        new, or newer.
        """
        if self._mirror is None:
            return
        version = self._mirror.version()
        if version is None or (self.folder.exists() and self._marked() == version):
            return
        fetched = self._mirror.pull(self.folder)
        if fetched is None:
            warnings.warn(
                f"{self._mirror.place}: damaged checkpoints are passed over", stacklevel=2
            )
        else:
            self._set_mark(fetched)

    def saved(self) -> None:
        """Copy what is there to the storage, after a checkpoint was written. Where the copies of
        large checkpoints would take more than `SHARE` of the time, some are left out. A copy that
        fails is a warning: the training goes on.
        """
        start = time.monotonic()
        if self._mirror is None or start < self._next:
            return
        files = {
            path.relative_to(self.folder).as_posix(): path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not _hidden(path.relative_to(self.folder))
        }
        try:
            self._set_mark(self._mirror.push(files))
        except StorageError as error:
            warnings.warn(f"a checkpoint was not copied to the storage: {error}", stacklevel=2)
        end = time.monotonic()
        self._next = end + (end - start) * (1 - SHARE) / SHARE

    def steps(self) -> int:
        """Return how far the trainings of the stage are, as the newest checkpoints show it: those
        that every machine can go on from.
        """
        if self._mirror is None:
            return kept_steps(self.folder)
        return newest_steps(self._mirror.names())

    def remove(self) -> None:
        """Remove them here and in the storage, after the training has ended. A copy that cannot be
        removed is a warning: what was trained is there.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self._mark.unlink(missing_ok=True)
        try:
            if self._mirror is not None:
                self._mirror.remove()
        except StorageError as error:
            warnings.warn(f"checkpoints are left in the storage: {error}", stacklevel=2)

    def _marked(self) -> str:
        try:
            return self._mark.read_text()
        except OSError:
            return ""

    def _set_mark(self, version: str) -> None:
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        self._mark.write_text(version)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
