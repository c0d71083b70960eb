"""The orthogonal map that brings two sets of vectors nearest together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def procrustes(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The orthogonal W (H, H) for which ``source @ W`` is nearest to `target` (rows, (N, H) each), in the dtype of `source`.

    Schönemann (1966): W = U V^T of the singular value decomposition U S V^T of source^T target, computed in float64.
    """
    if source.shape != target.shape or source.ndim != 2:
        raise ValueError(f"two matrices of one shape are wanted, not {tuple(source.shape)} and {tuple(target.shape)}")
    return nearest_rotation(source.double().T @ target.double()).to(source.dtype)


def nearest_rotation(cross_HH: torch.Tensor) -> torch.Tensor:
    """The orthogonal W that maximises the trace of W^T cross, where cross is source^T target in float64."""
    left_HH, _, right_HH = torch.linalg.svd(cross_HH)
    rotation_HH: torch.Tensor = left_HH @ right_HH
    return rotation_HH
