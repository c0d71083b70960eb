"""What a linear classifier can tell languages by is taken out of all vectors, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from raxalign.encoders.models.transforms import Affine
from raxalign.lazy import torch
from raxalign.methods.families.readouts import JointTextMethod
from raxalign.methods.families.word_vectors import TextMoments

_NO_VARIANCE = 1e-10
"""Variances below this share of the largest one, and what is left of a difference of means after a
projection, are rounding.
"""


@final
class Leace(JointTextMethod):
    """Take out of each vector what a linear classifier can tell languages by, one map for all
    languages and the pivot; of all maps that do so, this one changes vectors least.

    Formula: x -> x - W^+ P W (x - μ) for each layer, where W = Σ^(-1/2) whitens, and P projects on
    the span of W (μ_l - μ) of all languages l. μ and Σ are the mean and the covariance of word
    vectors, each language with the same weight. Afterwards all languages have the mean μ.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Belrose et al. (2023, Theorem 4.3).

    Relations: `lsar` takes the directions between the means out whole, whatever the covariance;
    `centering` shifts each language by itself.

    Example:
        methods:
          none: {}
          leace: {layers: 8-12}
    """

    VERSION = 1
    reference = "Belrose et al. 2023"
    gram = True
    papers = ("belrose2023",)

    def joint_maps(self, found: Sequence[TextMoments]) -> Iterator[Affine]:
        """Yield the erasure of each layer."""
        seconds = []
        for moments in found:
            assert moments.gram_LHH is not None
            seconds.append(moments.gram_LHH / moments.count)
        means_LKH = torch.stack([moments.means() for moments in found], dim=1)
        for means_KH, second_HH in zip(means_LKH, torch.stack(seconds).mean(dim=0), strict=True):
            mean_H = means_KH.mean(dim=0)
            covariance_HH = second_HH - torch.outer(mean_H, mean_H)
            yield Affine(mean_H, erasure(covariance_HH, means_KH - mean_H), mean_H)


def erasure(covariance_HH: torch.Tensor, differences_KH: torch.Tensor) -> torch.Tensor:
    """Return the matrix M (H, H) of the map of rows x -> (x - μ) M + μ that takes out the whitened
    span of the differences of K means from their mean. Directions without variance stay as they
    are.
    """
    variance_H, axes_HH = torch.linalg.eigh(covariance_HH)
    varies = variance_H > _NO_VARIANCE * variance_H.max()
    deviation_R, axes_HR = variance_H[varies].sqrt(), axes_HH[:, varies]
    whiten_HH = (axes_HR / deviation_R) @ axes_HR.T
    color_HH = (axes_HR * deviation_R) @ axes_HR.T
    left_HK, strength_K, _ = torch.linalg.svd(whiten_HH @ differences_KH.T, full_matrices=False)
    basis_HR = left_HK[:, strength_K > _NO_VARIANCE]
    identity = torch.eye(len(whiten_HH), dtype=whiten_HH.dtype, device=whiten_HH.device)
    erased: torch.Tensor = identity - whiten_HH @ basis_HR @ basis_HR.T @ color_HH
    return erased
