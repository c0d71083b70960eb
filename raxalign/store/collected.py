"""Manifests and results of an object store in one object too, for machines that have read few of
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from raxalign.store.storage import Storage


def collect(
    storage: Storage, artifacts: Iterable[tuple[str, str]], evaluations: Iterable[str]
) -> None:
    """Collect the manifests of those of the artifacts (kind, key), and the records of those of the
    evaluations, that a storage has. On a file system, where reading many files is quick, nothing is
    done.

    The originals stay, and remain the truth: the collection can be deleted at any time.

    Args:
        storage: The storage.
        artifacts: The artifacts.
        evaluations: The keys of the evaluations.

    Raises:
        StorageError: The store does not answer, or does not let the collection be written.
    """
    from raxalign.store._objects import ObjectFiles

    if isinstance(storage.files, ObjectFiles):
        manifests = storage.artifacts.markers(artifacts)
        records = storage.ledger.markers(evaluations)
        storage.files.collect([*manifests, *records])
