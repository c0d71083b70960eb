"""How many sentence pairs the text of a plan has, as far as the plan says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from raxalign.plan.expansion.data import EVERYTHING

if TYPE_CHECKING:
    from raxalign.plan.stage import Stage


def sentences_of(bitext: Stage) -> float:
    """Return the number of sentence pairs of a `bitext` stage; infinity where it is all of a corpus
    whose size is not among its params.
    """
    params = bitext.params
    if params.get("part") == "heldout":
        split = params.get("split")
        sizes = split.values() if isinstance(split, Mapping) else ()
        return math.fsum(float(size) for size in sizes if isinstance(size, int))
    wanted, corpus = params.get("sentences"), params.get("corpus")
    if not isinstance(wanted, int):
        return 0.0
    size = corpus.get("size") if isinstance(corpus, Mapping) else None
    if isinstance(size, int):
        return float(min(wanted, size))
    return math.inf if wanted == EVERYTHING else float(wanted)
