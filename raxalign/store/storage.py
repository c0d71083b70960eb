"""One storage: its artifacts, its results, and what else lies below its root."""

from __future__ import annotations

import errno
import os
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from raxalign.errors import DataError, StorageError
from raxalign.store.alive import abandoned, temporary_name
from raxalign.store.artifacts import ArtifactStore, Manifest, Sha256
from raxalign.store.disk import Cache, Files
from raxalign.store.files import files_of
from raxalign.store.key import file_digest
from raxalign.store.lease import Locks
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import recorded, seal, unseal

_REMEMBERED = "digests.json"
# a file this new may change again within one tick of its file system's clock
_SETTLED_NS = 2_000_000_000
_CHANGED = "Restore it, on every machine of the run, or run the command again to plan with this one"
_MEANWHILE = "Nothing was stored. Run the command again when the file is whole"


class Stamp(NamedTuple):
    """What changes with a file: its bytes, both times of change in nanoseconds, its inode."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return the stamp of a file. Raises `OSError` for what is none: a pipe may never end."""
        status = path.stat()
        # opening a folder says that it is one
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise OSError(errno.EINVAL, "is not a regular file")
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@recorded
class _Remembered:
    files: Mapping[str, tuple[int, int, int, int, Sha256]]  # path -> stamp, digest


