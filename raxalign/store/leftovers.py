"""What a storage has besides artifacts and the ledger, for those who tidy it."""

from __future__ import annotations

import os
from pathlib import Path

from raxalign.store.alive import process_of
from raxalign.store.storage import Storage

SCRATCH = "raxalign-ray-"
"""How the folders of Ray on this machine begin; the name of their process follows."""
SHORT = Path("/tmp")  # noqa: S108 nothing is shorter
"""Where links to these folders are, since a socket's path has at most 107 bytes."""


def below(storage: Storage, top: str) -> dict[str, dict[str, int]]:
    """Return the files below a folder of a storage with their bytes, grouped by the entry of the
    folder that they belong to (a file of the folder itself is its own entry).
    """
    found: dict[str, dict[str, int]] = {}
    for name, size in storage.files.names(top).items():
        found.setdefault(name.partition("/")[0], {})[f"{top}/{name}"] = size
    return found


def remove_entry(storage: Storage, top: str, entry: str, files: dict[str, int]) -> None:
    """Remove an entry of a folder with its files."""
    if list(files) == [f"{top}/{entry}"]:
        storage.files.delete(f"{top}/{entry}")
    else:
        marker = next(iter(files)).removeprefix(f"{top}/{entry}/")
        storage.files.remove(f"{top}/{entry}", marker)


def bytes_of(path: Path) -> int:
    """Return the bytes of a local file, or of all files of a folder; links are not followed."""
    whole = path.is_dir() and not path.is_symlink()
    own = [file for file in path.rglob("*") if file.is_file()] if whole else [path]
    return sum(file.lstat().st_size for file in own if file.exists() or file.is_symlink())


def left_by_dead(folder: Path) -> list[Path]:
    """Return the scratch folders ``<SCRATCH><process>-<anything>`` in a local folder whose
    processes are dead, and the links to such, whether or not these are still there.
    """

    def maker(path: Path) -> str:
        return os.path.realpath(path).rpartition(SCRATCH)[2].rpartition("-")[0]

    found = {*folder.glob(f"{SCRATCH}*"), *SHORT.glob(f"{SCRATCH}*")}
    return [path for path in sorted(found) if process_of(maker(path)) is False]
