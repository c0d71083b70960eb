"""A folder of this machine that is kept in the storage too, so that it outlives the machine.

In the storage each file is named by its SHA-256. A sealed index names the files of one moment. It
is written when all of them are there, and what an older index named is then removed. So a reader
finds the folder as it was at one moment, or nothing.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from raxalign.store.alive import discard, temporary_name
from raxalign.store.key import file_digest
from raxalign.store.manifest import Inside, Sha256
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage

_INDEX = "index.json"


@recorded
class _Index:
    files: Mapping[Inside, Sha256]


class Mirror:
    """The copy of a folder at one path of a storage."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._files, self._path = storage.files, path

    @property
    def place(self) -> str:
        """The URL or path of the copy."""
        return self._files.place(self._path)

    def version(self) -> str | None:
        """Return what tells the copy of one moment from another one; None where there is no whole
        copy.
        """
        found = self._index()
        return found[0] if found else None

    def names(self) -> list[str]:
        """Return the names of the files of the copy; none where there is no copy."""
        index = self._index()
        return [] if index is None else sorted(index[1])

    def push(self, files: Mapping[str, Path]) -> str:
        """Make the copy hold exactly these files, by their relative paths with ``/``; returns its
        version. Files that are there already are not sent again.

        Raises `StorageError` where the storage cannot be written; the copy then stays what it was.
        """
        digests = {name: file_digest(path) for name, path in files.items()}
        there = set(self._files.names(f"{self._path}/files"))
        for name, digest in digests.items():
            if digest not in there:
                self._files.upload(files[name], f"{self._path}/files/{digest}")
                there.add(digest)
        data = seal({"files": digests})
        self._files.write(f"{self._path}/{_INDEX}", data)
        for digest in there - set(digests.values()):
            self._files.delete(f"{self._path}/files/{digest}")
        return hashlib.sha256(data).hexdigest()

    def pull(self, folder: Path) -> str | None:
        """Replace a local folder by the copy; returns its version. Where there is no whole copy,
        None is returned and the folder stays as it is.
        """
        found = self._index()
        if found is None:
            return None
        version, digests = found
        aside = folder.with_name(temporary_name(folder.name))
        try:
            for name, digest in digests.items():
                file = aside / name
                file.parent.mkdir(parents=True, exist_ok=True)
                self._files.download(f"{self._path}/files/{digest}", file)
                if file_digest(file) != digest:
                    return None
            aside.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        except FileNotFoundError:  # replaced or removed in between
            return None
        finally:
            discard(aside)
        return version

    def remove(self) -> None:
        """Remove the copy, its index first."""
        self._files.delete(f"{self._path}/{_INDEX}")
        self._files.delete_all(self._path)

    def _index(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the version of the index, the digest of its bytes, and those of files by name."""
        try:
            data = self._files.read(f"{self._path}/{_INDEX}")
            return hashlib.sha256(data).hexdigest(), unseal(data, _Index).files
        except (FileNotFoundError, ValueError):
            return None
