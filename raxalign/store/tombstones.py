"""Records of artifacts that were removed on purpose: they tell "not kept" from "never made"."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from raxalign.store._filesystem import Files
from raxalign.store.manifest import Manifest
from raxalign.store.sealed import recorded, seal, unseal

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
            warnings.warn(f"{self._files.place(path)}: is left out: it {error}", stacklevel=2)
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
