"""First files to start from: a grid that the package carries, a plug-in with its test, or the grid
file of a search written from a few options.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import raxalign
from raxalign.catalog import catalog
from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.search import Space
from raxalign.options.sources import HubMarker

_FIRST = ("quickstart", "paper", "mine", "unseen", "sets", "sources", "curve", "adaptive", "layers")
FOLDERS = {"method": "methods", "task": "tasks", "corpus": "corpora"}
"""What there is a first plug-in of, with the folder of its kind."""
_TEMPLATES = Path(__file__).with_name("templates")
_FORMS = "lambda=log_uniform:0.01:10, epochs=int:1:4, layers=choice:last:9:9-12"


def grids_folder() -> Path:
    """Return ``raxalign/grids`` where the package is installed, the repository's ``grids`` where it
    is used in place. Raises `RaxalignError` where neither is there.
    """
    package = Path(raxalign.__file__).parent
    for folder in (package / "grids", package.parent / "grids"):
        if (folder / f"{_FIRST[0]}.yaml").is_file():
            return folder
    raise RaxalignError(f"{package / 'grids'}: is not there; install raxalign again")


def grid_names() -> list[str]:
    """Return the names of the grids that the package carries, those to start from first."""
    names = {path.stem for path in grids_folder().glob("*.yaml")}
    return [*(name for name in _FIRST if name in names), *sorted(names - {*_FIRST})]


def write_grid(name: str, out: Path | None = None) -> Path:
    """Write a grid of the package to `out`, by default ``<name>.yaml`` here; return where it lies.
    Raises `RaxalignError` for another name and for a file that is there already,
    `StorageError` where the file cannot be written.
    """
    known = grid_names()
    if name not in known:
        raise RaxalignError(f"init {name}: is not one of the grids; there are {', '.join(known)}")
    out = out or Path(f"{name}.yaml")
    text = (grids_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    _write(out, text, "give another name with --out, or remove it first")
    return out


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
        text = text.replace("my_name", name).replace("MyName", class_name)
        _write(path, text, "give another name, or --out FOLDER")
    return written


def write_search(
    path: Path,
    *,
    spaces: Sequence[str],
    options: Sequence[str],
    languages: Sequence[str],
    task: str,
    **values: str | int | None,
) -> None:
    """Write the grid file of a search; nothing is overwritten. What is wrong with its values is
    found when the file is read. Raises `RaxalignError` for options that cannot be written down,
    `StorageError` where the file cannot be written.

    Args:
        path: The file.
        spaces: The searched params, as ``lambda=log_uniform:0.01:10``.
        options: The other options of the method, as ``batch_size=16``.
        languages: The languages; each has a study of its own.
        task: The kind of a task, or a mapping of one in YAML (``xnli: {data: phrasebook}``).
        values: The other options of `raxalign search` by their names; `metric` None is the main
            metric of the task.
    """
    task, _, task_options = task.partition(":")
    pruner = values.pop("pruner", "none")
    filled = {
        **values,
        "name": path.stem,
        "languages": ", ".join(languages),
        "corpus": _corpus(str(values["corpus"])),
        "encoder": _encoder(str(values["encoder"])),
        "params": _params(spaces, options, languages),
        "task": task,
        "task_options": task_options.strip() or "{}",
        "metric": values["metric"] or _main_metric(task),
        "pruner": "" if pruner == "none" else f", pruner: {pruner}",
    }
    text = (_TEMPLATES / "search.txt").read_text(encoding="utf-8").format(**filled)
    _write(path, text, "give another name")


def _params(spaces: Sequence[str], options: Sequence[str], languages: Sequence[str]) -> str:
    """Return the params of the method as a grid file has them."""
    if not spaces or not languages:
        example = f"--lang de --space {_FORMS.split(',', maxsplit=1)[0]}"
        needs = "a search needs --lang, and a --space for each param to search"
        raise RaxalignError(f"{needs}; for example {example}")
    params = [_space(text) for text in spaces]
    params += [": ".join(_pair("--option", text)) for text in options]
    return "\n".join(f"    {param}" for param in params)


def _write(path: Path, text: str, remedy: str) -> None:
    """Write a file that is not there yet."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if path.exists():
            raise RaxalignError(f"{path}: is there already; {remedy}") from error
        raise StorageError(f"{path}: cannot be written ({error.strerror or error})") from error


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise RaxalignError(f"{flag} {text!r}: write NAME=VALUE, for example {_FORMS}")
    return name, value


def _space(text: str) -> str:
    """Return a space as a grid file has it."""
    name, value = _pair("--space", text)
    kind, *parts = value.split(":")
    if kind not in Space.KINDS or len(parts) < 2:
        raise RaxalignError(
            f"--space {text!r}: write NAME=KIND:VALUE:VALUE with one of {', '.join(Space.KINDS)},"
            f" for example {_FORMS}"
        )
    return f"{name}: {{{kind}: [{', '.join(parts)}]}}"


def _corpus(text: str) -> str:
    """Return a corpus as a grid file has it."""
    if text.startswith("{"):
        return text
    if text in catalog("corpora"):
        return f"{{source: {text}}}"
    return f"{{source: moses, path: {Path(text).absolute()}}}"


def _encoder(text: str) -> str:
    """Return an encoder as a grid file has it; a folder that is named from here by its place."""
    is_written = text.startswith("{") or text in catalog("encoders")
    return text if is_written else HubMarker().resolve(text, Path.cwd())


def _main_metric(task: str) -> str:
    """Return the main metric of a task: of a pair of languages where the task compares vectors of
    two, and without the pivot where it trains on that.
    """
    from raxalign.tasks.base import Task

    kinds = catalog("tasks")
    if task not in kinds:
        raise RaxalignError(f"--task {task!r}: unknown task; known: {', '.join(kinds)}")
    kind = kinds[task]
    lang = "{lang}-{pivot}" if kind.training is Task.training else "avg_zero_shot"
    return f"{task}/{lang}/{kind.main_metric}"
