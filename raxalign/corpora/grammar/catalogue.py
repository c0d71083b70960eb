"""The sentence frames of the phrasebook, in the order in which sentences take turns."""

from __future__ import annotations

from functools import cache

from raxalign.corpora.grammar.being import BEING
from raxalign.corpora.grammar.deeds import DEEDS
from raxalign.corpora.grammar.frames import Frame
from raxalign.corpora.grammar.motion import MOTION
from raxalign.corpora.grammar.two_clauses import TWO_CLAUSES


@cache
def frames() -> tuple[Frame, ...]:
    """Return all frames; sentence i is of frame i modulo their number."""
    drafts = (*DEEDS, *MOTION, *BEING, *TWO_CLAUSES)
    return tuple(Frame(draft.name, draft.axes(), draft.build) for draft in drafts)
