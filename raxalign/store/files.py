"""The files at a root, a folder or an object store. An object store, through fsspec, has no rename:
files go first and the marker last, and readers copy to a local cache.

Files of a folder lie under a name made from their contents. So two processes that make the same key
with other bytes (a word aligner without a seed does) do not overwrite each other's, and the marker
always names the files that belong to it.

Small objects that seldom change, manifests and results, are read once per machine: it keeps what it
has read under the stamp that a listing shows of the original. A copy counts only while the original
has that stamp.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from raxalign.errors import StorageError
from raxalign.store._connection import Connection, is_blip
from raxalign.store._filesystem import (
    FOLDER_NAME,
    TAKEN,
    Files,
    PosixFiles,
    Problem,
    Published,
    make_folders,
    staging,
    told,
)
from raxalign.store.alive import PREFIX, discard, is_abandoned, temporary_name
from raxalign.store.key import digest
from raxalign.waits import within

CACHE_GIB = "RAXALIGN_CACHE_GIB"
"""The environment variable that limits the copies of an object store on this machine, in GiB."""
_PLACES = (
    *(".", "ledger", "failures", "plans", "looks", "studies", "studies/*"),
    *("artifacts/*/*", "locks/*", "locks/*/*"),
)
"""The folders of a storage on a file system that temporaries are made in."""
T = TypeVar("T")
_STALL = 60.0  # seconds
FEW = 8  # objects that are asked for one by one; for more, their folder is listed
_TOPS = ("artifacts", "ledger")  # below these an object is seldom written again


def files_of(root: str, waits: Sequence[float] | None = None) -> Files:
    """Return the files at a root: a folder, ``file://``, or another URL that fsspec knows, with the
    seconds before each repetition of a request (None: about a minute together).
    """
    if "://" not in root or root.startswith("file://"):
        return PosixFiles(root.removeprefix("file://"))
    return ObjectFiles(root, waits)


def split_place(place: str) -> tuple[Files, str]:
    """Return the files at the folder of a file, and the file's name there."""
    folder, _, name = place.rpartition("/")
    return files_of(folder), name


def abandoned(files: Files) -> list[Path]:
    """Return the local files and folders that dead processes left half-written. A process of this
    machine is asked for; one of another machine counts as dead after a day without a sign of life.
    """
    everywhere = files.root != str(files.local)  # a cache is small
    places = ("**",) if everywhere else _PLACES
    patterns = (f"{place}/{PREFIX}*".removeprefix("./") for place in places)
    return [
        path for pattern in patterns for path in files.local.glob(pattern) if is_abandoned(path)
    ]


def check_writable(root: str) -> None:
    """Write, read and remove a small file; raises `StorageError` with what prevents it. It is tried
    once: who starts a grid should not wait for a wrong endpoint. A bucket is never made.
    """
    files, name, data = files_of(root, waits=()), temporary_name("writable"), b"raxalign"
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


