"""The growing heuristics of `symmetrize` for many sentence pairs at once.

The scan of one sentence pair has an order, and scans of different sentence pairs are independent.
So the steps that may add a link are numbered within their sentence pair, and step k of all sentence
pairs is taken at once: as many rounds as the longest sentence pair has such steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

_BITS = 16
_MASK = (1 << _BITS) - 1

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Steps:
    """Possible additions, by round: link `added` of the union, if link `origin` of the union is
    there, in sentence pair `pair`.
    """

    round: Ints
    origin: Ints
    added: Ints
    pair: Ints

    @classmethod
    def in_order(cls, origin: Ints, added: Ints, pair: Ints) -> _Steps:
        """From steps in the order of the scan, sentence pair after sentence pair."""
        first = (
            np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]])) if len(pair) else pair
        )
        rounds = np.arange(len(pair)) - np.repeat(first, np.diff(np.append(first, len(pair))))
        by_round = np.argsort(rounds, kind="stable")
        return cls(rounds[by_round], origin[by_round], added[by_round], pair[by_round])

    def where(self, keep: npt.NDArray[np.bool_]) -> _Steps:
        return _Steps(self.round[keep], self.origin[keep], self.added[keep], self.pair[keep])

    def rounds(self) -> Iterator[slice]:
        bounds = (
            np.flatnonzero(
                np.concatenate([[True], self.round[1:] != self.round[:-1], [True]])
            ).tolist()
            if len(self.round)
            else []
        )
        return (slice(a, b) for a, b in pairwise(bounds))


class Growth:
    """Links that grow from the intersection of two directions' links, all given as sorted
    `Links.codes`.
    """

    def __init__(self, intersection: Ints, union: Ints) -> None:
        self.union = union
        pair, src, tgt = union >> (2 * _BITS), (union >> _BITS) & _MASK, union & _MASK
        self._pair = pair
        # A word of the bitext is (sentence pair, position): dense numbers, so that "is it free" is
        # one array of flags a side.
        self._words = tuple(pair * (int(side.max(initial=0)) + 1) + side for side in (src, tgt))
        self._linked = np.zeros(len(union), np.bool_)
        self._free = tuple(
            np.ones(int(words.max(initial=-1)) + 1, np.bool_) for words in self._words
        )
        self._add(np.searchsorted(union, intersection))

    def links(self) -> Ints:
        """The codes of all links so far, sorted."""
        return self.union[self._linked]

    def grow_diagonal(self, *, by_added: bool) -> None:
        """Adds neighbours of links that have a free word, passing over all sentence pairs until no
        pass adds any.

        A pass goes over the links that are there, or, `by_added`, over those that may be added.
        """
        steps = self._neighbour_steps(by_added=by_added)
        while len(steps.round):
            grown = []
            for part in steps.rounds():
                added = steps.added[part]
                may = (
                    self._linked[steps.origin[part]]
                    & ~self._linked[added]
                    & self._has_free(added, both=False)
                )
                self._add(added[may])
                grown.append(steps.pair[part][may])
            has_grown = np.zeros(int(self._pair[-1]) + 1, np.bool_)
            has_grown[np.concatenate(grown)] = True
            steps = steps.where(has_grown[steps.pair] & ~self._linked[steps.added])

    def add_with_free_words(self, direction: Ints, *, both: bool) -> None:
        """Adds those links of one direction, in order, that have a free word, or `both` of whose
        words are free.
        """
        added = np.searchsorted(self.union, direction)
        added = added[self._has_free(added, both=both)]
        steps = _Steps.in_order(added, added, self._pair[added])
        for part in steps.rounds():
            at = steps.added[part]
            self._add(at[self._has_free(at, both=both)])

    def _neighbour_steps(self, *, by_added: bool) -> _Steps:
        """All (link, neighbour) of the union in which the neighbour may be added: words that are
        taken already never become free.
        """
        everything = np.arange(len(self.union))
        candidates = everything[~self._linked & self._has_free(everything, both=False)]
        found = []
        for number, (ds, dt) in enumerate(NEIGHBOURS):
            code = self.union[candidates] - (ds << _BITS) - dt
            origin = np.minimum(np.searchsorted(self.union, code), len(self.union) - 1)
            there = self.union[origin] == code if len(candidates) else np.zeros(0, np.bool_)
            found.append((origin[there], np.full(int(there.sum()), number), candidates[there]))
        origin, which, added = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((which, added) if by_added else (which, origin))
        return _Steps.in_order(origin[order], added[order], self._pair[added[order]])

    def _has_free(self, links: Ints, *, both: bool) -> npt.NDArray[np.bool_]:
        """Whether each link has a free word, or `both` of its words are free."""
        src, tgt = (free[words[links]] for free, words in zip(self._free, self._words, strict=True))
        found: npt.NDArray[np.bool_] = src & tgt if both else src | tgt
        return found

    def _add(self, links: Ints) -> None:
        self._linked[links] = True
        for free, words in zip(self._free, self._words, strict=True):
            free[words[links]] = False
