"""The storage that a root names."""

from __future__ import annotations

from raxalign.store._filesystem import Storage


def open_storage(root: str) -> Storage:
    """Return the storage at a local folder (also ``file://``) or at any other fsspec URL."""
    if "://" not in root or root.startswith("file://"):
        from raxalign.store._posix import PosixStorage

        return PosixStorage(root.removeprefix("file://"))
    from raxalign.store._objects import ObjectStorage

    return ObjectStorage(root)
