"""Small objects that stay as they are, manifests and results: read without a request for each.

This machine keeps what it has read (`_cache.py`). A machine that has read little yet reads
collections: objects below ``collected/`` that hold many small ones, each with its path and the
stamp that a listing showed of it. A listing decides what there is, and an entry counts only under
the stamp that the original has now. So a collection is a cache like any other: it may be old,
damaged or deleted at any time, and what it does not hold is read one by one.

A collection is named by the SHA-256 of its bytes. Who writes one puts everything into it that the
others hold, and deletes those. So there is one, or a few where several drivers have written at
once.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from raxalign.errors import StorageError
from raxalign.store.sealed import parse

if TYPE_CHECKING:
    from raxalign.store._cache import Cache

FEW = 8
"""The number of objects that are asked for one by one; for more, their folder is listed."""
_FOLDER = "collected"
_TOPS = ("artifacts", "ledger")  # below these an object is seldom written again
_WORTH = 2**16  # bytes of collections that are read as quickly as one object is asked for
_GROWTH = 100
"""How many times their packed size collections may have: manifests and results have about 10."""
_Entries = dict[str, tuple[str, bytes]]  # path -> stamp, bytes


class Objects(Protocol):
    """The requests to an object store that collections need. Paths are relative to its root."""

    def names(self, top: str) -> dict[str, int]:
        """Return the bytes of each object below a folder, by its path from there."""

    def stamps(self, top: str) -> dict[str, str | None]:
        """Return what changes when an object is written again, by path; None where the store shows
        nothing like it.
        """

    def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those objects that exist."""

    def write(self, path: str, data: bytes) -> None:
        """Write or replace an object."""

    def delete(self, path: str) -> None:
        """Delete an object; nothing where there is none."""


class Lasting:
    """The small objects of one store, and this machine's copies of them."""

    def __init__(self, objects: Objects, cache: Cache) -> None:
        self._objects, self._cache = objects, cache

    def read(self, stamps: Mapping[str, str | None]) -> dict[str, bytes]:
        """Return the bytes of those objects that exist, by path. `stamps` are the stamps that they
        have now.
        """
        found = self._copies(stamps)
        left = {path: stamp for path, stamp in stamps.items() if path not in found}
        if sum(map(_lasts, left)) > FEW:
            found |= self._collected(left)
        found |= self._one_by_one({path: left[path] for path in left if path not in found})
        return {path: found[path] for path in stamps if path in found}

    def collect(self, paths: Sequence[str]) -> None:
        """Write those of the objects that exist into one collection, with all that the others hold
        and that has not changed; nothing where one collection holds all of them.
        """
        old = self._objects.names(_FOLDER)
        entries = self._entries(old)
        if len(old) == 1 and entries.keys() >= set(paths):
            return
        stamps = {path: stamp for top in _TOPS for path, stamp in self._objects.stamps(top).items()}
        kept = {path: entry for path, entry in entries.items() if stamps.get(path) == entry[0]}
        new = {path: stamps[path] for path in paths if path not in kept and stamps.get(path)}
        if not new and len(old) < 2:
            return
        found = self._copies(new)
        found |= self._one_by_one({path: new[path] for path in new if path not in found})
        data = _pack(kept | {path: (str(new[path]), text) for path, text in found.items()})
        name = hashlib.sha256(data).hexdigest()
        self._objects.write(f"{_FOLDER}/{name}", data)
        self._cache.remember(_FOLDER, name, data)
        for other in old.keys() - {name}:
            self._objects.delete(f"{_FOLDER}/{other}")

    def _collected(self, stamps: Mapping[str, str | None]) -> dict[str, bytes]:
        """Return what collections hold of some objects under these stamps, and keep copies of it.
        Where collections cannot be read, that is nothing.
        """
        entries: _Entries = {}
        with suppress(StorageError):
            entries = self._entries(self._objects.names(_FOLDER), len(stamps) * _WORTH)
        known = {path: entries[path] for path in stamps if path in entries}
        found = {path: data for path, (stamp, data) in known.items() if stamp == stamps[path]}
        self._remember(stamps, found)
        return found

    def _copies(self, stamps: Mapping[str, str | None]) -> dict[str, bytes]:
        """Return what this machine has of some objects under these stamps."""
        found = {path: self._cache.remembered(path, stamp) for path, stamp in stamps.items()}
        return {path: data for path, data in found.items() if data is not None}

    def _one_by_one(self, stamps: Mapping[str, str | None]) -> dict[str, bytes]:
        """Read objects at the same time, and keep copies of those that last."""
        found = self._objects.read_all(list(stamps))
        self._remember(stamps, {path: data for path, data in found.items() if _lasts(path)})
        return found

    def _remember(self, stamps: Mapping[str, str | None], found: Mapping[str, bytes]) -> None:
        for path, data in found.items():
            self._cache.remember(path, stamps[path], data)

    def _entries(self, sizes: Mapping[str, int], most: float = float("inf")) -> _Entries:
        """Return what collections of these names and sizes hold; nothing where they have more than
        `most` bytes.
        """
        if sum(sizes.values()) > most:
            return {}
        copies = {name: self._cache.remembered(_FOLDER, name) for name in sizes}
        left = [f"{_FOLDER}/{name}" for name, data in copies.items() if data is None]
        for path, data in self._objects.read_all(left).items():
            name = path.removeprefix(f"{_FOLDER}/")
            if hashlib.sha256(data).hexdigest() == name:  # else it is damaged
                copies[name] = data
                self._cache.remember(_FOLDER, name, data)
        found: _Entries = {}
        for _, copy in sorted(copies.items()):
            found |= _unpack(copy) if copy is not None else {}
        return found


def _lasts(path: str) -> bool:
    return path.partition("/")[0] in _TOPS


def _pack(entries: _Entries) -> bytes:
    """Return the bytes of a collection; equal entries give equal bytes."""
    texts = {path: (stamp, data.decode("latin-1")) for path, (stamp, data) in entries.items()}
    return zlib.compress(json.dumps(texts, sort_keys=True).encode())


def _unpack(data: bytes) -> _Entries:
    """Return the entries of a collection; none of one in another form, or of one that grows as no
    small objects do.
    """
    unpacking, most = zlib.decompressobj(), _GROWTH * len(data)
    try:
        text = unpacking.decompress(data, most)
        texts = parse(text) if unpacking.eof else {}
        return {path: (stamp, text.encode("latin-1")) for path, (stamp, text) in texts.items()}
    except (ValueError, TypeError, AttributeError, zlib.error):
        return {}
