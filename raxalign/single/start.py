"""A first grid file: a copy of one that the package carries."""

from __future__ import annotations

from pathlib import Path

import raxalign
from raxalign.errors import RaxalignError, StorageError

CHOICES = ("quickstart", "paper", "mine")


def grids_folder() -> Path:
    """Return the folder of the grids: ``raxalign/grids`` where the package is installed, the
    repository's ``grids`` where it is used in place.

    Raises `RaxalignError` where neither is there.
    """
    package = Path(raxalign.__file__).parent
    for folder in (package / "grids", package.parent / "grids"):
        if (folder / f"{CHOICES[0]}.yaml").is_file():
            return folder
    raise RaxalignError(f"{package / 'grids'}: is not there; install raxalign again")


def write_grid(name: str, out: Path | None = None) -> Path:
    """Write the grid `name` (one of `CHOICES`) to `out`, by default ``<name>.yaml`` here; returns
    where it lies.

    Raises `RaxalignError` for another name and for a file that is there already, `StorageError`
    where the file cannot be written.
    """
    if name not in CHOICES:
        raise RaxalignError(f"init {name}: is not one of the grids; there are {', '.join(CHOICES)}")
    out = out or Path(f"{name}.yaml")
    text = (grids_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise RaxalignError(
            f"{out}: is there already; give another name with --out, or remove it first"
        ) from error
    except OSError as error:
        raise StorageError(f"{out}: cannot be written ({error.strerror or error})") from error
    return out
