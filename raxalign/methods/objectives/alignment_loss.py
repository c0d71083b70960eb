"""The loss of fine-tuning alignment (Cao et al. 2020): its arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from raxalign import lazy
from raxalign.methods.objectives.rounding import real_gap

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

Norm = Literal["squared", "plain"]
Reduction = Literal["sum", "mean"]


def alignment_loss(
    moving_PLH: torch.Tensor,
    target_PLH: torch.Tensor,
    kept_WLH: torch.Tensor,
    origin_WLH: torch.Tensor,
    *,
    reg_weight: float,
    norm: Norm = "squared",
    pair_weights_P: torch.Tensor | None = None,
    word_weights_W: torch.Tensor | None = None,
) -> torch.Tensor:
    """sum_p w_p d(moving_p, target_p) + reg_weight * sum_w v_w d(kept_w, origin_w), where d is
    summed over layers.

    d is the squared Euclidean distance, or the distance itself (`norm: plain`; Kulshreshtha et al.
    2020, Eq. 7-8). Weights that are not given are 1: plain sums, as printed by Cao et al. (2020,
    §3.3).
    """
    distance_P, drift_W = (
        _distance(moving_PLH, target_PLH, norm),
        _distance(kept_WLH, origin_WLH, norm),
    )
    align = distance_P.sum() if pair_weights_P is None else distance_P @ pair_weights_P
    drift = drift_W.sum() if word_weights_W is None else drift_W @ word_weights_W
    return align + reg_weight * drift


def _distance(left_NLH: torch.Tensor, right_NLH: torch.Tensor, norm: Norm) -> torch.Tensor:
    """(N,), summed over layers. The plain distance of equal vectors has gradient 0, and so have
    vectors that differ by rounding alone.
    """
    gap_NLH = real_gap(left_NLH, right_NLH)
    per_layer_NL = (
        gap_NLH.pow(2).sum(dim=-1)
        if norm == "squared"
        else torch.linalg.vector_norm(gap_NLH, dim=-1)
    )
    return per_layer_NL.sum(dim=-1)


def item_weights(
    counts_N: np.ndarray, part: int, reduction: Reduction, norm: Norm, hidden: int
) -> np.ndarray:
    """Return the weight of each item of the rows of a global batch, (N,): `counts_N` items stand in
    each of its N rows.

    A mean is over all items of the batch, or of `part` consecutive rows (their means are then
    summed), and over coordinates where the distance is squared: a mean squared error, as in the
    circulating code.
    """
    if reduction == "sum":
        return np.ones(len(counts_N))
    groups_N = np.arange(len(counts_N)) // (part or max(len(counts_N), 1))
    totals_N = np.bincount(groups_N, weights=counts_N)[groups_N]
    return 1.0 / (np.maximum(totals_N, 1) * (hidden if norm == "squared" else 1))
