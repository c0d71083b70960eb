"""``<grid>.lock``: what remote data was when it was first looked up, so that a grid means the same
tomorrow and elsewhere.

A JSON object beside the grid file, remote name -> revision or SHA-256, meant to be committed with
it: ``grids/cao.yaml`` has ``grids/cao.lock``.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from raxalign.errors import DataError, StorageError


@dataclass(frozen=True)
class Lock:
    """The lock file of a grid; a value, `with_` makes another and `save` writes it."""

    path: Path
    entries: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, grid_path: Path | str) -> Lock:
        """Return the lock of a grid file; empty where there is none. Raises `DataError`, which
        names the file, where it is damaged.
        """
        path = Path(grid_path).with_suffix(".lock")
        return cls(path, _read(path))

    def get(self, name: str) -> str | None:
        """Return the revision or digest of a remote name, None where it has not been looked up."""
        return self.entries.get(name)

    def with_(self, name: str, digest: str) -> Lock:
        """Return the same lock with one entry more, or another value for it."""
        return replace(self, entries={**self.entries, name: digest})

    def save(self) -> None:
        """Write the file at once or not at all; entries that others have added in the meantime are
        kept. Raises `StorageError`.
        """
        with _turn(self.path.parent):
            entries = {**_read(self.path), **self.entries}
            text = json.dumps(entries, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            partial = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:8]}")
            try:
                with partial.open("x", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(self.path)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise StorageError(
                    f"{self.path}: cannot be written ({error.strerror or error}); make its folder"
                    " writable, or pin remote data in the grid file"
                ) from error


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Let one process at a time use the lock files of a folder, where its file system can."""
    handle = None
    with suppress(OSError):  # writing says what is wrong with the folder
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _read(path: Path) -> dict[str, str]:
    try:
        return _ENTRIES.validate_json(path.read_bytes(), strict=True)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(path, f"the lock file cannot be read ({error})", remedy=_REMEDY) from error
    except ValidationError as error:
        told = f"the lock file is damaged ({error.errors()[0]['msg']})"
        raise DataError(path, told, remedy=_REMEDY) from error


_ENTRIES = TypeAdapter(dict[str, Annotated[str, Field(min_length=1)]])
_REMEDY = "Restore it from version control, or delete it to look everything up again"
