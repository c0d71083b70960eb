"""How good links are, by links made by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from raxalign.pairing.aligners.base import Links

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LinkScores:
    """Precision against the possible links, recall of the sure ones, and the alignment error rate;
    all in 0..1.
    """

    precision: float
    recall: float
    error_rate: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class LinkCounts:
    """Numbers of links of each sentence pair, int64 (n,): `found`, those of them that are possible
    (`right`) and sure (`right_sure`), and `sure`.
    """

    found: Ints
    right: Ints
    right_sure: Ints
    sure: Ints

    @property
    def wrong(self) -> Ints:
        """The numerator of the alignment error rate, whose denominator is `found` and `sure`
        together.
        """
        return self.found + self.sure - self.right - self.right_sure

    def scores(self) -> LinkScores:
        """The scores over all sentence pairs together (Och & Ney 2003, section 5)."""
        found, right, right_sure, sure = (
            int(part.sum()) for part in (self.found, self.right, self.right_sure, self.sure)
        )
        total = found + sure
        return LinkScores(
            precision=right / found if found else 1.0,
            recall=right_sure / sure if sure else 1.0,
            error_rate=1 - (right_sure + right) / total if total else 0.0,
        )


def count_links(links: Links, sure: Links, possible: Links | None = None) -> LinkCounts:
    """Counts by sentence pair. Sure links count as possible ones too, whether or not `possible`
    repeats them.

    Raises `ValueError` where the three are of different numbers of sentence pairs.
    """
    found, certain = np.unique(links.codes()), np.unique(sure.codes())
    allowed = certain if possible is None else np.union1d(certain, possible.codes())
    if not len(links) == len(sure) == (len(sure) if possible is None else len(possible)):
        raise ValueError(
            "links, sure links and possible links are of different numbers of sentence pairs"
        )
    right_sure = np.intersect1d(found, certain, assume_unique=True)
    right = np.intersect1d(found, allowed, assume_unique=True)
    counted = (
        np.diff(Links.from_codes(codes, len(links)).offsets)
        for codes in (found, right, right_sure, certain)
    )
    return LinkCounts(*counted)


def score_links(links: Links, sure: Links, possible: Links | None = None) -> LinkScores:
    """Scores over all sentence pairs together (Och & Ney 2003, section 5): error rate ``1 - (|A &
    S| + |A & P|) / (|A| + |S|)``.

    Sure links count as possible ones too, whether or not `possible` repeats them. Nothing found
    where nothing was to be found has error rate 0.

    >>> found, sure, possible = (Links.of([p]) for p in ({(0, 0), (1, 1)}, {(0, 0)}, {(1, 1)}))
    >>> score_links(found, sure, possible).error_rate
    0.0
    """
    return count_links(links, sure, possible).scores()
