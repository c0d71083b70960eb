"""Manifests and results of an object store in one object too, for machines that have read few of
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import is_remote
from raxalign.store.ledger import Ledger


def collect(root: str, artifacts: Iterable[tuple[str, str]], evaluations: Iterable[str]) -> None:
    """Collect the manifests of those of the artifacts (kind, key), and the records of those of the
    evaluations, that a storage has. On a file system, where reading many files is quick, nothing is
    done.

    The originals stay, and remain the truth: the collection can be deleted at any time.

    Args:
        root: The storage root.
        artifacts: The artifacts.
        evaluations: The keys of the evaluations.

    Raises:
        StorageError: The store does not answer, or does not let the collection be written.
    """
    if not is_remote(root):
        return
    from raxalign.store._objects import ObjectStorage

    manifests, records = ArtifactStore(root).markers(artifacts), Ledger(root).markers(evaluations)
    ObjectStorage(root).collect([*manifests, *records])
