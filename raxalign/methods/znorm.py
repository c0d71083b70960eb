"""Standardisation: each coordinate has the mean 0 and the standard deviation 1 in each language."""

from __future__ import annotations

from typing import final

from raxalign.encoders.models.transforms import Affine
from raxalign.methods.families.readouts import TextMethod
from raxalign.methods.families.word_vectors import TextMoments


@final
class Znorm(TextMethod):
    """Standardise each coordinate of each vector by the mean and standard deviation that it has in
    its language, the pivot's too.

    Formula: x -> (x - μ) / σ, coordinate by coordinate, for each layer; a coordinate that never
    changes is only shifted.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Zhao et al. (2021).

    Relations: `centering` with the spread of each coordinate; choose it where a few coordinates
    outweigh the others.

    Example:
        methods:
          none: {}
          znorm: {layers: 8-12}
    """

    VERSION = 1
    reference = "Zhao et al. 2021"
    papers = ("zhao2021",)

    def maps(self, moments: TextMoments) -> list[Affine]:
        """Return the shift and scale of each layer."""
        return [
            Affine(mean, deviation.reciprocal().diag())
            for mean, deviation in zip(moments.means(), moments.deviations(), strict=True)
        ]
