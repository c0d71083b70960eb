"""Where Ray keeps its own files while a grid runs. None of them is a result, and no other run
reads them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import fsspec

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
    with suppress(OSError):
        filesystem, path = fsspec.url_to_fs(place)
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)
