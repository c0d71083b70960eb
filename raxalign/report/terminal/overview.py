"""The plug-ins of a folder in one table: what each needs, what it moves or reads, what it costs,
and the paper that it is from. All of it is asked of the plug-ins, with the defaults of their
options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from raxalign.catalog import FOLDERS
from raxalign.config.params import models_in
from raxalign.report.terminal.fit import TextTable
from raxalign.tasks.base import Task

_LAYERS = 12  # of an encoder that is asked about
_PAPER = re.compile(r"([^\W\d_a-z][^\W\d_]*[^\d():;§]*?),? \(?((?:19|20)\d\d)")


def overview(folder: str, plugins: Mapping[str, Any]) -> TextTable:
    """Return the table of a folder's plug-ins."""
    head = FOLDERS[folder].noun
    if folder == "methods":
        columns: tuple[str, ...] = ("needs", "moves", "cost", "paper")
        rows = [_method(name, plugin) for name, plugin in plugins.items()]
    elif folder == "tasks":
        columns = ("needs", "reads", "cost", "paper")
        rows = [_task(name, plugin) for name, plugin in plugins.items()]
    else:
        columns = ("what it is", "paper", "licence")
        rows = [
            (name, _sentence(plugin), paper_of(plugin), getattr(plugin, "licence", ""))
            for name, plugin in plugins.items()
        ]
    kept = [place for place in range(1, len(columns) + 1) if any(row[place] for row in rows)]
    return TextTable(
        (head,),
        tuple(columns[place - 1] for place in kept),
        tuple((row[0], *(row[place] for place in kept)) for row in rows),
        frozenset(columns),
    )


def paper_of(plugin: Any) -> str:
    """Return the papers that a plug-in names: its `reference`, or those of the paragraph of its
    docstring that begins with ``Reference:``; empty where there is none.
    """
    if declared := getattr(plugin, "reference", ""):
        return str(declared)
    _, _, told = (plugin.__doc__ or "").partition("Reference:")
    paragraph = " ".join(told.split("\n\n")[0].split())
    return "; ".join(f"{name} {year}" for name, year in _PAPER.findall(paragraph))


def _method(name: str, kind: Any) -> tuple[str, ...]:
    method = kind(_defaults(kind.Params))
    effect, acts, needs = method.effect(), method.acts(_LAYERS), method.needs()
    if effect.weights:
        moves, cost = "weights", f"training{_passes(method)}"
    elif effect.inside:
        moves, cost = "hidden states", "one reading"
    elif acts.readouts:
        pivot = ", the pivot's too" if effect.pivot else ""
        moves, cost = f"vectors{pivot}", "one reading"
    else:
        moves = cost = "nothing"
    read = _joined(_data(needs), kind)
    return name, read, moves, cost, paper_of(kind)


def _task(name: str, kind: Any) -> tuple[str, ...]:
    task: Task = kind(_defaults(kind.Params))
    needs, reads, trains = task.needs(), task.reads(_LAYERS), task.training() is not None
    held_out = [f"held-out {what}" if what.endswith("pairs") else what for what in _data(needs)]
    labelled = ["labelled data"] if trains else []
    several = "several layers" if reads.layers else "all layers"
    read = "the last layer" if reads.layers == {_LAYERS} else several
    cost = f"training{_passes(task)} per method" if trains else "one reading"
    return name, _joined([*held_out, *labelled], kind), read, cost, paper_of(kind)


def _data(needs: Any) -> Iterator[str]:
    """Yield what a method or a task reads of the grid's text, in words."""
    told = {
        "links": "word pairs",
        "heldout": "word pairs",
        "bitext": "sentence pairs",
        "text": "text",
        "head": "masked-LM head",
    }
    return (text for field, text in told.items() if getattr(needs, field, False))


def _joined(needs: Any, kind: Any) -> str:
    """Return needs in words, with the options that have to be given and the encoder that it takes,
    where it does not take all.
    """
    found = list(needs)
    found += [
        f"`{field.alias or name}`"
        for name, field in kind.Params.model_fields.items()
        if field.is_required()
    ]
    if kind.accepts == {"transformer"} and "masked-LM head" not in found:
        found.append("transformer")
    return ", ".join(found) or "nothing"


def _passes(plugin: Any) -> str:
    """Return how often a training reads its data, where that is an option with a value."""
    epochs = getattr(plugin.params, "epochs", None)
    return f", {epochs} pass{'es' * (epochs != 1)}" if epochs else ""


def _defaults(model: type[BaseModel]) -> BaseModel:
    """Return options with their defaults; those without one are only made up."""
    required: dict[str, Any] = {
        name: next((_defaults(part) for part in models_in(field.annotation)), "file")
        for name, field in model.model_fields.items()
        if field.is_required()
    }
    return model.model_construct(**required)


def _sentence(plugin: Any) -> str:
    """Return the first sentence of a plug-in's docstring."""
    summary = " ".join((plugin.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z`])|[.:]$", summary)[0]
