"""Artifacts: a directory per key, made aside, published last, and never used when a byte of it is
not as it was made.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.lazy import pa
from raxalign.store.disk import Files, Published
from raxalign.store.files import files_of
from raxalign.store.key import Json, checked, digest, file_digest, is_name
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.version import VERSION

MANIFEST = "manifest.json"
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def inside(name: str) -> str:
    """Return the name of a file if it stays in its folder. Raises `ValueError` for another one: a
    manifest from a storage that others write to must not choose where files are put.
    """
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\\" in name or ":" in parts[0] or not name.isprintable():
        raise ValueError(f"names a file outside its folder: {name!r}")
    return name


Inside = Annotated[str, AfterValidator(inside)]
"""The name of a file in its folder."""


@dataclass(frozen=True)
class FileEntry:
    """One file of an artifact: bytes and SHA-256."""

    size: Annotated[int, Field(ge=0, lt=2**63)]
    sha256: Sha256

    @classmethod
    def of(cls, data: bytes) -> FileEntry:
        """Return the entry of a file with these bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest())

    def problem(self, path: Path, *, contents: bool = True) -> str | None:
        """Return what is wrong with a file; None where it is as it was."""
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return "is not a plain file"
            if status.st_size != self.size:
                return f"has {status.st_size} bytes instead of {self.size}"
            if contents and file_digest(path) != self.sha256:
                return "was changed: its bytes have another SHA-256"
            if contents and path.suffix == ".arrow":
                return _table_problem(path)
        except (FileNotFoundError, NotADirectoryError):
            return "is missing"
        except OSError as error:
            # a disk that gives no bytes has lost them; a missing permission is not damage
            if error.errno != errno.EIO:
                raise StorageError.of(error, str(path), "read") from error
            return f"cannot be read ({error.strerror})"
        return None


@recorded
class Manifest:
    """The record of an artifact's files, and the sign that they are all there."""

    kind: str
    key: str
    files: Mapping[Inside, FileEntry]  # by relative path with ``/``
    notes: Mapping[str, Json]  # what the maker records (counts, digests)
    seconds: float  # how long making took
    created: str  # when it ended (UTC, ISO 8601)
    version: str  # raxalign's

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files.values())

    @property
    def content(self) -> str:
        """A digest of the files' names and bytes."""
        return digest({name: entry.sha256 for name, entry in self.files.items()})

    def to_bytes(self) -> bytes:
        """As it is stored."""
        files = {name: vars(entry) for name, entry in self.files.items()}
        return seal({**vars(self), "files": files, "notes": dict(self.notes)})

    @classmethod
    def from_bytes(cls, data: bytes, kind: str, key: str) -> Manifest:
        """Read a manifest. Raises `ValueError` with what is wrong with it."""
        found = unseal(data, cls)
        if (found.kind, found.key) != (kind, key):
            raise ValueError(f"is that of {found.kind} {found.key}")
        return found

    @classmethod
    def describe(
        cls, folder: Path, kind: str, key: str, notes: Mapping[str, Json], seconds: float
    ) -> Manifest:
        """Look at a folder that was filled in some `seconds`, with the `notes` of its maker. Raises
        `ValueError` where it holds a link, another thing that is not a file, or a manifest.
        """
        files = {
            path.relative_to(folder).as_posix(): FileEntry(path.stat().st_size, file_digest(path))
            for path in _files(folder)
        }
        if MANIFEST in files:
            raise ValueError(f"{kind} {key}: a file called {MANIFEST} is the storage's own")
        created = datetime.now(UTC).isoformat(timespec="microseconds")
        return cls(kind, key, dict(sorted(files.items())), dict(notes), seconds, created, VERSION)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise ValueError(
                    f"{path.relative_to(folder)}: an artifact holds plain files and folders only,"
                    " no links"
                )
        yield from (Path(parent, name) for name in names)


class Verified:
    """Which folders this process has compared with their manifests, so that files of gigabytes are
    read once.
    """

    def __init__(self) -> None:
        self._known: set[tuple[int, ...]] = set()

    def problem(self, folder: Path, manifest: Manifest) -> str | None:
        """Return what is wrong with the files of a folder: the first one's name and what it is;
        None when all are as they were made.

        Sizes are compared every time, bytes when the folder is new to this process: known by its
        manifest's inode and time of change, which a rename keeps. Files that the manifest does not
        list are not a fault: libraries leave caches next to data.
        """
        mark = _mark(folder)
        known = bool(mark & self._known)
        for name, entry in manifest.files.items():
            found = entry.problem(folder / name, contents=not known)
            if found is not None:
                return f"{name} {found}"
        self._known |= mark
        return None

    def forget(self, folder: Path) -> None:
        """Compare bytes again next time."""
        self._known -= _mark(folder)

    def trust(self, folder: Path) -> None:
        """A folder whose manifest this process has just made from its bytes."""
        self._known |= _mark(folder)


