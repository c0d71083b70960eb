"""Where Ray keeps its own files while a grid runs. None of them is a result, and no other run
reads them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store.files import split_place
from raxalign.tracking.drivers import process_lives

_PREFIX = "raxalign-ray-"


def scratch_folder(root: str, address: str | None) -> str:
    """Return a folder of this machine where Ray runs on it alone; on a cluster one in the storage,
    which every node sees.
    """
    if address:
        return f"{root}/ray/{os.uname().nodename}-{os.getpid()}"
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not process_lives(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


def remove_scratch(place: str) -> None:
    """Remove what `scratch_folder` gave."""
    with suppress(StorageError):
        storage, name = split_place(place)
        storage.delete_all(name)