class ObjectFiles(Files):
    """A URL such as ``s3://bucket/folder`` or ``memory://folder``."""

    def __init__(self, root: str, waits: Sequence[float] | None = None) -> None:
        self.root = root.rstrip("/")
        self._connection = Connection(self.root, waits)
        self._files, self._base = self._connection.files, self._connection.base
        self.local = local_cache(self.root)
        self._cache = Cache(self.local)

    def existing(self, paths: Sequence[str]) -> set[str]:
        """List the folder that all of them are in; a few are asked for one by one."""
        wanted = set(paths)
        if len(wanted) <= FEW:
            full = {path: self._full(path) for path in wanted}
            asks = {p: partial(self._files.exists, name) for p, name in full.items()}
            return {path for path, ask in asks.items() if self._ask(path, "look for", ask)}
        top = os.path.commonpath(wanted)
        return {found for name in self._list(top) if (found := _join(top, name)) in wanted}

    def names(self, top: str) -> dict[str, int]:
        """One flat listing."""
        return {name: info["size"] for name, info in self._list(top).items()}

    def read(self, path: str) -> bytes:
        """Return a file's bytes, by one request."""
        name, options = self._full(path), self._connection.reading
        try:
            return self._bring(path, "read", lambda: bytes(self._files.cat_file(name, **options)))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.root}/{path}") from None

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return all at once, where the file system can. Of many objects, those are not read that
        this machine has read under the stamp that a listing shows now.
        """
        if len(paths) <= FEW:
            return self._read_all(paths)
        there = self._stamps(os.path.commonpath(paths))
        stamps = {path: there[path] for path in paths if path in there}
        found = self._cache.remembered(stamps)
        new = self._read_all([path for path in stamps if path not in found])
        lasting = {path: data for path, data in new.items() if path.partition("/")[0] in _TOPS}
        self._cache.remember(stamps, lasting)
        found |= new
        return {path: found[path] for path in stamps if path in found}

    def _read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those objects that exist; they are read at the same time."""
        names, found = {self._full(path): path for path in paths}, dict[str, bytes]()

        def request() -> None:
            left = [name for name, path in names.items() if path not in found]
            options = self._connection.reading
            answers = self._files.cat(left, on_error="return", **options) if left else {}
            for name, answer in answers.items():
                if not isinstance(answer, Exception):
                    found[names[name]] = bytes(answer)
            errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
            for error in errors:
                if is_blip(error) or not isinstance(error, FileNotFoundError):
                    raise error

        self._bring(os.path.commonpath(paths) if paths else "", "read", request)
        return found

    def _stamps(self, top: str) -> dict[str, str | None]:
        """Return what changes when an object is written again, for each object below a folder, by
        its path; None where the store shows nothing like it.
        """
        found = {}
        for name, info in self._list(top).items():
            shown = [info.get(key) for key in ("ETag", "etag", "md5Hash", "mtime")]
            known = next((value for value in shown if value), None)
            found[_join(top, name)] = f"{info.get('size')} {known}" if known else None
        return found

    def modified(self, path: str) -> float:
        """Return when the store took the object."""
        name = self._full(path)
        return self._ask(path, "look for", lambda: float(self._files.modified(name).timestamp()))

    def write(self, path: str, data: bytes | Path) -> None:
        """One request, which object stores do whole or not at all; for a large file several parts
        that become visible together.
        """
        if isinstance(data, Path):
            self._put(path, lambda name: self._files.put_file(str(data), name))
        else:
            self._put(path, lambda name: self._files.pipe_file(name, data))

    def create(self, path: str, data: bytes) -> bool:
        """One request on a condition. After a blip the request may be made twice: what is there
        then may be our own.
        """
        try:
            self._put(path, lambda name: self._files.pipe_file(name, data, mode="create"))
        except FileExistsError:
            with suppress(FileNotFoundError):
                return self.read(path) == data
            return False
        return True

    def download(self, path: str, file: Path) -> None:
        """Copy the object."""
        doing = f"copy to {file}"
        self._bring(path, doing, lambda: self._files.get_file(self._full(path), str(file)))

    def delete(self, path: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            self._ask(path, "delete", lambda: self._files.rm_file(self._full(path)))

    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:
        """Upload the files, then create the marker, which the second of two processes cannot."""
        if self.existing([f"{path}/{marker}"]):
            return False
        there = f"{path}/{version[:FOLDER_NAME]}"
        for parent, _, names in os.walk(staged):
            for file in (Path(parent, name) for name in names):
                name = file.relative_to(staged).as_posix()
                if name != marker:
                    self.write(f"{there}/{name}", file)
        data = (staged / marker).read_bytes()
        if not self.create(f"{path}/{marker}", data):
            return False
        self._cache.add(staged, self._cache.place(path, data), lambda folder: None)  # noqa: ARG005
        return True

    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:
        """Return the cached copy if that is whole, else a new one; only bytes that this process has
        just copied can show that the original is damaged.
        """
        cached = self._cache.place(path, published.data)
        if self._cache.use(cached) and problem(cached) is None:
            return cached, None
        there = f"{path}/{published.version[:FOLDER_NAME]}"
        with staging(self, path) as staged:
            for name in published.files:
                with told(str(staged), "make a folder"):
                    (staged / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    self.download(f"{there}/{name}", staged / name)
            with told(str(staged), "write"):
                (staged / published.marker).write_bytes(published.data)
            found = problem(staged)
            if found is None:
                self._cache.add(staged, cached, problem)
        return cached, found

    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the marker; the files stay and are written over when the folder is made again.

        Between looking and deleting another process may have made the folder again (no object store
        of fsspec's deletes on a condition): its marker is then lost and the folder made once more.
        """
        there = None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there is None or there != seen:
            return None
        targets = (f"damaged/{name}-{number}" for number in itertools.count(1))
        target = next(free for free in targets if not self.existing([f"{free}/{marker}"]))
        self.write(f"{target}/{marker}", there)
        self.delete(f"{path}/{marker}")
        discard(self._cache.place(path, there))
        return f"{self.root}/{target}"

    def remove(self, path: str, marker: str = "") -> None:
        """The marker, then everything else, then the copy."""
        if marker:
            self.delete(f"{path}/{marker}")
        with suppress(FileNotFoundError):
            self._ask(path, "delete", lambda: self._files.rm(self._full(path), recursive=True))
        discard(self.local / path)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Yield one flat listing: level by level would be a request per folder."""
        for name in sorted(self._list(top)):
            folder, _, last = name.rpartition("/")
            if last == marker and len(folder.split("/")) == depth:
                yield f"{top}/{folder}"

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _ask(self, path: str, doing: str, request: Callable[[], T]) -> T:
        return self._connection.ask(f"{self.root}/{path}", doing, request)

    def _bring(self, path: str, doing: str, request: Callable[[], T]) -> T:
        """Make a request that reads, which ends where its content does not come."""
        limited = partial(within, _STALL, f"{self.root}/{path}", request, steady=True)
        return self._ask(path, doing, limited)

    def _put(self, path: str, write: Callable[[str], object]) -> None:
        """Make a request that writes, after the folders above where the store has folders. What is
        missing then is the bucket, which is never made.
        """
        name = self._full(path)

        def request() -> None:
            if not self._connection.flat:
                with suppress(OSError):  # who may only write below a prefix does not need it
                    self._files.makedirs(name.rpartition("/")[0], exist_ok=True)
            write(name)

        self._ask(path, "write", request)

    def _list(self, top: str) -> dict[str, dict[str, Any]]:
        """Return what is known of each object below a folder, by its path from there. S3 is asked
        by a prefix, since s3fs asks twice more whether an empty folder is an object.
        """
        folder = self._full(top).rstrip("/")
        start = f"{folder.lstrip('/')}/"
        above, _, name = folder.rpartition("/")
        by_prefix = {"prefix": f"{name}/"} if self._connection.reading and above else {}
        find = partial(self._files.find, above if by_prefix else folder, detail=True, **by_prefix)
        found = ((name.lstrip("/"), info) for name, info in self._ask(top, "list", find).items())
        return {name.removeprefix(start): info for name, info in found if name.startswith(start)}


def _join(top: str, name: str) -> str:
    return f"{top}/{name}" if top else name


DEFAULT_GIB = 50.0
_COPIES = ("artifacts/*/*/*/*", "ledger/*/*", "small/*")
_LOOK = 0.02  # of the limit: what may be added before the cache is looked through again
_ADDED: dict[Path, float] = {}  # bytes that this process added to a cache since its last look
_MOST = 256  # copies that one storage in a process holds open
_LOCK, _SMALL = ".in-use", "small"


def local_cache(root: str) -> Path:
    """Return the folder of this machine for an object store: copies, downloads, checkpoints."""
    base = os.environ.get("RAXALIGN_CACHE") or "~/.cache/raxalign"
    return Path(base).expanduser().absolute() / digest(root.rstrip("/"))[:16]


class Cache:
    """The copies of one storage, in one folder of this machine that all its processes share. One
    that was used longest ago gives way to a new one, unless a process has it open: a lock of the
    operating system, which ends with the process, on a file in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: dict[Path, int] = {}  # of the copies in use, the last one last
        weakref.finalize(self, _close, self._locks)

    def place(self, path: str, marker: bytes) -> Path:
        """Return where a copy is, if there is one. A folder that is made again has another marker,
        and so never replaces one that is in use.
        """
        return self.folder / path / hashlib.sha256(marker).hexdigest()[:FOLDER_NAME]

    def use(self, copy: Path) -> bool:
        """Return whether there is this copy. It then stays as long as this object lives, or until
        it has opened `_MOST` others.
        """
        with told(str(copy), "write"):
            if copy not in self._locks:
                if (lock := _lock(copy, fcntl.LOCK_SH)) is None:
                    return False
                self._keep(copy, lock)
            with suppress(FileNotFoundError):
                os.utime(copy)
        return copy.exists()

    def add(self, staged: Path, copy: Path, problem: Problem) -> None:
        """Make a staged folder the copy, unless another process has put a whole one there. Older
        ones are removed where there is too much.
        """
        with told(str(copy), "write"):
            make_folders(copy.parent)
            if (lock := _lock(staged, fcntl.LOCK_SH)) is None:
                return  # it was removed
            while True:
                try:
                    staged.rename(copy)
                    break
                except OSError as error:
                    if error.errno not in TAKEN:
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
        if new >= limit_bytes() * _LOOK:  # a look reads all folders
            # another process removes or replaces what is looked at: the next look sees the rest
            with told(str(self.folder), "write"), suppress(FileNotFoundError):
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
        over, freed = sum(sizes.values()) - limit_bytes(), 0
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


def limit_bytes() -> float:
    """Return how much the copies of a storage may take: `RAXALIGN_CACHE_GIB`, which `run.cache_gib`
    sets for the workers of a grid.
    """
    try:
        return float(os.environ.get(CACHE_GIB) or DEFAULT_GIB) * 2**30
    except ValueError:
        return DEFAULT_GIB * 2**30


def _size(folder: Path) -> int:
    return sum(PosixFiles(str(folder)).names("").values())
