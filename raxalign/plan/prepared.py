"""The stages of pieces: text that is divided once, for all trials that read it by the same
tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from raxalign.plan.data import EVERYTHING
from raxalign.plan.stage import Stage

if TYPE_CHECKING:
    from raxalign.plan.data import SharedStages

PIECES_VERSION = 1
LEAST_SENTENCES = 10_000
"""Sentences per language from which pieces have a stage. Fewer are divided by each trial, in the
time that a stage takes to start.
"""

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


def _sentences(stage: Stage) -> str:
    """The key of the stage whose sentences are read: word pairs of a whole training set have those
    of the bitext, in the same order, so that both have one stage of pieces, which need not wait for
    the word aligner.
    """
    whole = stage.kind == "pairs" and stage.params["part"] == "training"
    return stage.inputs["training"] if whole else stage.key
