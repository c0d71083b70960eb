"""A grid file for a search, written from a few options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raxalign.catalog import catalog
from raxalign.config.spaces import KINDS
from raxalign.errors import RaxalignError, StorageError

_FORMS = "lambda=log_uniform:0.01:10, epochs=int:1:4, layers=choice:last:9:9-12"
_TEXT = """\
# Written by `raxalign search`; edit it as any grid file, and run it again: what is done is kept.
name: {name}
pivot: {pivot}
encoder: {encoder}
languages: {{each: [{languages}]}}
corpus: {corpus}
pairs: {{aligner: {aligner}}}
sentences: {sentences}
methods:
  none: {{}}
  {method}:
{params}
tasks:
  {task}: {task_options}
search: {{sampler: {sampler}, budget: {budget}, metric: "{metric}", confirm: {confirm}{pruner}}}
"""


@dataclass(frozen=True)
class SearchRequest:
    """What a search is over.

    Attributes:
        method: The kind of the method.
        spaces: Its searched params, as ``lambda=log_uniform:0.01:10``.
        options: Its other options, as ``batch_size=16``.
        languages: The languages; each has a study of its own.
        pivot: The language that they share.
        corpus: The kind of a corpus, the prefix of two parallel files, or a mapping in YAML.
        encoder: A hub name, a folder, or a mapping in YAML.
        sentences: The number of training sentence pairs.
        task: What the search is judged by: the kind of a task, or a mapping of one in YAML
            (``xnli: {data: phrasebook}``).
        metric: task/lang/metric (None: the main metric of the task).
        budget: What each study may spend, as ``20 trials``.
        sampler: How values are suggested.
        confirm: How many fresh seeds the best point is run again with.
        aligner: The word aligner.
        pruner: Which trials end early.
    """

    method: str
    spaces: Sequence[str]
    options: Sequence[str]
    languages: Sequence[str]
    pivot: str
    corpus: str
    encoder: str
    sentences: int
    task: str
    metric: str | None
    budget: str
    sampler: str
    confirm: int
    aligner: str
    pruner: str = "none"


def write_search(request: SearchRequest, path: Path) -> None:
    """Write the grid file of a search; nothing is overwritten. What is wrong with its values is
    found when the file is read.

    Raises `RaxalignError` for options that cannot be written down, and `StorageError` where the
    file cannot be written.
    """
    if not request.spaces or not request.languages:
        raise RaxalignError(
            "a search needs --lang, and a --space for each param to search; for example"
            f" --lang de --space {_FORMS.split(',', maxsplit=1)[0]}"
        )
    params = [f"    {_space(text)}" for text in request.spaces]
    params += [f"    {': '.join(_pair('--option', text))}" for text in request.options]
    task, _, options = request.task.partition(":")
    text = _TEXT.format(
        name=path.stem,
        pivot=request.pivot,
        encoder=request.encoder,
        languages=", ".join(request.languages),
        corpus=_corpus(request.corpus),
        aligner=request.aligner,
        sentences=request.sentences,
        method=request.method,
        params="\n".join(params),
        task=task,
        task_options=options.strip() or "{}",
        sampler=request.sampler,
        budget=request.budget,
        metric=request.metric or _main_metric(task),
        confirm=request.confirm,
        pruner="" if request.pruner == "none" else f", pruner: {request.pruner}",
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
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
    if kind not in KINDS or len(parts) < 2:
        raise RaxalignError(
            f"--space {text!r}: write NAME=KIND:VALUE:VALUE with one of {', '.join(KINDS)}, for"
            f" example {_FORMS}"
        )
    return f"{name}: {{{kind}: [{', '.join(parts)}]}}"


def _corpus(text: str) -> str:
    """Return a corpus as a grid file has it."""
    if text.startswith("{"):
        return text
    if text in catalog("corpora"):
        return f"{{source: {text}}}"
    return f"{{source: moses, path: {Path(text).absolute()}}}"


def _main_metric(task: str) -> str:
    """Return the main metric of a task: of a pair of languages where the task compares vectors of
    two, and without the pivot where it trains on that.
    """
    kinds = catalog("tasks")
    if task not in kinds:
        raise RaxalignError(f"--task {task!r}: unknown task; known: {', '.join(kinds)}")
    kind = kinds[task]
    trained = kind.training is not _untrained()
    lang = "avg_zero_shot" if trained else "{lang}-{pivot}"
    return f"{task}/{lang}/{kind.main_metric}"


def _untrained() -> object:
    from raxalign.tasks.base import Task

    return Task.training
