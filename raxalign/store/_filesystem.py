"""The files below the root of a storage: what artifacts and the ledger need of them, a file system
that gives it, and the operating system's errors as messages for users.

What is published is written whole under a temporary name and gets its own by one rename (or by a
link, where it must not replace another one). A folder is visible once it has a marker file that
readers trust. An object store has no rename: there the marker comes last (`files.py`).
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from raxalign.errors import DISK_FULL, DamagedArtifact, RaxalignError, StorageError
from raxalign.store.alive import (
    BEAT_SECONDS,
    PREFIX,
    beating,
    discard,
    temporary_name,
)

FOLDER_NAME = 16  # hexadecimal digits of a version
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
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

    @abstractmethod
    def existing(self, paths: Sequence[str]) -> set[str]:
        """Return those of the files that exist; of many on an object store by one listing."""

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

    @abstractmethod
    def modified(self, path: str) -> float:
        """Return when a file was written, in seconds, by the clock of the storage."""

    @abstractmethod
    def write(self, path: str, data: bytes | Path) -> None:
        """Write or replace a file, at once for all readers, with bytes or those of a local file."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Write a file that does not exist yet; False where another process was first."""

    @abstractmethod
    def download(self, path: str, file: Path) -> None:
        """Copy a file into a local one."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; nothing where there is none."""

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

    @abstractmethod
    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move a damaged folder to ``damaged/<name>-<n>`` and return that place.

        Only if its marker still holds the bytes `seen` (None: has no marker); otherwise another
        process has repaired it, and None is returned.
        """

    @abstractmethod
    def remove(self, path: str, marker: str = "") -> None:
        """Remove a folder with all that is in it; nothing where there is none. One with a marker is
        gone at once for readers.
        """

    @abstractmethod
    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Return all folders `depth` levels below `top` that hold the marker."""


def sizes_of(files: Files, path: str, version: str) -> dict[str, int]:
    """Return the sizes in bytes of the files of a published folder. On an object store they lie in
    a folder of their own, named by its version.
    """
    inner = f"{version[:FOLDER_NAME]}/"
    return {name.removeprefix(inner): size for name, size in files.names(path).items()}


@contextmanager
def staging(files: Files, path: str) -> Iterator[Path]:
    """Make a local folder for what will be published at `path`, which goes with the block. It is
    touched now and then: what takes days must not look abandoned to another machine.
    """
    target = files.local / path
    folder = target.with_name(temporary_name(target.name))
    with told(str(target), "make a folder"):
        make_folders(folder)
    try:
        with beating(lambda: os.utime(folder), every=BEAT_SECONDS, name="raxalign-store"):
            yield folder
    finally:
        discard(folder)


def damaged(
    files: Files, marker: str, name: str, problem: str, seen: bytes, then: str = ""
) -> DamagedArtifact:
    """Set the damaged folder of a marker aside as `Files.set_aside` does; return the error that
    says so.
    """
    path, _, own = marker.rpartition("/")
    try:
        aside = files.set_aside(path, own, name, seen)
        what = f"It was set aside as {aside}{then}."
        what = what if aside else "Another process has set it aside."
    except StorageError as error:
        what = f"It could not be set aside: {error}."
    return DamagedArtifact(f"{files.root}/{path}: {problem}. {what}")


