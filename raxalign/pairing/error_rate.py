"""How good links are, beside links made by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raxalign.pairing.aligners.base import Links


@dataclass(frozen=True)
class LinkScores:
    """Precision against the possible links, recall of the sure ones, and the alignment error rate; all in 0..1."""

    precision: float
    recall: float
    error_rate: float


def score_links(links: Links, sure: Links, possible: Links | None = None) -> LinkScores:
    """Scores over all sentence pairs together (Och & Ney 2003, section 5): error rate ``1 - (|A & S| + |A & P|) / (|A| + |S|)``.

    Sure links count as possible ones too, whether or not `possible` repeats them. Nothing found where nothing was to be found has error rate 0.

    >>> score_links(Links.of([{(0, 0), (1, 1)}]), Links.of([{(0, 0)}]), Links.of([{(1, 1)}])).error_rate
    0.0
    """
    found, certain = np.unique(links.codes()), np.unique(sure.codes())
    allowed = certain if possible is None else np.union1d(certain, possible.codes())
    if not len(links) == len(sure) == (len(sure) if possible is None else len(possible)):
        raise ValueError("links, sure links and possible links are of different numbers of sentence pairs")
    right_sure = len(np.intersect1d(found, certain, assume_unique=True))
    right = len(np.intersect1d(found, allowed, assume_unique=True))
    total = len(found) + len(certain)
    return LinkScores(
        precision=right / len(found) if len(found) else 1.0,
        recall=right_sure / len(certain) if len(certain) else 1.0,
        error_rate=1 - (right_sure + right) / total if total else 0.0,
    )
