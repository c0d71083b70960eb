"""What a storage has besides artifacts and the ledger, for those who tidy it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from raxalign.store._temporary import discard
from raxalign.store.alive import process_of
from raxalign.store.storage import Storage

SCRATCH = "raxalign-ray-"
"""How the folders of Ray on this machine begin; the name of their process follows."""


class Leftovers:
    """The files of a storage root by folder. Paths are relative to the root."""

    def __init__(self, storage: Storage) -> None:
        self._files = storage.files

    def below(self, top: str) -> dict[str, dict[str, int]]:
        """Return the files below a folder with their bytes, grouped by the entry of the folder that
        they belong to (a file of the folder itself is its own entry).
        """
        found: dict[str, dict[str, int]] = {}
        for name, size in self._files.names(top).items():
            path = f"{top}/{name}"
            entry = path.removeprefix(f"{top}/").partition("/")[0]
            found.setdefault(entry, {})[path] = size
        return found

    def read(self, path: str) -> bytes:
        """Return a file's bytes; FileNotFoundError where there is none."""
        return self._files.read(path)

    def place(self, path: str) -> str:
        """Return the absolute path or URL."""
        return self._files.place(path)

    def remove(self, top: str, entry: str, files: dict[str, int]) -> None:
        """Remove an entry of a folder with its files."""
        if list(files) == [f"{top}/{entry}"]:
            self._files.delete(f"{top}/{entry}")
        else:
            marker = next(iter(files)).removeprefix(f"{top}/{entry}/")
            self._files.remove(f"{top}/{entry}", marker)

    def temporaries(self) -> Iterator[tuple[Path, int]]:
        """Yield the local files and folders that dead processes left half-written, with bytes."""
        for path in self._files.abandoned():
            yield path, bytes_of(path)


def bytes_of(path: Path) -> int:
    """Return the bytes of a local file, or of all files of a folder; links are not followed."""
    own = [path] if not path.is_dir() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.lstat().st_size for file in own if file.exists() or file.is_symlink())


def left_by_dead(folder: Path, prefix: str) -> list[Path]:
    """Return the entries ``<prefix><process>-<anything>`` of a local folder whose processes are
    dead.
    """
    return [
        path
        for path in sorted(folder.glob(f"{prefix}*"))
        if process_of(path.name.removeprefix(prefix).rpartition("-")[0]) is False
    ]


def remove_local(path: Path) -> None:
    """Remove a local file or folder, as far as that is possible."""
    discard(path)
