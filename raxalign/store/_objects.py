"""A storage on an object store, through fsspec: no rename, so files go first and the marker last;
readers copy to a local cache.

Files of a folder lie under a name made from their contents. So two processes that make the same key
with other bytes (a word aligner without a seed does) do not overwrite each other's, and the marker
always names the files that belong to it.

Small objects that seldom change, manifests and results, are read without a request for each. The
machine keeps what it has read (`_cache.py`). One that has read little yet reads ``collected/all``,
an object that holds many of them, each with its path and the stamp that a listing showed of it. A
listing decides what there is, and an entry counts only under the stamp that the original has now.
So it is a cache like any other: it may be old, damaged or deleted at any time, and what it does not
hold is read one by one. Of two that write it at once the last one wins.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from raxalign.errors import StorageError
from raxalign.store._cache import Cache, local_cache
from raxalign.store._connection import Connection, is_blip
from raxalign.store._faults import told
from raxalign.store._filesystem import Files, Problem, Published
from raxalign.store.alive import PREFIX, discard, is_abandoned, temporary_name
from raxalign.store.sealed import parse
from raxalign.waits import within

T = TypeVar("T")
_STALL = 60.0  # seconds
FEW = 8
"""The number of objects that are asked for one by one; for more, their folder is listed."""
_FOLDER_NAME = 16  # hexadecimal digits of a version
_COLLECTED = "collected/all"
_TOPS = ("artifacts", "ledger")  # below these an object is seldom written again
_WORTH = 2**16  # bytes of a collection that are read as quickly as one object is asked for
_GROWTH = 100  # times its packed size that a collection may have: manifests and results have 10
_Entries = dict[str, tuple[str, bytes]]  # path -> stamp, bytes


class ObjectFiles(Files):
    """A URL such as ``s3://bucket/folder`` or ``memory://folder``."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._connection = Connection(self.root)
        self._files, self._base = self._connection.files, self._connection.base
        self.local = local_cache(self.root)
        self._cache = Cache(self.local)

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return self._ask(path, "look for", lambda: bool(self._files.exists(self._full(path))))

    def existing(self, paths: Sequence[str]) -> set[str]:
        """List the folder that all of them are in; a few are asked for one by one."""
        wanted = set(paths)
        if len(wanted) <= FEW:
            return super().existing(paths)
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
            raise FileNotFoundError(self.place(path)) from None

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return all at once, where the file system can. Of many objects, those are not read one by
        one that this machine has read, or that are collected, under the stamp that a listing shows
        now.
        """
        if len(paths) <= FEW:
            return self.read_all(paths)
        there = self.stamps(os.path.commonpath(paths))
        stamps = {path: there[path] for path in paths if path in there}
        found = self._cache.remembered(stamps)
        left = [path for path in stamps if path not in found]
        new = dict[str, bytes]()
        if sum(path.partition("/")[0] in _TOPS for path in left) > FEW:
            with suppress(StorageError):
                entries = self._entries(most=len(left) * _WORTH)
                same = (p for p in left if p in entries and entries[p][0] == stamps[p])
                new = {path: entries[path][1] for path in same}
        new |= self.read_all([path for path in left if path not in new])
        lasting = {path: data for path, data in new.items() if path.partition("/")[0] in _TOPS}
        self._cache.remember(stamps, lasting)
        found |= new
        return {path: found[path] for path in stamps if path in found}

    def collect(self, paths: Sequence[str]) -> None:
        """Write those of the small objects that exist into one object too, from which other
        machines read all of them. What it held before and has not changed stays.
        """
        entries = self._entries()
        if entries.keys() >= set(paths):
            return
        stamps = {path: stamp for top in _TOPS for path, stamp in self.stamps(top).items()}
        kept = {path: entry for path, entry in entries.items() if stamps.get(path) == entry[0]}
        new = [path for path in paths if path not in kept and stamps.get(path)]
        if new:
            read = {path: (str(stamps[path]), data) for path, data in self.read_all(new).items()}
            self.write(_COLLECTED, _pack(kept | read))

    def _entries(self, most: float = float("inf")) -> _Entries:
        """Return what the collection holds; nothing where it has more than `most` bytes."""
        folder, _, name = _COLLECTED.partition("/")
        if self.names(folder).get(name, float("inf")) > most:
            return {}
        return _unpack(self.read_all([_COLLECTED]).get(_COLLECTED, b""))

    def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
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

    def stamps(self, top: str) -> dict[str, str | None]:
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

    def write(self, path: str, data: bytes) -> None:
        """One request, which object stores do whole or not at all."""
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

    def upload(self, file: Path, path: str) -> None:
        """One request, or several parts that become visible together."""
        self._put(path, lambda name: self._files.put_file(str(file), name))

    def download(self, path: str, file: Path) -> None:
        """Copy the object."""
        doing = f"copy to {file}"
        self._bring(path, doing, lambda: self._files.get_file(self._full(path), str(file)))

    def delete_all(self, top: str) -> None:
        """List the folder, and delete what is there."""
        with suppress(FileNotFoundError):
            self._ask(top, "delete", lambda: self._files.rm(self._full(top), recursive=True))

    def delete(self, path: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            self._ask(path, "delete", lambda: self._files.rm_file(self._full(path)))

    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:
        """Upload the files, then create the marker, which the second of two processes cannot."""
        if self.exists(f"{path}/{marker}"):
            return False
        there = f"{path}/{version[:_FOLDER_NAME]}"
        for parent, _, names in os.walk(staged):
            for file in (Path(parent, name) for name in names):
                name = file.relative_to(staged).as_posix()
                if name != marker:
                    self.upload(file, f"{there}/{name}")
        data = (staged / marker).read_bytes()
        if not self.create(f"{path}/{marker}", data):
            return False
        self._cache.keep(staged, path, data, lambda folder: None)  # noqa: ARG005
        return True

    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:
        """Return the cached copy if that is whole, else a new one; only bytes that this process has
        just copied can show that the original is damaged.
        """
        cached = self._cache.use(path, published.data)
        if cached.exists() and problem(cached) is None:
            return cached, None
        there = f"{path}/{published.version[:_FOLDER_NAME]}"
        with self.staging(path) as staged:
            for name in published.files:
                with told(str(staged), "make a folder"):
                    (staged / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    self.download(f"{there}/{name}", staged / name)
            with told(str(staged), "write"):
                (staged / published.marker).write_bytes(published.data)
            found = problem(staged)
            if found is None:
                self._cache.keep(staged, path, published.data, problem)
        return cached, found

    def sizes(self, path: str, version: str) -> dict[str, int]:
        """Return the sizes, by one listing."""
        return self.names(f"{path}/{version[:_FOLDER_NAME]}")

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
        for number in itertools.count(1):
            target = f"damaged/{name}-{number}"
            if not self.exists(f"{target}/{marker}"):
                break
        self.write(f"{target}/{marker}", there)
        self.delete(f"{path}/{marker}")
        self._cache.drop(path, there)
        return self.place(target)

    def remove(self, path: str, marker: str) -> None:
        """The marker, then everything else, then the copy."""
        self.delete(f"{path}/{marker}")
        self.delete_all(path)
        discard(self.local / path)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Yield one flat listing: level by level would be a request per folder."""
        for name in sorted(self._list(top)):
            folder, _, last = name.rpartition("/")
            if last == marker and len(folder.split("/")) == depth:
                yield f"{top}/{folder}"

    def abandoned(self) -> list[Path]:
        """Look at the local cache; uploads without a marker are written over or removed."""
        return [path for path in self.local.rglob(f"{PREFIX}*") if is_abandoned(path)]

    def check_writable(self) -> None:
        """At once or not at all: who starts a grid should not wait for a wrong endpoint."""
        path = temporary_name("writable")
        name = self._full(path)

        def attempt() -> bytes:
            self._connection.make_parents(name)
            self._files.pipe_file(name, b"raxalign")
            kept = bytes(self._files.cat_file(name))
            self._files.rm_file(name)
            return kept

        if self._connection.ask(self.root, "write", attempt, waits=()) != b"raxalign":
            raise StorageError(f"{self.root}: a test file could not be read back")

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _ask(self, path: str, doing: str, request: Callable[[], T]) -> T:
        return self._connection.ask(self.place(path), doing, request)

    def _bring(self, path: str, doing: str, request: Callable[[], T]) -> T:
        """Make a request that reads, which ends where its content does not come."""
        limited = partial(within, _STALL, self.place(path), request, steady=True)
        return self._ask(path, doing, limited)

    def _put(self, path: str, write: Callable[[str], object]) -> None:
        """Make a request that writes; what is missing then is the bucket."""
        name = self._full(path)

        def request() -> None:
            self._connection.make_parents(name)
            write(name)

        self._ask(path, "write", request)

    def _list(self, top: str) -> dict[str, dict[str, Any]]:
        """Return what is known of each object below a folder, by its path from there."""
        folder = self._full(top).rstrip("/")
        start = f"{folder.lstrip('/')}/"
        found = self._ask(top, "list", lambda: self._connection.find(folder))
        names = {name.lstrip("/"): info for name, info in found.items()}
        return {
            name.removeprefix(start): info for name, info in names.items() if name.startswith(start)
        }


def _join(top: str, name: str) -> str:
    return f"{top}/{name}" if top else name


def _pack(entries: _Entries) -> bytes:
    """Return the bytes of a collection, the SHA-256 of the others first."""
    texts = {path: (stamp, data.decode("latin-1")) for path, (stamp, data) in entries.items()}
    body = zlib.compress(json.dumps(texts, sort_keys=True).encode())
    return hashlib.sha256(body).digest() + body


def _unpack(data: bytes) -> _Entries:
    """Return the entries of a collection; none of a damaged one, of one in another form, or of one
    that grows as no small objects do.
    """
    checksum, body = data[:32], data[32:]
    unpacking, most = zlib.decompressobj(), _GROWTH * len(data)
    try:
        text = unpacking.decompress(body, most)
        whole = unpacking.eof and hashlib.sha256(body).digest() == checksum
        texts = parse(text, dict[str, tuple[str, str]]) if whole else {}
        return {path: (stamp, text.encode("latin-1")) for path, (stamp, text) in texts.items()}
    except (ValueError, zlib.error):
        return {}
