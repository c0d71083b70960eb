"""Links from matrices of word similarities, as Jalili Sabet et al. (2020, §2) extract them.

A batch of n sentence pairs is a tensor (n, S, T): similarities of S source with T target words,
those of shorter sentences filled up with ``-inf``. Words without a vector have ``-inf`` too. Links
are booleans of the same shape, and a similarity of ``-inf`` is never a link.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

Extraction = Literal["argmax", "itermax", "match"]

ALPHA = 0.9
"""What the similarities of words with a link are multiplied by in later passes of `itermax`."""
PASSES = 2
"""The passes of `itermax`."""


def cosine_similarities(src_NSH: torch.Tensor, tgt_NTH: torch.Tensor) -> torch.Tensor:
    """Return ``(1 + cos) / 2`` of the source words (n, S, H) with the target words (n, T, H), as
    (n, S, T).

    Values from 0 to 1 rather than cosines let `itermax` lower a similarity by a factor. Zero
    vectors, which stand for words without a vector and for padding, have ``-inf``.
    """
    src_norms, tgt_norms = (side.norm(dim=-1, keepdim=True) for side in (src_NSH, tgt_NTH))
    tiny = torch.finfo(src_NSH.dtype).tiny
    cosines_NST = torch.bmm(
        src_NSH / src_norms.clamp(min=tiny), (tgt_NTH / tgt_norms.clamp(min=tiny)).mT
    )
    has_vectors = (src_norms > 0) & (tgt_norms > 0).mT
    return ((1 + cosines_NST) / 2).masked_fill(~has_vectors, -torch.inf)


def distorted(
    similarities_NST: torch.Tensor, src_lengths: torch.Tensor, tgt_lengths: torch.Tensor, κ: float
) -> torch.Tensor:
    """Return the similarities, lowered away from the diagonal: times ``1 - κ (i/S - j/T)²``.

    Args:
        similarities_NST: similarities (n, S, T).
        src_lengths: the number of source words of each sentence pair (n,).
        tgt_lengths: the number of target words of each sentence pair (n,).
        κ: the strength; 0 changes nothing.

    Returns:
        A tensor (n, S, T). Positions i and j count from 1.
    """
    _, S, T = similarities_NST.shape
    device = similarities_NST.device
    src_NS, tgt_NT = (
        torch.arange(1, width + 1, device=device) / lengths.to(device).clamp(min=1)[:, None]
        for width, lengths in ((S, src_lengths), (T, tgt_lengths))
    )
    factors_NST = 1 - κ * (src_NS[:, :, None] - tgt_NT[:, None, :]) ** 2
    missing = similarities_NST == -torch.inf
    return (similarities_NST * factors_NST).masked_fill(missing, -torch.inf)


def extract(similarities_NST: torch.Tensor, extraction: Extraction) -> torch.Tensor:
    """Return the links (n, S, T) of similarities (n, S, T) by one of the three ways."""
    if extraction == "argmax":
        return mutual_argmax(similarities_NST)
    if extraction == "itermax":
        return itermax(similarities_NST)
    return best_match(similarities_NST)


def mutual_argmax(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of words that are each other's most similar one. The first of
    equally similar words counts as the most similar one.
    """
    _, S, T = similarities_NST.shape
    if not (S and T):
        return torch.zeros_like(similarities_NST, dtype=torch.bool)
    forward = similarities_NST.argmax(dim=2, keepdim=True)
    reverse = similarities_NST.argmax(dim=1, keepdim=True)
    steps_T = torch.arange(T, device=similarities_NST.device)
    steps_S = torch.arange(S, device=similarities_NST.device)[:, None]
    return (forward == steps_T) & (reverse == steps_S) & (similarities_NST > -torch.inf)


def itermax(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of `mutual_argmax`, made `PASSES` times (algorithm 1).

    Before each further pass, similarities of two words that both have a link are left out, and
    those of two words of which one has a link are multiplied by `ALPHA`. A word may so get a second
    link. The authors' program multiplies similarities of two words without a link too.
    """
    links_NST = mutual_argmax(similarities_NST)
    for _ in range(PASSES - 1):
        src_linked = links_NST.any(dim=2, keepdim=True)
        tgt_linked = links_NST.any(dim=1, keepdim=True)
        lowered = torch.where(src_linked | tgt_linked, similarities_NST * ALPHA, similarities_NST)
        links_NST = links_NST | mutual_argmax(
            lowered.masked_fill(src_linked & tgt_linked, -torch.inf)
        )
    return links_NST


def best_match(similarities_NST: torch.Tensor) -> torch.Tensor:
    """Return the links (n, S, T) of the matching with the largest sum of similarities: each word of
    the shorter sentence has one link, and no word has two. Words without a vector have none.
    """
    from scipy.optimize import linear_sum_assignment

    links_NST = np.zeros(tuple(similarities_NST.shape), np.bool_)
    for links_ST, matrix_ST in zip(links_NST, similarities_NST.cpu().numpy(), strict=True):
        there = np.isfinite(matrix_ST)
        rows, columns = np.flatnonzero(there.any(axis=1)), np.flatnonzero(there.any(axis=0))
        src, tgt = linear_sum_assignment(matrix_ST[np.ix_(rows, columns)], maximize=True)
        links_ST[rows[src], columns[tgt]] = True
    return torch.from_numpy(links_NST)