class PosixFiles(Files):
    """A local or shared folder; relative paths are taken from the working directory of the
    moment.
    """

    def __init__(self, root: str) -> None:
        self.local = Path(root).expanduser().absolute()
        self.root = str(self.local)

    def existing(self, paths: Sequence[str]) -> set[str]:
        """Ask for one after the other."""
        # called for every stage of a plan
        return {path for path in paths if os.path.isfile(f"{self.root}/{path}")}  # noqa: PTH113

    def names(self, top: str) -> dict[str, int]:
        """Walk the folder; temporaries are left out."""
        found = {}
        for parent, folders, names in os.walk(self.local / top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(PREFIX)):
                file = Path(parent, name)
                with suppress(FileNotFoundError):
                    found[file.relative_to(self.local / top).as_posix()] = file.stat().st_size
        return found

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._found(path, "read"):
            return (self.local / path).read_bytes()

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Read one file after the other: threads gain nothing on small files in the page cache."""
        found = {}
        for path in paths:
            with suppress(FileNotFoundError):
                found[path] = self.read(path)
        return found

    def modified(self, path: str) -> float:
        """Return its time of modification, by the clock of who serves the file system."""
        with self._found(path, "read"):
            return (self.local / path).stat().st_mtime

    def write(self, path: str, data: bytes | Path) -> None:
        """Write a temporary sibling, then rename it over what may be there."""
        with self._written(path, data) as partial:
            partial.rename(self.local / path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a temporary sibling, then link it: of several links with one name one is made. NFS
        sends a request again whose answer is lost, and then finds the link that it has made.
        """
        with self._written(path, data) as partial:
            try:
                os.link(partial, self.local / path)
            except FileExistsError:
                with suppress(FileNotFoundError):
                    return partial.samefile(self.local / path)
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with suppress(FileExistsError):
                    _write(self.local / path, data)
                    return True
                return False
        return True

    def download(self, path: str, file: Path) -> None:
        """Copy the file."""
        with self._found(path, f"copy to {file}"):
            shutil.copyfile(self.local / path, file)

    @contextmanager
    def _written(self, path: str, data: bytes | Path) -> Iterator[Path]:
        """Write a temporary sibling of a file, which the block publishes; the folder is then
        synced.
        """
        target = self.local / path
        with told(str(target), "write"):
            make_folders(target.parent)
            partial = target.with_name(temporary_name(target.name))
            try:
                _write(partial, data)
                yield partial
            finally:
                discard(partial)
            sync(target.parent)

    @contextmanager
    def _found(self, path: str, doing: str) -> Iterator[None]:
        """Tell a file that is not there from one that cannot be used."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"{self.root}/{path}") from None
        except OSError as error:
            raise storage_error(error, f"{self.root}/{path}", doing) from error

    def delete(self, path: str) -> None:
        """Delete a file."""
        with told(f"{self.root}/{path}", "delete"), suppress(FileNotFoundError, NotADirectoryError):
            (self.local / path).unlink()

    # a rename needs no version
    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:  # noqa: ARG002
        """Sync every file and folder, rename, sync the parent."""
        target = self.local / path
        with told(f"{self.root}/{path}", "publish"):
            sync_tree(staged)
            while True:
                try:
                    staged.rename(target)
                except OSError as error:
                    if error.errno not in TAKEN:
                        raise
                    if self.existing([f"{path}/{marker}"]):
                        return False
                    # a folder that we did not publish
                    self.set_aside(path, marker, path.replace("/", "-"), None)
                    continue
                sync(target.parent)
                return True

    # nothing is copied
    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:  # noqa: ARG002
        """Return the published folder itself."""
        folder = self.local / path
        return folder, problem(folder)

    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the folder by one rename."""
        source, there = self.local / path, None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there != seen:
            return None
        with told(f"{self.root}/{path}", "set aside"):
            make_folders(self.local / "damaged")
            for number in itertools.count(1):
                target = self.local / "damaged" / f"{name}-{number}"
                if target.exists():
                    continue
                try:
                    source.rename(target)
                except FileNotFoundError:
                    return None
                except OSError as error:
                    if error.errno not in TAKEN:
                        raise
                    continue
                break
        return str(target)

    def remove(self, path: str, marker: str = "") -> None:
        """Rename what readers trust to a temporary, which they do not see, and remove the tree."""
        target = doomed = self.local / path
        with told(str(target), "remove"), suppress(FileNotFoundError, NotADirectoryError):
            if marker:
                doomed = target.with_name(temporary_name(target.name))
                target.rename(doomed)
            shutil.rmtree(doomed)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Scan the folders level by level; names with a leading dot are temporaries."""
        if depth == 0:
            if self.existing([f"{top}/{marker}"]):
                yield top
            return
        try:
            with os.scandir(self.local / top) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, f"{self.root}/{top}", "list") from error
        for name in names:
            yield from self.marked(f"{top}/{name}", depth - 1, marker)


def _write(file: Path, data: bytes | Path) -> None:
    if isinstance(data, Path):
        shutil.copyfile(data, file)
        sync(file)
        return
    with file.open("xb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def sync_tree(folder: Path) -> None:
    """Fsync every file and folder of a tree."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


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


_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM)
_ELSEWHERE = "or give another storage (--storage or RAXALIGN_STORAGE)"
_MEANING = {
    **dict.fromkeys(_FULL, (DISK_FULL, f"Free some space {_ELSEWHERE}")),
    **dict.fromkeys(_REFUSED, ("no permission", f"Allow your account to write there {_ELSEWHERE}")),
    errno.EROFS: ("the file system is read-only", f"Mount it for writing {_ELSEWHERE}"),
    errno.ENOTDIR: (
        "a part of this path is a file, not a folder",
        f"Move that file away {_ELSEWHERE}",
    ),
    errno.EIO: ("the disk reports an error", f"Check the disk, or who serves it, {_ELSEWHERE}"),
    errno.ESTALE: ("its server no longer has this folder", f"Mount it again {_ELSEWHERE}"),
    errno.EEXIST: ("there is a file where a folder should be", f"Move that file away {_ELSEWHERE}"),
}
_OWN = (*_FULL, errno.EROFS, errno.EIO, errno.ESTALE)  # also where no file is named
_RUST = re.compile(r"\(os error (\d+)\)")


def storage_error(error: Exception, place: str, doing: str) -> StorageError:
    """Return one message: where, what, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    what, remedy = _MEANING.get(
        number or 0, (said or type(error).__name__, f"Check the storage {_ELSEWHERE}")
    )
    return StorageError(f"{place}: cannot {doing}: {what}. {remedy}")


@contextmanager
def told(place: str, doing: str) -> Iterator[None]:
    """Operating system errors in the block become `StorageError`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, place, doing) from error


@contextmanager
def told_of_build(folder: str) -> Iterator[None]:
    """Of the errors of a build function, those that are the storage's become `StorageError`; all
    others stay what they are.
    """
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        if cause := _known(error, folder) or _refusal(folder):
            raise storage_error(cause, folder, "write an artifact") from error
        raise


def _known(error: BaseException | None, folder: str) -> OSError | None:
    """Return the error of the operating system about a folder that an error is, or came from."""
    while error is not None:
        rust = _RUST.search(str(error))  # safetensors, tokenizers
        cause = OSError(int(rust[1]), os.strerror(int(rust[1]))) if rust else error
        if isinstance(cause, OSError) and cause.errno in _MEANING:
            place = cause.filename if isinstance(cause.filename, str | bytes) else None
            if cause.errno in _OWN if place is None else os.fsdecode(place).startswith(folder):
                return cause
        error = error.__cause__ or error.__context__
    return None


def _refusal(folder: str) -> OSError | None:
    """Return the error of writing to a folder, None where it can be written: libraries with errors
    of their own (torch, NumPy) leave out that it was the disk, or why.
    """
    try:
        with Path(folder, ".probe").open("wb") as probe:
            probe.write(bytes(2**20))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error
    return None