class FileDigests:
    """SHA-256 of files, remembered in ``<root>/digests.json`` by absolute path, size, times of
    change, of which the second cannot be set back, and inode.

    What is remembered is a help and never a need: a damaged file starts afresh, a storage that
    cannot be written is not, and of two processes that write at once one may lose an entry, which
    is then computed again.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: Mapping[str, tuple[int, int, int, int, str]] | None = None

    def of(self, path: Path) -> str:
        """64 hexadecimal digits; OSError where the file cannot be read."""
        return self._found(path)[0]

    @contextmanager
    def unchanged(self, planned: Mapping[Path, str]) -> Iterator[None]:
        """Let the block read files whose SHA-256s were planned. Raises `DataError` before the block
        or after it for a file that is another one or is not there, and for one that was changed
        meanwhile.
        """
        before = self._compared(planned)
        try:
            yield
        except Exception:
            self._compared(planned, before)  # what was wrong with a file may be all of the error
            raise
        self._compared(planned, before)

    def _compared(
        self, planned: Mapping[Path, str], before: Mapping[Path, Stamp] | None = None
    ) -> dict[Path, Stamp]:
        """The stamps of files that are those that were planned, and as they were before."""
        stamps = dict[Path, Stamp]()
        for path, digest in planned.items():
            told = f"its SHA-256 was {digest} when this was planned"
            try:
                found, stamps[path] = self._found(path)
            except OSError as error:
                fault = f"cannot be read ({error.strerror or error}); {told}"
                raise DataError(path, fault, remedy=_CHANGED) from error
            if found != digest:
                raise DataError(path, f"was changed: {told}, and is {found} now", remedy=_CHANGED)
            if before is not None and stamps[path] != before[path]:
                raise DataError(path, "was changed while it was read", remedy=_MEANWHILE)
        return stamps

    def _found(self, path: Path) -> tuple[str, Stamp]:
        """The SHA-256 of a file, and its stamp before the file was read."""
        place = Path(os.path.realpath(path.expanduser()))  # `resolve` has no OSError for a loop
        stamp = Stamp.of(place)
        if self._known is None:
            self._known = self._load()
        known = self._known.get(str(place))
        if known is not None and known[:4] == stamp:
            return known[4], stamp
        found = file_digest(place)
        settled = time.time_ns() - max(stamp.modified, stamp.changed) > _SETTLED_NS
        if Stamp.of(place) == stamp and settled:
            self._known = {**self._known, **self._load(), str(place): (*stamp, found)}
            with suppress(StorageError):
                self._files.write(_REMEMBERED, seal({"files": self._known}))
        return found, stamp

    def _load(self) -> Mapping[str, tuple[int, int, int, int, str]]:
        with suppress(FileNotFoundError, StorageError, ValueError):
            return unseal(self._files.read(_REMEMBERED), _Remembered).files
        return {}


_PLACES = (".", "*", "*/*", "*/*/*")
"""The folders of a storage on a file system that temporaries are made in: below these are only the
files of artifacts and checkpoints, which may be many.
"""
_TOP, _MARKER = "dropped", "dropped.json"


@dataclass(frozen=True)
class Tombstone:
    """What is left of a removed artifact: its manifest, why it was removed, and when (UTC,
    ISO 8601).
    """

    manifest: Manifest
    why: str
    when: str

    def to_bytes(self) -> bytes:
        """As it is stored."""
        manifest = self.manifest.to_bytes().decode()
        return seal({"why": self.why, "when": self.when, "manifest": manifest})

    @classmethod
    def from_bytes(cls, data: bytes, kind: str, key: str) -> Tombstone:
        """Read a record. Raises `ValueError` with what is wrong with it."""
        found = unseal(data, _Stored)
        return cls(Manifest.from_bytes(found.manifest.encode(), kind, key), found.why, found.when)


@recorded
class _Stored:
    why: str
    when: str
    manifest: str  # its bytes


class Tombstones:
    """The records of a storage root, each in ``dropped/<kind>/<first two of the key>/<key>/``.

    An artifact that was made again still has its record: what is stored comes first.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield (kind, key) of every record; one listing."""
        for path in self._files.marked(_TOP, 3, _MARKER):
            _, kind, _, key = path.split("/")
            yield kind, key

    def all(self) -> dict[str, Tombstone]:
        """Return every record by its key; on an object store read together."""
        paths = {f"{_path(kind, key)}/{_MARKER}": (kind, key) for kind, key in self.keys()}
        read = self._files.read_many(list(paths)).items()
        found = {paths[path][1]: self._parsed(path, data, *paths[path]) for path, data in read}
        return {key: entry for key, entry in found.items() if entry is not None}

    def of(self, kind: str, key: str) -> Tombstone | None:
        """Return a record; None where there is none, or a damaged one, which a warning names."""
        path = f"{_path(kind, key)}/{_MARKER}"
        try:
            return self._parsed(path, self._files.read(path), kind, key)
        except FileNotFoundError:
            return None

    def _parsed(self, path: str, data: bytes, kind: str, key: str) -> Tombstone | None:
        try:
            return Tombstone.from_bytes(data, kind, key)
        except ValueError as error:
            warnings.warn(f"{self._files.root}/{path}: is left out: it {error}", stacklevel=2)
            return None

    def write(self, tombstone: Tombstone) -> None:
        """Add or replace a record."""
        manifest = tombstone.manifest
        self._files.write(f"{_path(manifest.kind, manifest.key)}/{_MARKER}", tombstone.to_bytes())

    def remove(self, kind: str, key: str) -> None:
        """Remove a record; nothing where there is none."""
        self._files.remove(_path(kind, key), _MARKER)


def _path(kind: str, key: str) -> str:
    return f"{_TOP}/{kind}/{key[:2]}/{key}"


@dataclass(frozen=True)
class Storage:
    """The storage at a root: a local or shared folder, ``file://``, or another URL that fsspec
    knows.

    It is made where a command finds the root, and passed to whatever reads or writes there. Making
    one asks nothing. Workers receive the root alone and open the storage for themselves.
    """

    root: str

    def __str__(self) -> str:
        return self.root

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return Storage, (self.root,)

    @cached_property
    def files(self) -> Files:
        """The plain files: plans, curves, notes, locks."""
        return files_of(self.root)

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The artifacts, by kind and key."""
        return ArtifactStore(self.root, self.files)

    @cached_property
    def ledger(self) -> Ledger:
        """The results, by key."""
        return Ledger(self.root, self.files)

    @cached_property
    def locks(self) -> Locks:
        """The locks: of stages, evaluations, writers of runs, drivers and searches."""
        return Locks(self.files)

    @cached_property
    def tombstones(self) -> Tombstones:
        """The records of artifacts that were removed on purpose."""
        return Tombstones(self.files)

    @cached_property
    def digests(self) -> FileDigests:
        """The digests of local data files that are remembered here."""
        return FileDigests(self.files)

    @property
    def is_remote(self) -> bool:
        """Whether this is an object store, of which each machine has copies."""
        return "://" in self.root and not self.root.startswith("file://")

    @cached_property
    def local(self) -> Path:
        """The folder of this machine for downloads, for checkpoints and for what is being made: the
        storage itself where that is a file system, else a folder in this machine's cache
        (``RAXALIGN_CACHE``).
        """
        root = self.root
        return Cache.folder_of(root) if self.is_remote else Path(root.removeprefix("file://"))

    def abandoned(self) -> list[Path]:
        """Return the local files and folders that dead processes left half-written. Of a bucket's
        cache, which is small, all folders are looked at.
        """
        return abandoned(self.files.local, ("**",) if self.is_remote else _PLACES)

    def check_writable(self) -> None:
        """Write, read and remove a small file; raises `StorageError` with what prevents it. It is
        tried once: who starts a grid should not wait for a wrong endpoint. A bucket is never made.
        """
        files, name, data = files_of(self.root, waits=()), temporary_name("writable"), b"raxalign"
        kept = b""
        try:
            files.write(name, data)
            with suppress(FileNotFoundError):
                kept = files.read(name)
            files.delete(name)
        except StorageError as error:  # what the test file is called means nothing to a user
            raise StorageError(str(error).replace(f"/{name}", "")) from error
        if kept != data:
            raise StorageError(f"{files.root}: a test file could not be read back")

    def drop(self, kind: str, key: str, why: str) -> int:
        """Remove an artifact and leave a record of why it is not kept; returns the bytes that it
        had. Raises `StorageError` where there is none, or where it cannot be removed.
        """
        manifest = self.artifacts.manifest(kind, key)
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self.tombstones.write(Tombstone(manifest, why, when))
        self.artifacts.remove(kind, key)
        return manifest.size

    def manifest_of(self, kind: str, key: str) -> Manifest | None:
        """Return the manifest of an artifact, that of its record where it was removed, or None."""
        if manifest := self.artifacts.manifests([(kind, key)]).get(key):
            return manifest
        tombstone = self.tombstones.of(kind, key)
        return tombstone.manifest if tombstone is not None else None
