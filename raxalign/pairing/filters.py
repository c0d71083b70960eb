"""Filters over links."""

from __future__ import annotations

from typing import Literal

from raxalign.arrays import Bools, Int32s, Ints
from raxalign.lazy import np
from raxalign.pairing.aligners.base import Links

OneToOne = bool | Literal["first"]
"""Which links are kept of words that have several: none of them (True), all (False), or those of
`first_of_neighbours`.
"""


def thin(links: Links, how: OneToOne) -> Links:
    """Return the links that `how` keeps."""
    if how == "first":
        return first_of_neighbours(links)
    return one_to_one(links) if how else links


def one_to_one(links: Links) -> Links:
    """Only the links both of whose words are in no other link; a word with several links loses all
    of them (Cao et al. 2020).

    A link that is given twice counts as two.

    >>> one_to_one(Links.of([{(0, 0), (1, 1), (1, 2)}])).pair(0)
    {(0, 0)}
    """
    rows = links.rows()
    return links.where(_alone(rows, links.src) & _alone(rows, links.tgt))


def first_of_neighbours(links: Links) -> Links:
    """Return the links without those that share a word with the link that was kept before them.

    The links of a sentence pair are read by target word (the pivot's), then by source word. This is
    the rule of the code of Wang et al. (2019), whose source is English. A word may keep two links
    where a link of other words stands between them.

    >>> sorted(first_of_neighbours(Links.of([{(0, 0), (1, 1), (1, 2), (2, 2)}])).pair(0))
    [(0, 0), (1, 1), (2, 2)]
    """
    counts = np.diff(links.offsets)
    order = np.lexsort((links.src, links.tgt, links.rows()))
    keep = np.zeros(len(links.src), np.bool_)
    before_src, before_tgt = np.full((2, len(links)), -1, np.int32)
    # The k-th links of all sentence pairs are decided at once: what is kept depends on the links
    # before it in its own sentence pair.
    for k in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > k)
        at = order[links.offsets[rows] + k]
        new = (links.src[at] != before_src[rows]) & (links.tgt[at] != before_tgt[rows])
        at, rows = at[new], rows[new]
        keep[at] = True
        before_src[rows], before_tgt[rows] = links.src[at], links.tgt[at]
    return links.where(keep)


def _alone(rows: Ints, words: Int32s) -> Bools:
    """Whether each link is the only one of its sentence pair with that word."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    width = int(words.max()) + 1
    # Counting is dense in (sentence pair, position): as large as the text itself, where sorting
    # would cost several passes.
    places = rows * width + words
    return np.asarray(np.bincount(places, minlength=1)[places] == 1)
