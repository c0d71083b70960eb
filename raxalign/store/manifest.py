"""What an artifact consists of: every file with size and SHA-256, and how it was made."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from raxalign.lazy import pa
from raxalign.store._filesystem import storage_error
from raxalign.store.key import Json, digest, file_digest
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
            found = compare(folder / name, entry, contents=not known)
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


def compare(path: Path, entry: FileEntry, *, contents: bool = True) -> str | None:
    """Return what is wrong with a file; None where it is as it was."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "is not a plain file"
        if status.st_size != entry.size:
            return f"has {status.st_size} bytes instead of {entry.size}"
        if contents and file_digest(path) != entry.sha256:
            return "was changed: its bytes have another SHA-256"
        if contents and path.suffix == ".arrow":
            return _table_problem(path)
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except OSError as error:
        # a disk that gives no bytes has lost them; a missing permission is not damage
        if error.errno != errno.EIO:
            raise storage_error(error, str(path), "read") from error
        return f"cannot be read ({error.strerror})"
    return None


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


def file_entry(data: bytes) -> FileEntry:
    """Return the entry of a file with these bytes."""
    return FileEntry(len(data), hashlib.sha256(data).hexdigest())
