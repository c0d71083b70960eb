"""Plain files of a storage: plans, curves, notes, locks. Artifacts and results have stores of their
own (`artifacts.py`, `ledger.py`).
"""

from __future__ import annotations

from raxalign.store._cache import LIMIT
from raxalign.store._filesystem import Files

CACHE_GIB = LIMIT
"""The environment variable that limits the copies of an object store on this machine, in GiB."""


def files_of(root: str) -> Files:
    """Return the files at a root: a folder, ``file://``, or another URL that fsspec knows."""
    if "://" not in root or root.startswith("file://"):
        from raxalign.store._posix import PosixFiles

        return PosixFiles(root.removeprefix("file://"))
    from raxalign.store._objects import ObjectFiles

    return ObjectFiles(root)


def split_place(place: str) -> tuple[Files, str]:
    """Return the files at the folder of a file, and the file's name there."""
    folder, _, name = place.rpartition("/")
    return files_of(folder), name
