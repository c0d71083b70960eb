"""A first plug-in: a file that works, and its test, to be changed step by step."""

from __future__ import annotations

from pathlib import Path

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError, StorageError

FOLDERS = {"method": "methods", "task": "tasks", "corpus": "corpora"}
"""What there is a first plug-in of, with the folder of its kind."""
_TEMPLATES = Path(__file__).with_name("templates")


def write_plugin(what: str, name: str, folder: Path | None = None) -> tuple[Path, Path]:
    """Write ``<name>.py`` and ``test_<name>.py``; return both.

    Args:
        what: One of `FOLDERS`.
        name: The name of the plug-in in grid files.
        folder: Where they are written (None: here).

    Raises:
        RaxalignError: The name cannot be one, or is taken, or a file is there already.
        StorageError: The files cannot be written.
    """
    if not name.isidentifier() or not name.islower() or name.startswith("_") or name == "base":
        raise RaxalignError(
            f"init {what} {name}: cannot be a plug-in's name; write small letters, digits and _,"
            f" for example my_{what}"
        )
    if catalog(FOLDERS[what]).own(name):
        raise RaxalignError(
            f"init {what} {name}: the name is taken (`raxalign list {FOLDERS[what]}`); give another"
        )
    class_name = "".join(part.capitalize() for part in name.split("_"))
    folder = folder or Path()
    written = folder / f"{name}.py", folder / f"test_{name}.py"
    for path in written:
        if path.exists():
            raise RaxalignError(f"{path}: is there already; give another name, or --out FOLDER")
    for path, template in zip(written, (what, f"test_{what}"), strict=True):
        text = (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(
                text.replace("my_name", name).replace("MyName", class_name), encoding="utf-8"
            )
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({error.strerror or error})") from error
    return written
