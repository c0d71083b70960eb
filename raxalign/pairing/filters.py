"""Filters over links."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from raxalign.arrays import offsets_of
from raxalign.pairing.aligners.base import Links


def one_to_one(links: Links) -> Links:
    """Only the links both of whose words are in no other link; a word with several links loses all
    of them (Cao et al. 2020).

    A link that is given twice counts as two.

    >>> one_to_one(Links.of([{(0, 0), (1, 1), (1, 2)}])).pair(0)
    {(0, 0)}
    """
    rows = links.rows()
    keep = _alone(rows, links.src) & _alone(rows, links.tgt)
    counts = np.bincount(rows[keep], minlength=len(links))
    offsets = offsets_of(counts)
    return Links(offsets, links.src[keep], links.tgt[keep])


def _alone(rows: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Whether each link is the only one of its sentence pair with that word."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    width = int(words.max()) + 1
    # Counting is dense in (sentence pair, position): as large as the text itself, where sorting
    # would cost several passes.
    places = rows * width + words
    return np.asarray(np.bincount(places, minlength=1)[places] == 1)
