"""The files below the root of a storage: what artifacts and the ledger need of them, a file system
that gives it, and this machine's copies of what an object store gives.

What is published is written whole under a temporary name and gets its own by one rename (or by a
link, where it must not replace another one). A folder is visible once it has a marker file that
readers trust. An object store has no rename: there the marker comes last (`files.py`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.store.alive import PREFIX, beating, discard, temporary_name
from raxalign.store.key import digest

_DIGITS = 16  # of a digest that names a folder
_BEAT = 600.0  # seconds
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_Problem = Callable[[Path], str | None]


@dataclass(frozen=True)
class Published:
    """A marker's facts about its folder: its name and bytes, the folder's version and files."""

    marker: str
    data: bytes
    version: str  # tells folders of different contents apart (a digest of them)
    files: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The name of the folder below its own in which an object store has the files."""
        return self.version[:_DIGITS]


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

    def publish(self, path: str, fill: Callable[[Path], Published]) -> Published | None:
        """Make the folder that `fill` has written, its marker too, visible at `path`, and return
        what it says of it; None where another process was first: its folder stays.

        Nothing is visible before everything is written and synced. What `fill` raises passes
        through, and leaves nothing behind; a full disk and the like become `StorageError`.
        """
        with self._staging(path) as staged:
            with StorageError.of_build(str(staged)):
                published = fill(staged)
            return published if self._publish(staged, path, published) else None

    @contextmanager
    def _staging(self, path: str) -> Iterator[Path]:
        """Make a local folder for what will be at `path`, which goes with the block. It is touched
        now and then: what takes days must not look abandoned to another machine.
        """
        target = self.local / path
        with StorageError.at(str(target), "make a folder"):
            _make_folders(target.parent)
            # who searches ledger/ for records, whatever names he skips, finds none half-written
            folder = self.local / temporary_name(target.name)
            _make_folders(folder)
            beside = target.with_name(folder.name)
            try:
                folder.rename(beside).rename(folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                folder.rmdir()  # ledger/ is a mount or a link, into which nothing can be renamed
                folder = beside
                _make_folders(folder)
        try:
            with beating(lambda: os.utime(folder), every=_BEAT, name="raxalign-store"):
                yield folder
        finally:
            discard(folder)

    @abstractmethod
    def _publish(self, staged: Path, path: str, published: Published) -> bool:
        """Make a staged folder visible; False where another process was first."""

    @abstractmethod
    def fetch(self, path: str, published: Published, problem: _Problem) -> tuple[Path, str | None]:
        """Return a local folder with what was published, and what is wrong with that as
        `problem(folder)` says; a bad local copy is replaced first.
        """

    def damaged(
        self, marker: str, name: str, problem: str, seen: bytes, then: str = ""
    ) -> DamagedArtifact:
        """Move the damaged folder of a marker to ``damaged/<name>-<n>``, and return the error that
        says so.

        Only if the marker still holds the bytes `seen`; otherwise another process has repaired it.
        """
        path, _, own = marker.rpartition("/")
        try:
            aside = self._set_aside(path, own, name, seen)
            what = f"It was set aside as {aside}{then}."
            what = what if aside else "Another process has set it aside."
        except StorageError as error:
            what = f"It could not be set aside: {error}."
        return DamagedArtifact(f"{self.root}/{path}: {problem}. {what}")

    @abstractmethod
    def _set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move a folder aside and return its new place, if its marker holds the bytes `seen` (None:
        has no marker), else None.
        """

    @abstractmethod
    def remove(self, path: str, marker: str = "") -> None:
        """Remove a folder with all that is in it; nothing where there is none. One with a marker is
        gone at once for readers.
        """

    @abstractmethod
    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Return all folders `depth` levels below `top` that hold the marker."""


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
        with StorageError.at(str(target), "write"):
            _make_folders(target.parent)
            partial = target.with_name(temporary_name(target.name))
            try:
                _write(partial, data)
                yield partial
            finally:
                discard(partial)
            _sync(target.parent)

    @contextmanager
    def _found(self, path: str, doing: str) -> Iterator[None]:
        """Tell a file that is not there from one that cannot be used."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(f"{self.root}/{path}") from None
        except OSError as error:
            raise StorageError.of(error, f"{self.root}/{path}", doing) from error

    def delete(self, path: str) -> None:
        """Delete a file."""
        with (
            StorageError.at(f"{self.root}/{path}", "delete"),
            suppress(FileNotFoundError, NotADirectoryError),
        ):
            (self.local / path).unlink()

    def _publish(self, staged: Path, path: str, published: Published) -> bool:
        """Sync every file and folder, rename, sync the parent."""
        target = self.local / path
        with StorageError.at(f"{self.root}/{path}", "publish"):
            _sync_tree(staged)
            while True:
                try:
                    staged.rename(target)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    if self.existing([f"{path}/{published.marker}"]):
                        return False
                    # a folder that we did not publish
                    self._set_aside(path, published.marker, path.replace("/", "-"), None)
                    continue
                _sync(target.parent)
                return True

    # nothing is copied
    def fetch(self, path: str, published: Published, problem: _Problem) -> tuple[Path, str | None]:  # noqa: ARG002
        """Return the published folder itself."""
        folder = self.local / path
        return folder, problem(folder)

    def _set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the folder by one rename."""
        source, there = self.local / path, None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there != seen:
            return None
        with StorageError.at(f"{self.root}/{path}", "set aside"):
            _make_folders(self.local / "damaged")
            for number in itertools.count(1):
                target = self.local / "damaged" / f"{name}-{number}"
                if target.exists():
                    continue
                try:
                    source.rename(target)
                except FileNotFoundError:
                    return None
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    continue
                break
        return str(target)

    def remove(self, path: str, marker: str = "") -> None:
        """Rename what readers trust to a temporary, which they do not see, and remove the tree."""
        target = doomed = self.local / path
        with (
            StorageError.at(str(target), "remove"),
            suppress(FileNotFoundError, NotADirectoryError),
        ):
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
            raise StorageError.of(error, f"{self.root}/{top}", "list") from error
        for name in names:
            yield from self.marked(f"{top}/{name}", depth - 1, marker)


def _write(file: Path, data: bytes | Path) -> None:
    if isinstance(data, Path):
        shutil.copyfile(data, file)
        _sync(file)
        return
    with file.open("xb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _sync_tree(folder: Path) -> None:
    """Fsync every file and folder of a tree."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent, name))
        _sync(Path(parent))


def _make_folders(folder: Path) -> None:
    """``mkdir -p`` that survives a power cut."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    _sync(folder.parent)


def _sync(path: Path) -> None:
    """Fsync a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some shared file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


_DEFAULT_GIB = 50.0
_COPIES = ("artifacts/*/*/*/*", "ledger/*/*", "small/*")
_LOOK = 0.02  # of the limit: what may be added before the cache is looked through again
_ADDED: dict[Path, float] = {}  # bytes that this process added to a cache since its last look
_MOST = 256  # copies that one storage in a process holds open
_LOCK, _SMALL = ".in-use", "small"


class Cache:
    """The copies of one storage, in one folder of this machine that all its processes share. One
    that was used longest ago gives way to a new one, unless a process has it open: a lock of the
    operating system, which ends with the process, on a file in it.
    """

    GIB: ClassVar = "RAXALIGN_CACHE_GIB"
    """The environment variable that limits the copies of a storage, in GiB; `run.cache_gib` sets it
    for the workers of a grid.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: dict[Path, int] = {}  # of the copies in use, the last one last
        weakref.finalize(self, _close, self._locks)

    @staticmethod
    def folder_of(root: str) -> Path:
        """Return the folder of this machine for an object store: copies, downloads, checkpoints."""
        base = os.environ.get("RAXALIGN_CACHE") or "~/.cache/raxalign"
        return Path(base).expanduser().absolute() / digest(root.rstrip("/"))[:_DIGITS]

    @staticmethod
    def limit_bytes() -> float:
        """Return how much the copies of a storage may take."""
        try:
            return float(os.environ.get(Cache.GIB) or _DEFAULT_GIB) * 2**30
        except ValueError:
            return _DEFAULT_GIB * 2**30

    def place(self, path: str, marker: bytes) -> Path:
        """Return where a copy is, if there is one. A folder that is made again has another marker,
        and so never replaces one that is in use.
        """
        return self.folder / path / hashlib.sha256(marker).hexdigest()[:_DIGITS]

    def use(self, copy: Path) -> bool:
        """Return whether there is this copy. It then stays as long as this object lives, or until
        it has opened `_MOST` others.
        """
        with StorageError.at(str(copy), "write"):
            if copy not in self._locks:
                if (lock := _lock(copy, fcntl.LOCK_SH)) is None:
                    return False
                self._keep(copy, lock)
            with suppress(FileNotFoundError):
                os.utime(copy)
        return copy.exists()

    def add(self, staged: Path, copy: Path, problem: _Problem) -> None:
        """Make a staged folder the copy, unless another process has put a whole one there. Older
        ones are removed where there is too much.
        """
        with StorageError.at(str(copy), "write"):
            _make_folders(copy.parent)
            if (lock := _lock(staged, fcntl.LOCK_SH)) is None:
                return  # it was removed
            while True:
                try:
                    staged.rename(copy)
                    break
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                if self.use(copy) and problem(copy) is None:
                    os.close(lock)
                    return
                damaged = copy.with_name(temporary_name(copy.name))
                with suppress(FileNotFoundError):
                    copy.rename(damaged)
                discard(damaged)
            os.utime(copy)
            self._keep(copy, lock)
        new = _ADDED.get(self.folder, float("inf")) + _size(copy)
        if new >= self.limit_bytes() * _LOOK:  # a look reads all folders
            # another process removes or replaces what is looked at: the next look sees the rest
            with StorageError.at(str(self.folder), "write"), suppress(FileNotFoundError):
                self.evict()
            new = 0.0
        _ADDED[self.folder] = new

    def evict(self) -> None:
        """Remove the copies that were used longest ago and that no process has open, until the rest
        is within the limit.
        """
        found = [place for pattern in _COPIES for place in self.folder.glob(pattern)]
        whole = (place for place in found if not place.name.startswith(PREFIX) and place.is_dir())
        copies = sorted((place.stat().st_mtime, place) for place in whole)
        sizes = {place: _size(place) for _, place in copies}
        over, freed = sum(sizes.values()) - self.limit_bytes(), 0
        for _, place in copies:
            if freed >= over:
                break
            if (lock := _lock(place, fcntl.LOCK_EX)) is None:
                continue
            aside = place.with_name(temporary_name(place.name))
            with suppress(FileNotFoundError):
                place.rename(aside)
                freed += sizes[place]
            os.close(lock)
            discard(aside)
            with suppress(OSError):  # folders of other copies stay
                place.parent.rmdir()

    def _keep(self, copy: Path, lock: int) -> None:
        """Hold the lock of a copy, in place of an earlier one."""
        before, self._locks[copy] = self._locks.pop(copy, None), lock
        if before is not None:
            os.close(before)
        while len(self._locks) > _MOST:
            os.close(self._locks.pop(next(iter(self._locks))))

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
            whole = place.with_name(temporary_name(place.name))
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                whole.write_bytes(hashlib.sha256(data).digest() + data)
                whole.rename(place)

    def _small(self, path: str, stamp: str) -> Path:
        name = digest([path, stamp])
        return self.folder / _SMALL / name[:2] / name[:32]


def _lock(copy: Path, kind: int) -> int | None:
    """Lock a copy, shared or for this process alone; None where there is none, or another process
    has it. The lock lies on a file in it, not on the folder, which cannot be locked on NFS.
    """
    try:
        lock = os.open(copy / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), (copy / _LOCK).stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):  # it is being removed, or was
        pass
    os.close(lock)
    return None


def _close(locks: dict[Path, int]) -> None:
    while locks:
        os.close(locks.popitem()[1])


def _size(folder: Path) -> int:
    return sum(PosixFiles(str(folder)).names("").values())
