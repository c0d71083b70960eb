"""The checkpoints of a stage's training: a folder of this machine, and a copy in the storage where
that is an object store. Another machine goes on from the copy.

Each process that trains has a copy of its own, ``checkpoints/<key>/<process>/``. So one that was
silent for so long that another took over, and does not know it yet, overwrites nothing. A copy is
removed by a process that is further, and the furthest one is gone on from. One that was there when
a process began, and is still further when it copies for the first time, was of no use to it (of
another version of the training, or damaged): it is removed too.

Beside the checkpoints stands the time that processes took up to there, so that a training run
that was killed is said to have taken what it took.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store.alive import discard, temporary_name
from raxalign.store.artifacts import Inside, Sha256
from raxalign.store.disk import PosixFiles
from raxalign.store.key import file_digest
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage
from raxalign.train.checkpoint import kept_steps

_INDEX, _WORKED = "index.json", "worked"


@recorded
class _Index:
    files: Mapping[Inside, Sha256]


@recorded
class _Worked:
    seconds: float


class Mirror:
    """The copy of a folder at one path of a storage."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._files, self._path = storage.files, path

    @property
    def place(self) -> str:
        """The URL or path of the copy."""
        return f"{self._files.root}/{self._path}"

    def version(self) -> str | None:
        """Return what tells the copy of one moment from another one; None where there is no whole
        copy.
        """
        found = self._index()
        return found[0] if found else None

    def names(self) -> list[str]:
        """Return the names of the files of the copy; none where there is no copy."""
        index = self._index()
        return [] if index is None else sorted(index[1])

    def push(self, files: Mapping[str, Path]) -> str:
        """Make the copy hold exactly these files, by their relative paths with ``/``; returns its
        version. Files that are there already are not sent again.

        Raises `StorageError` where the storage cannot be written; the copy then stays what it was.
        """
        digests = {name: file_digest(path) for name, path in files.items()}
        there = set(self._files.names(f"{self._path}/files"))
        for name, digest in digests.items():
            if digest not in there:
                self._files.write(f"{self._path}/files/{digest}", files[name])
                there.add(digest)
        data = seal({"files": digests})
        self._files.write(f"{self._path}/{_INDEX}", data)
        for digest in there - set(digests.values()):
            self._files.delete(f"{self._path}/files/{digest}")
        return hashlib.sha256(data).hexdigest()

    def pull(self, folder: Path) -> str | None:
        """Replace a local folder by the copy; returns its version. Where there is no whole copy,
        None is returned and the folder stays as it is.
        """
        found = self._index()
        if found is None:
            return None
        version, digests = found
        aside = folder.with_name(temporary_name(folder.name))
        try:
            for name, digest in digests.items():
                file = aside / name
                file.parent.mkdir(parents=True, exist_ok=True)
                self._files.download(f"{self._path}/files/{digest}", file)
                if file_digest(file) != digest:
                    return None
            aside.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        except FileNotFoundError:  # replaced or removed in between
            return None
        finally:
            discard(aside)
        return version

    def remove(self) -> None:
        """Remove the copy, its index first."""
        self._files.delete(f"{self._path}/{_INDEX}")
        self._files.remove(self._path)

    def _index(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the version of the index, the digest of its bytes, and those of files by name."""
        try:
            data = self._files.read(f"{self._path}/{_INDEX}")
            return hashlib.sha256(data).hexdigest(), unseal(data, _Index).files
        except (FileNotFoundError, ValueError):
            return None


SHARE = 0.1
"""The largest share of a training's time that goes into copying its checkpoints."""


class Checkpoints:
    """The checkpoints of one stage. Who uses them holds its lock. `seconds` is how long the
    processes before this one worked on it, each until its last checkpoint.
    """

    def __init__(self, storage: Storage, key: str) -> None:
        self.folder = storage.local / "checkpoints" / key
        self._storage, self._path = storage, f"checkpoints/{key}"
        self._own = (
            Mirror(storage, f"{self._path}/{uuid.uuid4().hex}") if storage.is_remote else None
        )
        self._next, self._before = 0.0, set[str]()
        self._alone = False
        self.seconds, self._begun = 0.0, time.monotonic()

    def restore(self) -> None:
        """Fetch the furthest copy, unless this machine's own folder is as far, or further."""
        self._fetch()
        self.seconds, self._begun = self._worked(), time.monotonic()

    def _worked(self) -> float:
        try:
            return unseal((self.folder / _WORKED).read_bytes(), _Worked).seconds
        except FileNotFoundError:
            return 0.0
        except ValueError as error:
            told = f"{self.folder / _WORKED} {error}: the time until the last checkpoint is unknown"
            warnings.warn(told, stacklevel=3)
            return 0.0

    def _fetch(self) -> None:
        here, copies = kept_steps(self.folder), self._copies()
        self._before, self._alone = {place for _, place, _ in copies}, False
        for steps, _, copy in reversed(copies):
            if steps <= here:
                return
            if copy.pull(self.folder) is not None:
                return
            warnings.warn(f"{copy.place}: damaged checkpoints are passed over", stacklevel=2)

    def saved(self) -> None:
        """Note the time, and copy what is there to the storage, after a checkpoint was written.
        Where the copies of large checkpoints would take more than `SHARE` of the time, some are
        left out. What of this fails is a warning: the training goes on.
        """
        start = time.monotonic()
        worked = seal({"seconds": self.seconds + start - self._begun})
        try:
            PosixFiles(str(self.folder)).write(_WORKED, worked)
        except StorageError as error:
            warnings.warn(f"the time of a training run was not noted: {error}", stacklevel=2)
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
                self._storage.files.remove(self._path)
        except StorageError as error:
            warnings.warn(f"checkpoints are left in the storage: {error}", stacklevel=2)

    def _copies(self) -> list[tuple[int, str, Mirror]]:
        """Return the copies in an object store, the furthest last: its steps, its place, itself."""
        if self._own is None:
            return []
        names = self._storage.files.names(self._path)
        owners = {name.partition("/")[0] for name in names if name.endswith("/index.json")}
        copies = [Mirror(self._storage, f"{self._path}/{owner}") for owner in sorted(owners)]
        found = [(kept_steps(copy.names()), copy.place, copy) for copy in copies]
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
