"""Artifacts: a directory per key, made aside, published last, and never used when a byte of it is
not as it was made.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.store._filesystem import (
    Files,
    Published,
    damaged,
    sizes_of,
    staging,
    told,
    told_of_build,
)
from raxalign.store.files import files_of
from raxalign.store.key import Json, checked, is_name
from raxalign.store.manifest import MANIFEST, Manifest, Verified


def as_umask_says(folder: Path) -> None:
    """Give every file and folder below `folder` the permissions that the umask gives new ones:
    some libraries make files that only their owner can read. Permissions beyond these stay.
    `folder` was made by `mkdir`, and so shows the umask.
    """
    of_folders = folder.stat().st_mode & 0o777
    for parent, folders, files in os.walk(folder):
        for names, wanted in ((folders, of_folders), (files, of_folders & 0o666)):
            for path in (Path(parent, name) for name in names):
                mode = path.lstat().st_mode & 0o7777
                if not path.is_symlink() and mode & wanted != wanted:
                    path.chmod(mode | wanted)


_verified = Verified()


class ArtifactStore:
    """The artifacts of a storage root: a local or shared folder, or an object store URL that fsspec
    knows.

    An artifact is the folder ``<root>/artifacts/<kind>/<first two of the key>/<key>/``, and is
    whole when it has its manifest. On an object store its files are below that in a folder named by
    their digest, and `open` copies them into ``RAXALIGN_CACHE`` (default ``~/.cache/raxalign``).
    """

    def __init__(self, root: str, files: Files | None = None) -> None:
        self.root = str(root)
        self._storage = files if files is not None else files_of(self.root)

    def folder(self, kind: str, key: str) -> str:
        """Return the place of an artifact, whether it exists or not: an absolute path or a URL."""
        return f"{self._storage.root}/{_path(kind, key)}"

    def has(self, kind: str, key: str) -> bool:
        """Return whether an artifact was published; cheap, does not look at its bytes."""
        return bool(self._storage.existing([f"{_path(kind, key)}/{MANIFEST}"]))

    def present(self, wanted: Iterable[tuple[str, str]]) -> set[str]:
        """Return the keys of those of the artifacts (kind, key) that were published; on an object
        store by one listing.
        """
        paths = _markers(wanted)
        return {paths[path][1] for path in self._storage.existing(list(paths))}

    def manifests(self, wanted: Iterable[tuple[str, str]]) -> dict[str, Manifest]:
        """Return by key what those of the artifacts (kind, key) consist of that were published;
        unusable ones are set aside with a warning that names them.
        """
        paths = _markers(wanted)
        found = {}
        for path, data in self._storage.read_many(list(paths)).items():
            kind, key = paths[path]
            try:
                found[key] = self._parse(kind, key, data)
            except DamagedArtifact as error:
                warnings.warn(str(error), stacklevel=2)
        return found

    def manifest(self, kind: str, key: str) -> Manifest:
        """Return what an artifact consists of; StorageError where there is none, DamagedArtifact
        (and it is set aside) if the manifest is unusable.
        """
        return self._manifest(kind, key)[0]

    def open(self, kind: str, key: str) -> Path:
        """Return the local folder of an artifact, compared with its manifest at first use in this
        process.

        A damaged one is set aside, and DamagedArtifact names the file and what is wrong with it;
        StorageError where there is none.
        """
        manifest, seen = self._manifest(kind, key)
        folder, problem = self._fetch(manifest, seen)
        if problem is not None:
            raise self._set_aside(kind, key, problem, seen)
        return folder

    def verify(self, kind: str, key: str) -> bool:
        """Compare an artifact with its manifest anew; a damaged one is set aside with a warning
        that names it, and False returned.

        On an object store the sizes of the files there are compared, and the bytes of the copy that
        `open` gives (the store keeps its own).
        """
        try:
            manifest, seen = self._manifest(kind, key)
            problem = self._fresh_problem(_path(kind, key), manifest, seen)
            if problem is not None:
                raise self._set_aside(kind, key, problem, seen)
        except DamagedArtifact as error:
            warnings.warn(str(error), stacklevel=2)
            return False
        except StorageError:
            if self.has(kind, key):
                raise
            return False
        return True

    def make(self, kind: str, key: str, build: Callable[[Path], Mapping[str, Json]]) -> Path:
        """Return the folder of an artifact: the existing one if it is whole, else what
        `build(folder)` writes; the result of `build` becomes the notes.

        Nothing is visible before everything is written and synced. Of two processes that make the
        same key both get the first one's. What `build` raises passes through and leaves nothing
        behind; a full disk and the like become StorageError.
        """
        if self.has(kind, key):
            try:
                return self.open(kind, key)
            except DamagedArtifact as error:
                warnings.warn(f"{error} It is made again.", stacklevel=2)
            except StorageError:
                if self.has(kind, key):
                    raise  # else another process has set it aside in between
        path = _path(kind, key)
        with staging(self._storage, path) as staged:
            start = time.monotonic()
            with told_of_build(str(staged)):
                notes = build(staged)
            with told(f"{self._storage.root}/{path}", "write"):
                as_umask_says(staged)
                manifest = Manifest.describe(staged, kind, key, notes, time.monotonic() - start)
                data = manifest.to_bytes()
                (staged / MANIFEST).write_bytes(data)
            _verified.trust(staged)
            if not self._storage.publish(staged, path, MANIFEST, manifest.content):
                # somebody was first: theirs, unless it is damaged
                return self.make(kind, key, build)
        # not `open`: who repairs the same damage at the same time may have taken the marker away
        # again, and this is whole
        return self._fetch(manifest, data)[0]

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield (kind, key) of every artifact."""
        for path in self._storage.marked("artifacts", 3, MANIFEST):
            _, kind, start, key = path.split("/")
            if is_name(kind) and is_name(key) and key.startswith(start):
                yield kind, key

    def size(self, kind: str, key: str) -> int:
        """Bytes of an artifact's files."""
        return self.manifest(kind, key).size

    def remove(self, kind: str, key: str) -> None:
        """Remove an artifact; nothing where there is none."""
        self._storage.remove(_path(kind, key), MANIFEST)

    def _manifest(self, kind: str, key: str) -> tuple[Manifest, bytes]:
        path = f"{_path(kind, key)}/{MANIFEST}"
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            raise StorageError(
                f"{self.folder(kind, key)}: there is no such artifact. Run the grid again to"
                " make it"
            ) from None
        return self._parse(kind, key, data), data

    def _parse(self, kind: str, key: str, data: bytes) -> Manifest:
        try:
            return Manifest.from_bytes(data, kind, key)
        except ValueError as error:
            raise self._set_aside(kind, key, f"{MANIFEST} {error}", data) from error

    def _fetch(
        self, manifest: Manifest, seen: bytes, *, anew: bool = False
    ) -> tuple[Path, str | None]:
        """Return the local folder of an artifact, and what is wrong with it; bytes are compared at
        first use, or `anew`.
        """

        def problem(folder: Path) -> str | None:
            if anew:
                _verified.forget(folder)
            return _verified.problem(folder, manifest)

        published = Published(MANIFEST, seen, manifest.content, tuple(manifest.files))
        return self._storage.fetch(_path(manifest.kind, manifest.key), published, problem)

    def _fresh_problem(self, path: str, manifest: Manifest, seen: bytes) -> str | None:
        sizes = sizes_of(self._storage, path, manifest.content)
        for name, entry in manifest.files.items():
            if name not in sizes:
                return f"{name} is missing"
            if sizes[name] != entry.size:
                return f"{name} has {sizes[name]} bytes instead of {entry.size}"
        return self._fetch(manifest, seen, anew=True)[1]

    def _set_aside(self, kind: str, key: str, problem: str, seen: bytes) -> DamagedArtifact:
        marker = f"{_path(kind, key)}/{MANIFEST}"
        return damaged(self._storage, marker, f"{kind}-{key}", problem, seen)


def _markers(wanted: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return artifacts (kind, key) by the paths of their manifests."""
    return {f"{_path(kind, key)}/{MANIFEST}": (kind, key) for kind, key in wanted}


def _path(kind: str, key: str) -> str:
    kind, key = checked(kind, "an artifact"), checked(key, "an artifact")
    return f"artifacts/{kind}/{key[:2]}/{key}"
