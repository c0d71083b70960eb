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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from raxalign.arrays import Bools, Ints
from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.base import Links

_ATOOLS = "atools-"
HEURISTICS = (
    *("intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "reverse"),
    *(_ATOOLS + name for name in ("grow-diag", "grow-diag-final", "grow-diag-final-and")),
)

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

_BITS = 16
_MASK = (1 << _BITS) - 1
Link = tuple[int, int]


def symmetrize(
    forward: Iterable[Link], reverse: Iterable[Link], heuristic: str
) -> set[tuple[int, int]]:
    """The links of one sentence pair, from the links of both directions, all as (source position,
    target position).

    Raises `RaxalignError` for a heuristic that is not one of `HEURISTICS`.

    >>> sorted(symmetrize({(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (2, 2)}, "grow-diag"))
    [(0, 0), (1, 1), (1, 2), (2, 2)]
    """
    _require_known(heuristic)
    ahead, back = set(forward), set(reverse)
    if heuristic == "forward":
        return ahead
    if heuristic == "reverse":
        return back
    if heuristic == "intersection":
        return ahead & back
    if heuristic == "union":
        return ahead | back
    links = _grow_diagonal(ahead, back, by_added=heuristic.startswith(_ATOOLS))
    if "-final" in heuristic:
        for direction in (ahead, back):
            _add_with_free_words(links, direction, both=heuristic.endswith("-and"))
    return links


def symmetrize_links(forward: Links, reverse: Links, heuristic: str) -> Links:
    """`symmetrize` for many sentence pairs: each pair's links sorted by source, then target,
    without repetitions.

    Raises `ValueError` where the directions have different numbers of sentence pairs.
    """
    _require_known(heuristic)
    if len(forward) != len(reverse):
        raise ValueError(
            f"forward links of {len(forward)} sentence pairs, reverse links of {len(reverse)}"
        )
    if heuristic in {"forward", "reverse"}:
        return Links.from_codes(
            _unique((forward if heuristic == "forward" else reverse).codes()), len(forward)
        )
    ahead, back = _unique(forward.codes()), _unique(reverse.codes())
    both = np.concatenate([ahead, back])
    both.sort()
    repeated = both[1:] == both[:-1]
    intersection = both[1:][repeated]
    if heuristic == "intersection":
        return Links.from_codes(intersection, len(forward))
    union = both[np.concatenate([[True], ~repeated])] if len(both) else both
    if heuristic == "union":
        return Links.from_codes(union, len(forward))
    growth = Growth(intersection, union)
    growth.grow_diagonal(by_added=heuristic.startswith(_ATOOLS))
    if "-final" in heuristic:
        for direction in (ahead, back):
            growth.add_with_free_words(direction, both=heuristic.endswith("-and"))
    return Links.from_codes(growth.links(), len(forward))


def _unique(codes: Ints) -> Ints:
    """Sorted, without repetitions; skips the sort that aligners in order do not need."""
    if len(codes) and not (codes[1:] > codes[:-1]).all():
        codes = np.sort(codes)
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
    return codes


def _grow_diagonal(ahead: set[Link], back: set[Link], *, by_added: bool) -> set[Link]:
    links, union = ahead & back, ahead | back
    free_src = {s for s, _ in union} - {s for s, _ in links}
    free_tgt = {t for _, t in union} - {t for _, t in links}
    # Only links of the union are ever added, so these steps are all that a scan over the whole
    # matrix could take.
    steps = [
        ((s, t), (s + ds, t + dt))
        for s, t in sorted(union)
        for ds, dt in NEIGHBOURS
        if (s + ds, t + dt) in union
    ]
    if by_added:
        steps.sort(key=lambda step: step[1])
    grown = True
    while grown:
        grown = False
        for origin, near in steps:
            if (
                origin in links
                and near not in links
                and (near[0] in free_src or near[1] in free_tgt)
            ):
                links.add(near)
                free_src.discard(near[0])
                free_tgt.discard(near[1])
                grown = True
    return links


def _add_with_free_words(links: set[Link], direction: set[Link], *, both: bool) -> None:
    used_src, used_tgt = {s for s, _ in links}, {t for _, t in links}
    for s, t in sorted(direction):
        free = (s not in used_src, t not in used_tgt)
        if all(free) if both else any(free):
            links.add((s, t))
            used_src.add(s)
            used_tgt.add(t)


def _require_known(heuristic: str) -> None:
    if heuristic not in HEURISTICS:
        raise RaxalignError(f"unknown symmetrization {heuristic!r}; one of {', '.join(HEURISTICS)}")


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

    def where(self, keep: Bools) -> _Steps:
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

    The scan of one sentence pair has an order, and scans of different sentence pairs are
    independent. So the steps that may add a link are numbered within their sentence pair, and step
    k of all sentence pairs is taken at once: as many rounds as the longest sentence pair has such
    steps.
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

    def _has_free(self, links: Ints, *, both: bool) -> Bools:
        """Whether each link has a free word, or `both` of its words are free."""
        src, tgt = (free[words[links]] for free, words in zip(self._free, self._words, strict=True))
        found: Bools = src & tgt if both else src | tgt
        return found

    def _add(self, links: Ints) -> None:
        self._linked[links] = True
        for free, words in zip(self._free, self._words, strict=True):
            free[words[links]] = False
