"""Symmetrisation: the links of the two directions of a word aligner made into one set (Och & Ney
2003; Koehn, Och & Marcu 2003).

The growing heuristics are those of Koehn et al. (2003), whose pseudo-code leaves the order of the
scan open. Three orders are in use:

* `grow-diag` and `grow-diag-final-and` visit the links that are there, by source position, then
  target position. Each looks at its neighbours in the order below and adds those of the union that
  have a free word. A link added is visited later in the same pass if it lies ahead.
* `atools-...` are what `atools`, which comes with the program fast_align, prints for the name
  behind the hyphen. They visit the links of the union that are not there yet, in the same order,
  and add one that has a free word and a neighbour that is there.
* Moses' `symal` visits the links that are there by target position, then source position, and so
  the links of both directions in the final step. It is not offered here.

On three sets of 5,000 short sentence pairs the links of `atools` differ from ours in 429 to 664
sentence pairs, those of `symal` in 19 to 57.

All of them repeat their passes until one adds nothing. Then `final-and` goes through the forward
links, and after them through the reverse ones, and adds those between two free words; `final` adds
those that have one.
"""

from __future__ import annotations

from raxalign.arrays import Bools, Ints, distinct
from raxalign.errors import RaxalignError
from raxalign.lazy import np
from raxalign.pairing.aligners.base import Links

_ATOOLS = "atools-"
HEURISTICS = (
    *("intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "reverse"),
    *(_ATOOLS + name for name in ("grow-diag", "grow-diag-final", "grow-diag-final-and")),
)

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

_BITS = 16
_MASK = (1 << _BITS) - 1


def symmetrize_links(forward: Links, reverse: Links, heuristic: str) -> Links:
    """Return the links of sentence pairs, each pair's sorted by source, then target, once each.

    Raises `RaxalignError` for an unknown heuristic, and `ValueError` where the directions have
    different numbers of sentence pairs.
    """
    if heuristic not in HEURISTICS:
        raise RaxalignError(f"unknown symmetrization {heuristic!r}; one of {', '.join(HEURISTICS)}")
    if len(forward) != len(reverse):
        raise ValueError(
            f"forward links of {len(forward)} sentence pairs, reverse links of {len(reverse)}"
        )
    return Links.from_codes(
        _symmetrized(distinct(forward.codes()), distinct(reverse.codes()), heuristic), len(forward)
    )


def _symmetrized(ahead: Ints, back: Ints, heuristic: str) -> Ints:
    """The sorted codes of the links, by those of both directions, which are sorted too."""
    if heuristic in {"forward", "reverse"}:
        return ahead if heuristic == "forward" else back
    both = np.concatenate([ahead, back])
    both.sort()
    repeated = both[1:] == both[:-1]
    intersection: Ints = both[1:][repeated]
    if heuristic == "intersection":
        return intersection
    union = both[np.concatenate([[True], ~repeated])] if len(both) else both
    if heuristic == "union":
        return union
    growth = Growth(intersection, union)
    growth.grow_diagonal(by_added=heuristic.startswith(_ATOOLS))
    if "-final" in heuristic:
        for direction in (ahead, back):
            growth.add_with_free_words(direction, both=heuristic.endswith("-and"))
    return growth.links()


def _rounds(pair: Ints) -> list[Ints]:
    """The numbers of additions that are decided together: the k-th of every sentence pair are
    round k. `pair` has the sentence pair of each, in ascending order.
    """
    rounds = np.arange(len(pair)) - np.searchsorted(pair, pair)
    bounds = np.cumsum(np.bincount(rounds))[:-1]
    return list(np.split(np.argsort(rounds, kind="stable"), bounds))


class Growth:
    """Links that grow from the intersection of two directions' links, all given as sorted
    `Links.codes`.

    The scan of one sentence pair has an order, and scans of different sentence pairs are
    independent. So the possible additions are numbered within their sentence pair, and number k of
    all sentence pairs is decided at once: as many rounds as one sentence pair has additions.
    """

    def __init__(self, intersection: Ints, union: Ints) -> None:
        self.union = union
        pair, src, tgt = union >> (2 * _BITS), (union >> _BITS) & _MASK, union & _MASK
        self._pair = pair
        # A word of the bitext is (sentence pair, position): dense numbers, so that "is it free" is
        # one array of flags per side.
        self._words = tuple(pair * (int(side.max(initial=0)) + 1) + side for side in (src, tgt))
        self._linked = np.zeros(len(union), np.bool_)
        self._free = tuple(
            np.ones(int(words.max(initial=-1)) + 1, np.bool_) for words in self._words
        )
        self._add(np.searchsorted(union, intersection))

    def links(self) -> Ints:
        """Return the codes of all links so far, sorted."""
        return self.union[self._linked]

    def grow_diagonal(self, *, by_added: bool) -> None:
        """Add neighbours of links that have a free word, passing over all sentence pairs until no
        pass adds any.

        A pass goes over the links that are there, or, `by_added`, over those that may be added.
        """
        origin, added = self._neighbours(by_added=by_added)
        while len(added):
            has_grown = np.zeros(int(self._pair[-1]) + 1, np.bool_)
            for part in _rounds(self._pair[added]):
                at = added[part]
                new = at[
                    self._linked[origin[part]] & ~self._linked[at] & self._has_free(at, both=False)
                ]
                self._add(new)
                has_grown[self._pair[new]] = True
            again = has_grown[self._pair[added]] & ~self._linked[added]
            origin, added = origin[again], added[again]

    def add_with_free_words(self, direction: Ints, *, both: bool) -> None:
        """Add those links of one direction, in order, that have a free word, or `both` of whose
        words are free.
        """
        added = np.searchsorted(self.union, direction)
        added = added[self._has_free(added, both=both)]
        for part in _rounds(self._pair[added]):
            at = added[part]
            self._add(at[self._has_free(at, both=both)])

    def _neighbours(self, *, by_added: bool) -> tuple[Ints, Ints]:
        """All (link, neighbour) of the union in which the neighbour may be added, in the order of
        the scan: words that are taken already never become free.
        """
        everything = np.arange(len(self.union))
        candidates = everything[~self._linked & self._has_free(everything, both=False)]
        found = []
        for number, (ds, dt) in enumerate(NEIGHBOURS):
            code = self.union[candidates] - (ds << _BITS) - dt
            origin = np.minimum(np.searchsorted(self.union, code), len(self.union) - 1)
            there = np.flatnonzero(self.union[origin] == code)
            found.append((origin[there], np.full(len(there), number), candidates[there]))
        origin, which, added = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((which, added) if by_added else (which, origin))
        return origin[order], added[order]

    def _has_free(self, links: Ints, *, both: bool) -> Bools:
        """Whether each link has a free word, or `both` of its words are free."""
        src, tgt = (free[words[links]] for free, words in zip(self._free, self._words, strict=True))
        found: Bools = src & tgt if both else src | tgt
        return found

    def _add(self, links: Ints) -> None:
        self._linked[links] = True
        for free, words in zip(self._free, self._words, strict=True):
            free[words[links]] = False
