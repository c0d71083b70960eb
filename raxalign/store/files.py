"""Plain files of a storage: plans, curves, notes, locks. Artifacts and results have stores of their
own (`artifacts.py`, `ledger.py`).

The storage that a root names.
"""

from __future__ import annotations

from pathlib import Path

from raxalign.store._cache import LIMIT, local_cache
from raxalign.store._filesystem import Storage


def open_storage(root: str) -> Storage:
    """Return the storage at a local folder (also ``file://``) or at any other fsspec URL."""
    if "://" not in root or root.startswith("file://"):
        from raxalign.store._posix import PosixStorage

        return PosixStorage(root.removeprefix("file://"))
    from raxalign.store._objects import ObjectStorage

    return ObjectStorage(root)


CACHE_GIB = LIMIT
"""The environment variable that limits the copies of an object store on this machine, in GiB."""


def files_of(root: str) -> Storage:
    """Return the storage at a root: a folder, ``file://``, or another URL that fsspec knows."""
    return open_storage(root)


def split_place(place: str) -> tuple[Storage, str]:
    """Return the storage at the folder of a file, and the file's name there."""
    folder, _, name = place.rpartition("/")
    return open_storage(folder), name


def is_remote(root: str) -> bool:
    """Return whether a root is an object store, of which each machine has copies."""
    return "://" in root and not root.startswith("file://")


def machine_folder(root: str) -> Path:
    """Return a folder for downloads and for what is being made: the storage itself where that is a
    file system, else a folder in this machine's cache (``RAXALIGN_CACHE``).
    """
    return local_cache(root) if is_remote(root) else Path(root.removeprefix("file://"))
