"""The plug-ins of a folder in one table: what each needs, what it moves or reads, what it costs,
and the paper that it is from. All of it is asked of the plug-ins, with the defaults of their
options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from raxalign.catalog import FOLDERS
from raxalign.config.params import models_in
from raxalign.report.terminal.fit import TextTable
from raxalign.tasks.base import Task

_LAYERS = 12  # of an encoder that is asked about
_PAPER = re.compile(r"([^\W\d_a-z][^\W\d_]*[^\d():;§]*?),? \(?((?:19|20)\d\d)")
_TOLD = {
    "links": "word pairs",
    "heldout": "word pairs",
    "bitext": "sentence pairs",
    "text": "text",
    "head": "masked-LM head",
}
"""What a method or a task needs, in words."""


def overview(folder: str, plugins: Mapping[str, Any]) -> TextTable:
    """Return the table of a folder's plug-ins."""
    if folder in ("methods", "tasks"):
        acts = "moves" if folder == "methods" else "reads"
        columns: tuple[str, ...] = ("needs", acts, "cost", "paper")
        make = _method if folder == "methods" else _task
        rows: list[tuple[str, ...]] = [
            (name, *make(plugin), paper_of(plugin)) for name, plugin in plugins.items()
        ]
    else:
        columns = ("what it is", "paper", "licence")
        rows = [
            (name, _sentence(plugin), paper_of(plugin), getattr(plugin, "licence", ""))
            for name, plugin in plugins.items()
        ]
    kept = [place for place in range(1, len(columns) + 1) if any(row[place] for row in rows)]
    return TextTable(
        (FOLDERS[folder].noun,),
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


def _method(kind: Any) -> tuple[str, str, str]:
    """What a method needs, what it moves, and what it costs."""
    method = kind(_defaults(kind.Params))
    effect, acts = method.effect(), method.acts(_LAYERS)
    if effect.weights:
        moves, cost = "weights", f"training{_passes(method)}"
    elif effect.inside:
        moves, cost = "hidden states", "one reading"
    elif acts.readouts:
        pivot = ", the pivot's too" if effect.pivot else ""
        moves, cost = f"vectors{pivot}", "one reading"
    else:
        moves = cost = "nothing"
    return _joined(_data(method.needs()), kind), moves, cost


def _task(kind: Any) -> tuple[str, str, str]:
    """What a task needs, what it reads, and what it costs."""
    task: Task = kind(_defaults(kind.Params))
    reads, trains = task.reads(_LAYERS), task.training() is not None
    data = [f"held-out {what}" if what.endswith("pairs") else what for what in _data(task.needs())]
    data += ["labelled data"] if trains else []
    several = "several layers" if reads.layers else "all layers"
    read = "the last layer" if reads.layers == {_LAYERS} else several
    cost = f"training{_passes(task)} per method" if trains else "one reading"
    return _joined(data, kind), read, cost


def _data(needs: Any) -> list[str]:
    """What a method or a task reads of the grid's text."""
    return [text for field, text in _TOLD.items() if getattr(needs, field, False)]


def _joined(needs: list[str], kind: Any) -> str:
    """Needs in words, with the options that have to be given and the encoder that it takes, where
    it does not take all.
    """
    fields = kind.Params.model_fields.items()
    found = [*needs, *(f"`{f.alias or name}`" for name, f in fields if f.is_required())]
    if kind.accepts == {"transformer"} and "masked-LM head" not in found:
        found.append("transformer")
    return ", ".join(found) or "nothing"


def _passes(plugin: Any) -> str:
    """How often a training reads its data, where that is an option with a value."""
    epochs = getattr(plugin.params, "epochs", None)
    return f", {epochs} pass{'es' * (epochs != 1)}" if epochs else ""


def _defaults(model: type[BaseModel]) -> BaseModel:
    """Options with their defaults; those without one are only made up."""
    required: dict[str, Any] = {
        name: next((_defaults(part) for part in models_in(field.annotation)), "file")
        for name, field in model.model_fields.items()
        if field.is_required()
    }
    return model.model_construct(**required)


def _sentence(plugin: Any) -> str:
    """The first sentence of a plug-in's docstring."""
    summary = " ".join((plugin.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z`])|[.:]$", summary)[0]
