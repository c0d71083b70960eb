"""The orthogonal map that brings two sets of vectors nearest together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raxalign import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def procrustes(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal W (H, H) for which ``source @ W`` is nearest to `target` (rows, (N, H)
    each), in the dtype of `source`.

    Schönemann (1966): W = U V^T of the singular value decomposition U S V^T of source^T target,
    computed in float64.
    """
    if source.shape != target.shape or source.ndim != 2:
        raise ValueError(
            f"two matrices of one shape are required, not {tuple(source.shape)} and"
            f" {tuple(target.shape)}"
        )
    return nearest_rotation(source.double().T @ target.double()).to(source.dtype)


def nearest_rotation(cross_HH: torch.Tensor, toward_identity: float = 0.0) -> torch.Tensor:
    """Return the orthogonal W that maximises the trace of W^T cross, where cross is source^T target
    in float64.

    With `toward_identity` the one that minimises ||source W - target||² + λ ||W - I||², λ being
    that many times the mean singular value of cross: the trace of W^T (cross + λ I) is then the
    largest one.
    """
    if toward_identity:
        strength = toward_identity * torch.linalg.svdvals(cross_HH).mean()
        cross_HH = cross_HH + strength * torch.eye(
            len(cross_HH), dtype=cross_HH.dtype, device=cross_HH.device
        )
    left_HH, _, right_HH = torch.linalg.svd(cross_HH)
    rotation_HH: torch.Tensor = left_HH @ right_HH
    return rotation_HH


def effective_rank(cross_HH: torch.Tensor) -> float:
    """In how many directions a matrix is strong: the exponential of the entropy of its singular
    values as shares (Roy & Vetterli 2007).
    """
    strength_H = torch.linalg.svdvals(cross_HH)
    if not strength_H.sum() > 0:
        return 0.0
    shares_H = strength_H / strength_H.sum()
    return float(torch.exp(-torch.special.xlogy(shares_H, shares_H).sum()))
