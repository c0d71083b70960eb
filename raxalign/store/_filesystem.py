"""What artifacts and the ledger need of a storage: folders that become visible whole, through a
marker file that readers trust.

Two kinds of storage give that in different ways: `_posix.py` by one rename, `_objects.py` by
writing the marker last.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.store._faults import told
from raxalign.store.alive import discard, sign_of_life, temporary_name

Problem = Callable[[Path], str | None]


@dataclass(frozen=True)
class Published:
    """A marker's facts about its folder: its name and bytes, the folder's version and files."""

    marker: str
    data: bytes
    version: str
    files: tuple[str, ...]


class Files(ABC):
    """The files below a storage root. Paths are relative to it, with ``/``; what goes wrong is a
    `StorageError`, absence a FileNotFoundError.
    """

    root: str
    local: Path
    """The folder of this machine in which folders are made: the root itself, or a cache."""

    def place(self, path: str) -> str:
        """Return the absolute path or URL, for people."""
        return f"{self.root}/{path}"

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file."""

    def existing(self, paths: Sequence[str]) -> set[str]:
        """Return those of the files that exist; on an object store by one listing."""
        return {path for path in paths if self.exists(path)}

    @abstractmethod
    def names(self, top: str) -> dict[str, int]:
        """Return the size in bytes of each file at any depth below a folder, by its path relative
        to that folder; nothing where there is no such folder.
        """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return a file's bytes."""

    @abstractmethod
    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those files that exist."""

    def collect(self, paths: Sequence[str]) -> None:  # noqa: B027 most need not
        """Make those of the small files that exist quick to read for other machines."""

    @abstractmethod
    def modified(self, path: str) -> float:
        """Return when a file was written, in seconds, by the clock of the storage."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write or replace a file, at once for all readers."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Write a file that does not exist yet; False where another process was first."""

    @abstractmethod
    def upload(self, file: Path, path: str) -> None:
        """Write or replace a file with the bytes of a local one."""

    @abstractmethod
    def download(self, path: str, file: Path) -> None:
        """Copy a file into a local one."""

    @abstractmethod
    def delete_all(self, top: str) -> None:
        """Delete a folder with all that is in it; nothing where there is none."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; nothing where there is none."""

    @contextmanager
    def staging(self, path: str) -> Iterator[Path]:
        """Return a local folder for what will be published at `path`, which goes with the block."""
        target = self.local / path
        folder = target.with_name(temporary_name(target.name))
        with told(str(target), "make a folder"):
            make_folders(folder)
        try:
            with sign_of_life(folder):
                yield folder
        finally:
            discard(folder)

    @abstractmethod
    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:
        """Make a staged folder that holds `marker` visible at `path`; False where another process
        was first: its folder stays.

        `version` tells folders of different contents apart (a digest of them).
        """

    @abstractmethod
    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:
        """Return a local folder with what was published, and what is wrong with that as
        `problem(folder)` says; a bad local copy is replaced first.
        """

    def sizes(self, path: str, version: str) -> dict[str, int] | None:  # noqa: ARG002
        """Return the sizes in bytes of the files that exist now; None where `fetch` sees them."""
        return None

    def damaged(
        self, path: str, marker: str, name: str, problem: str, seen: bytes, *, then: str = ""
    ) -> DamagedArtifact:
        """Set a damaged folder aside as `set_aside` does; return the error that says so."""
        try:
            aside = self.set_aside(path, marker, name, seen)
            what = f"It was set aside as {aside}{then}."
            what = what if aside else "Another process has set it aside."
        except StorageError as error:
            what = f"It could not be set aside: {error}."
        return DamagedArtifact(f"{self.place(path)}: {problem}. {what}")

    @abstractmethod
    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move a damaged folder to ``damaged/<name>-<n>`` and return that place.

        Only if its marker still holds the bytes `seen` (None: has no marker); otherwise another
        process has repaired it, and None is returned.
        """

    @abstractmethod
    def remove(self, path: str, marker: str) -> None:
        """Remove a folder, the marker first; nothing where there is none."""

    @abstractmethod
    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Return all folders `depth` levels below `top` that hold the marker."""

    @abstractmethod
    def abandoned(self) -> list[Path]:
        """Return the local files and folders that dead processes left half-written."""

    def sweep(self) -> int:
        """Remove what dead processes left half-written, in the ledger too; returns how much of it
        there was. A process of this machine is asked for; one of another machine counts as dead
        after a day without a sign of life.
        """
        abandoned = self.abandoned()
        for path in abandoned:
            discard(path)
        return len(abandoned)

    @abstractmethod
    def check_writable(self) -> None:
        """Write, read and remove a small file; raises `StorageError` with what prevents it. A
        bucket is never made.
        """


def make_folders(folder: Path) -> None:
    """``mkdir -p`` that survives a power cut."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    sync(folder.parent)


def sync(path: Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some shared file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)
