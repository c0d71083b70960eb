"""One storage: its artifacts, its results, and what else lies below its root."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from raxalign.store._cache import local_cache
from raxalign.store._filesystem import Files
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.digests import FileDigests
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.manifest import Manifest
from raxalign.store.tombstones import Tombstone, Tombstones


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
        return local_cache(root) if self.is_remote else Path(root.removeprefix("file://"))

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

    def collect(self, artifacts: Iterable[tuple[str, str]], evaluations: Iterable[str]) -> None:
        """Collect the manifests of those of the artifacts (kind, key), and the records of those of
        the evaluations, that an object store has. The originals remain the truth. On a file system,
        where reading many files is quick, nothing is done.

        Raises `StorageError` where the store does not answer, or lets nothing be written.
        """
        manifests, records = self.artifacts.markers(artifacts), self.ledger.markers(evaluations)
        self.files.collect([*manifests, *records])
