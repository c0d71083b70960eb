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

from collections.abc import Iterable

import numpy as np

from raxalign.errors import RaxalignError
from raxalign.pairing._growing import NEIGHBOURS, Growth
from raxalign.pairing.aligners.base import Links

_ATOOLS = "atools-"
HEURISTICS = (
    *("intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "reverse"),
    *(_ATOOLS + name for name in ("grow-diag", "grow-diag-final", "grow-diag-final-and")),
)

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


def _unique(
    codes: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
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
