"""The stages of pieces: text that is divided once, for all trials that read it by the same
tokenizer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.plan.expansion.data import EVERYTHING
from raxalign.plan.stage import Stage

if TYPE_CHECKING:
    from raxalign.plan.expansion.data import SharedStages
    from raxalign.tasks.base import Task

PIECES_VERSION = 1
LEAST_SENTENCES = 10_000
"""Sentences per language, or rows of a task, from which pieces have a stage. Fewer are divided by
each trial, in the time that a stage takes to start.
"""
_ROW_BYTES = 150
"""Bytes of a row in the file of a task: those of XNLI and PAWS-X have some more."""

_COLUMNS = {"pairs": ("src", "tgt"), "bitext": ("src", "tgt"), "text": ("words",)}


def prepared_pieces(
    shared: SharedStages, encoder: Stage, inputs: Mapping[str, str], sentences: int
) -> dict[str, str]:
    """Add the stages of the pieces of a method's training data; return their keys by the names of
    the inputs. None are added where there is little text.

    Args:
        shared: The shared stages of the grid.
        encoder: The stage of the encoder whose tokenizer makes the pieces.
        inputs: The inputs of the method: those called ``pairs/``, ``bitext/`` and ``text/`` count.
        sentences: The number of training sentence pairs per language.
    """
    grid, found = shared.grid, {}
    for name, key in inputs.items():
        kind, _, lang = name.partition("/")
        corpus = kind == "text" and grid.text.corpus is not None
        if kind in _COLUMNS and (EVERYTHING if corpus else sentences) >= LEAST_SENTENCES:
            langs = dict(zip(_COLUMNS[kind], (lang, grid.pivot), strict=False))
            stage = Stage(
                "pieces",
                "tokenizer",
                PIECES_VERSION,
                {"columns": langs},
                {"encoder": encoder.key, "data": _sentences(shared.stages[key])},
            )
            found[name] = shared.add(stage).key
    return found


def prepared_rows(
    shared: SharedStages, encoder: Stage, kind: str, task: Task, languages: Sequence[str]
) -> dict[str, str]:
    """Add the stages of the pieces of a task's training rows; return their keys as ``rows/de``.
    None are added where there are few rows, or the task cannot write them.

    Args:
        shared: The shared stages of the grid.
        encoder: The stage of the encoder whose tokenizer makes the pieces.
        kind: The kind of the task.
        task: The task with its params.
        languages: Those that are trained on.
    """
    pivot, found = shared.grid.pivot, {}
    for lang in languages:
        rows = task.prepares(lang, pivot)
        if rows is None:
            continue
        outside, named = shared.identity.of_languages({lang: rows.sources})
        stage = Stage(
            "pieces",
            kind,
            PIECES_VERSION + task.VERSION - 1,
            {"task": dict(rows.options), "lang": lang, "pivot": pivot, **named},
            {"encoder": encoder.key},
            *outside,
            options=task.params.model_dump_json(by_alias=True),
        )
        if row_count(stage) >= LEAST_SENTENCES:
            found[f"rows/{lang}"] = shared.add(stage).key
    return found


def row_count(stage: Stage) -> float:
    """Return about how many training rows of a task the stage of their pieces holds, by the size of
    their file; infinity where that is not known.
    """
    task: Any = stage.params["task"]
    made = task["phrasebook"]["train"] if task.get("data") == "phrasebook" else math.inf
    files = [Path(place) for place in stage.locations.values() if Path(place).is_absolute()]
    try:
        held = sum(path.stat().st_size for path in files) / _ROW_BYTES if files else math.inf
    except OSError:  # a missing file is reported when its digest is asked for
        held = 0.0
    return float(min(made, held, task.get("max_train") or math.inf))


def _sentences(stage: Stage) -> str:
    """The key of the stage whose sentences are read: word pairs of a whole training set have those
    of the bitext, in the same order, so that both have one stage of pieces, which need not wait for
    the word aligner.
    """
    whole = stage.kind == "pairs" and stage.params["part"] == "training"
    return stage.inputs["training"] if whole else stage.key
