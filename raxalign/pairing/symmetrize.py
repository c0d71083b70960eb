"""Symmetrisation: the links of the two directions of a word aligner made into one set (Och & Ney 2003; Koehn, Och & Marcu 2003).

The growing heuristics are those of Koehn et al. (2003) as Moses and atools have them, with the scan fixed so that the result is: links are
visited by source position, then target position; a link added is visited later in the same pass if it lies ahead; passes repeat until one adds
nothing; neighbours come in the order below. `final-and` goes through the forward links first, then through the reverse ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from raxalign.errors import RaxalignError
from raxalign.pairing._growing import NEIGHBOURS, Growth
from raxalign.pairing.aligners.base import Links

HEURISTICS = ("intersection", "union", "grow-diag", "grow-diag-final-and", "forward", "reverse")

Link = tuple[int, int]


def symmetrize(forward: Iterable[Link], reverse: Iterable[Link], heuristic: str) -> set[tuple[int, int]]:
    """The links of one sentence pair, from the links of both directions, all as (source position, target position).

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
    links = _grow_diagonal(ahead, back)
    if heuristic == "grow-diag-final-and":
        _add_between_free_words(links, ahead)
        _add_between_free_words(links, back)
    return links


def symmetrize_links(forward: Links, reverse: Links, heuristic: str) -> Links:
    """`symmetrize` for many sentence pairs: each pair's links sorted by source, then target, without repetitions.

    Raises `ValueError` where the directions have different numbers of sentence pairs.
    """
    _require_known(heuristic)
    if len(forward) != len(reverse):
        raise ValueError(f"forward links of {len(forward)} sentence pairs, reverse links of {len(reverse)}")
    if heuristic in {"forward", "reverse"}:
        return Links.from_codes(_unique((forward if heuristic == "forward" else reverse).codes()), len(forward))
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
    growth.grow_diagonal()
    if heuristic == "grow-diag-final-and":
        growth.add_between_free_words(ahead)
        growth.add_between_free_words(back)
    return Links.from_codes(growth.links(), len(forward))


def _unique(codes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sorted, without repetitions; skips the sort that aligners in order do not need."""
    if len(codes) and not (codes[1:] > codes[:-1]).all():
        codes = np.sort(codes)
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
    return codes


def _grow_diagonal(ahead: set[Link], back: set[Link]) -> set[Link]:
    links, union = ahead & back, sorted(ahead | back)
    candidates = set(union)
    free_src = {s for s, _ in candidates} - {s for s, _ in links}
    free_tgt = {t for _, t in candidates} - {t for _, t in links}
    grown = True
    while grown:
        grown = False
        for s, t in union:  # only links of the union are ever added, so this visits every link that a scan over all cells would
            if (s, t) not in links:
                continue
            for ds, dt in NEIGHBOURS:
                near = (s + ds, t + dt)
                if near in candidates and near not in links and (near[0] in free_src or near[1] in free_tgt):
                    links.add(near)
                    free_src.discard(near[0])
                    free_tgt.discard(near[1])
                    grown = True
    return links


def _add_between_free_words(links: set[Link], direction: set[Link]) -> None:
    used_src, used_tgt = {s for s, _ in links}, {t for _, t in links}
    for s, t in sorted(direction):
        if s not in used_src and t not in used_tgt:
            links.add((s, t))
            used_src.add(s)
            used_tgt.add(t)


def _require_known(heuristic: str) -> None:
    if heuristic not in HEURISTICS:
        raise RaxalignError(f"unknown symmetrization {heuristic!r}; one of {', '.join(HEURISTICS)}")
