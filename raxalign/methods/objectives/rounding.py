"""The difference of two vectors, where it is more than rounding."""

from __future__ import annotations

from raxalign.lazy import torch

# units in the last place of the largest coordinate: what batches of other widths change in a dozen
# blocks
_ROUNDING = 100


def real_gap(vectors_XH: torch.Tensor, reference_XH: torch.Tensor) -> torch.Tensor:
    """``vectors - reference`` (..., H), 0 (and without gradient) in coordinates that differ by
    rounding alone.

    At step 0 the frozen side equals its reference up to the rounding of another batch. Adam divides
    a gradient by its own size, so that noise would move words by a whole learning rate, and
    differently with each number of workers.
    """
    gap_XH = vectors_XH - reference_XH
    rounding_X1 = (
        _ROUNDING
        * torch.finfo(gap_XH.dtype).eps
        * reference_XH.detach().abs().amax(dim=-1, keepdim=True)
    )
    return torch.where(
        gap_XH.detach().abs() <= rounding_X1, 0.0, gap_XH
    )  # in this order NaN stays NaN
