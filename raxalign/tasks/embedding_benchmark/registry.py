"""The tasks of mteb by their names, and those of a user's file: what is wrong with a choice of
them, which of their subsets a language has, and where their data lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import PluginFile
from raxalign.errors import DataError
from raxalign.languages import spelled
from raxalign.options.sources import LocalFile, RemoteData, Source
from raxalign.store.key import file_digest

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

BITEXT = "BitextMining"
SIDES = ("sentence1", "sentence2")
"""The columns that mteb documents for the data of bitext mining."""
TYPES = (
    BITEXT,
    "Classification",
    "MultilabelClassification",
    "Clustering",
    "PairClassification",
    "Reranking",
    "Retrieval",
)
"""The types of mteb's tasks that are evaluated: their scores are shares."""
_SHOWN = 8


def known_tasks(definitions: str | None) -> Mapping[str, type[AbsTask]]:
    """Return the tasks of mteb, and those of a user's file (None: there is none), by name. Raises
    `DataError` for a file that has no task, and `PluginFault` for one that does not run.
    """
    from mteb.get_tasks import TASK_LIST

    own = _defined(definitions, file_digest(Path(definitions))) if definitions else {}
    return {**{task.metadata.name: task for task in TASK_LIST}, **own}


@cache
def _defined(path: str, digest: str) -> Mapping[str, type[AbsTask]]:
    """Execute a file, once per content, and return the tasks that it defines."""
    from mteb.abstasks import AbsTask

    file = Path(path)
    module = PluginFile.executed(file, file.read_bytes(), f"raxalign_outside.mteb_{digest[:16]}")
    found: dict[str, type[AbsTask]] = {
        entry.metadata.name: entry
        for entry in vars(module).values()
        if isinstance(entry, type)
        and issubclass(entry, AbsTask)
        and entry.__module__ == module.__name__
        and hasattr(entry, "metadata")
    }
    if not found:
        told = "defines no task: no class with `metadata` that is derived from one of mteb's"
        raise DataError(path, told)
    return found


def faults(
    known: Mapping[str, type[AbsTask]],
    names: tuple[str, ...],
    languages: tuple[str, ...],
    pivot: str,
) -> Iterator[str]:
    """Yield what is wrong with tasks by these names in these languages; each begins with the option
    that is at fault.
    """
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"tasks: {name}: mteb {version('mteb')} has no task of this name{hint}"
            continue
        metadata = known[name].metadata
        whole = not hasattr(metadata, "tasks")
        if metadata.type not in TYPES or list(metadata.modalities) != ["text"] or not whole:
            sort = f"of mteb's type {metadata.type}" if whole else "a collection of tasks"
            types = f"{', '.join(TYPES)}, of text alone"
            yield f"tasks: {name} is {sort}; the types that are evaluated are {types}"
            continue
        subsets = list(metadata.hf_subsets_to_langscripts)
        more = f" and {len(subsets) - _SHOWN:,} more" if len(subsets) > _SHOWN else ""
        for lang in languages:
            if not subsets_of(known[name], lang, pivot):
                pair = f"{lang} with {pivot}" if metadata.type == BITEXT else lang
                yield (
                    f"tasks: {name} has no subset of {pair}; its subsets are"
                    f" {', '.join(subsets[:_SHOWN])}{more}. Give the task its own `languages`"
                )


def subsets_of(task: type[AbsTask], lang: str, pivot: str) -> dict[str, tuple[str, ...]]:
    """Return the subsets of a language, with the languages of their sides in the order in which
    mteb names them: pairs with the pivot of a bitext, else subsets of the language alone.
    """
    wanted = {lang, pivot} if task.metadata.type == BITEXT else {lang}
    found = {}
    for subset, codes in task.metadata.hf_subsets_to_langscripts.items():
        sides = tuple(spelled(code, (lang, pivot)) or code for code in codes)
        if set(sides) == wanted and len(sides) == len(wanted):
            found[subset] = sides
    return found


def folder_of(task: type[AbsTask], given: Mapping[str, str]) -> Path | None:
    """Return the local folder of a task's data: the given one, or that of its metadata; None where
    it is on the hub.
    """
    path = given.get(task.metadata.name) or str(task.metadata.dataset["path"])
    return Path(path) if task.metadata.name in given or Path(path).is_dir() else None


def sources(
    known: Mapping[str, type[AbsTask]], names: tuple[str, ...], params: Any
) -> dict[str, Source]:
    """Return the data of some tasks: each file of a local folder, the user's file, or the revision
    of a data set on the hub that mteb names.
    """
    found: dict[str, Source] = {}
    for name in names:
        folder = folder_of(known[name], params.data)
        if folder is None:
            dataset = known[name].metadata.dataset
            found[name] = RemoteData(f"hub:{dataset['path']}", str(dataset.get("revision")))
        elif not folder.is_dir():
            found[name] = LocalFile(folder)  # which the plan reports as missing
        else:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            found |= {f"{name}/{path.relative_to(folder)}": LocalFile(path) for path in files}
    if params.definitions is not None:
        found["definitions"] = LocalFile(Path(params.definitions))
    return found
