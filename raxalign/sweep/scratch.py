"""Where Ray keeps its own files while a grid runs. None of them is a result, and no other run
reads them.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store.alive import maker_name
from raxalign.store.files import split_place
from raxalign.store.leftovers import SCRATCH, left_by_dead


def scratch_folder(root: str, address: str | None) -> str:
    """Return a folder of this machine where Ray runs on it alone; on a cluster one in the storage,
    which every node sees.
    """
    if address:
        return f"{root}/ray/{maker_name()}"
    for left in left_by_dead(Path(tempfile.gettempdir()), SCRATCH):
        shutil.rmtree(left, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{SCRATCH}{maker_name()}-")


def remove_scratch(place: str) -> None:
    """Remove what `scratch_folder` gave."""
    with suppress(StorageError):
        storage, name = split_place(place)
        storage.delete_all(name)