def _mark(folder: Path) -> set[tuple[int, ...]]:
    """Empty where there is no manifest, so that such a folder is never taken as known."""
    try:
        status = (folder / MANIFEST).stat()
    except OSError:
        return set()
    return {(status.st_dev, status.st_ino, status.st_mtime_ns)}


def _table_problem(path: Path) -> str | None:
    """Return what is wrong with the content of an Arrow file, whose bytes are those that were
    written: positions that point out of it would end the process when they are used.
    """
    with pa.memory_map(str(path)) as source:
        whole = source.read(6) == b"ARROW1"
        source.seek(0)
        try:
            (pa.ipc.open_file if whole else pa.ipc.open_stream)(source).read_all().validate(
                full=True
            )
        except pa.ArrowException as error:
            return f"is not a whole table ({error})"
    return None


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

    GPU_BYTES: ClassVar = "gpu_bytes"
    """The note of a manifest with the memory of a GPU that making the artifact took."""

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

    def verify(self, kind: str, key: str, tell: Callable[[str], object] = warnings.warn) -> bool:
        """Compare an artifact with its manifest anew; a damaged one is set aside, of which `tell`
        hears by its name, and False returned.

        On an object store the sizes of the files there are compared, and the bytes of the copy that
        `open` gives (the store keeps its own).
        """
        try:
            manifest, seen = self._manifest(kind, key)
            problem = self._fresh_problem(_path(kind, key), manifest, seen)
            if problem is not None:
                raise self._set_aside(kind, key, problem, seen)
        except DamagedArtifact as error:
            tell(str(error))
            return False
        except StorageError:
            if self.has(kind, key):
                raise
            return False
        return True

    def make(
        self, kind: str, key: str, build: Callable[[Path], Mapping[str, Json]], worked: float = 0.0
    ) -> Path:
        """Return the folder of an artifact: the existing one if it is whole, else what
        `build(folder)` writes; the result of `build` becomes the notes. `worked` are the seconds
        that others worked on it before, from whose checkpoints `build` goes on.

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

        def fill(staged: Path) -> Published:
            start = time.monotonic()
            notes = build(staged)
            with StorageError.at(self.folder(kind, key), "write"):
                as_umask_says(staged)
                took = worked + time.monotonic() - start
                manifest = Manifest.describe(staged, kind, key, notes, took)
                data = manifest.to_bytes()
                (staged / MANIFEST).write_bytes(data)
            _verified.trust(staged)
            return _published(manifest, data)

        made = self._storage.publish(_path(kind, key), fill)
        if made is None:  # somebody was first: theirs, unless it is damaged
            return self.make(kind, key, build, worked)
        # not `open`: who repairs the same damage at the same time may have taken the marker away
        # again, and this is whole
        return self._fetch(Manifest.from_bytes(made.data, kind, key), made.data)[0]

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

        path = _path(manifest.kind, manifest.key)
        return self._storage.fetch(path, _published(manifest, seen), problem)

    def _fresh_problem(self, path: str, manifest: Manifest, seen: bytes) -> str | None:
        inner = f"{_published(manifest, seen).folder}/"  # of an object store
        names = self._storage.names(path)
        sizes = {name.removeprefix(inner): size for name, size in names.items()}
        for name, entry in manifest.files.items():
            if name not in sizes:
                return f"{name} is missing"
            if sizes[name] != entry.size:
                return f"{name} has {sizes[name]} bytes instead of {entry.size}"
        return self._fetch(manifest, seen, anew=True)[1]

    def _set_aside(self, kind: str, key: str, problem: str, seen: bytes) -> DamagedArtifact:
        marker = f"{_path(kind, key)}/{MANIFEST}"
        return self._storage.damaged(marker, f"{kind}-{key}", problem, seen)


def _published(manifest: Manifest, data: bytes) -> Published:
    return Published(MANIFEST, data, manifest.content, tuple(manifest.files))


def _markers(wanted: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return artifacts (kind, key) by the paths of their manifests."""
    return {f"{_path(kind, key)}/{MANIFEST}": (kind, key) for kind, key in wanted}


def _path(kind: str, key: str) -> str:
    kind, key = checked(kind, "an artifact"), checked(key, "an artifact")
    return f"artifacts/{kind}/{key[:2]}/{key}"
