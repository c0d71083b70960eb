"""Centring: each language's mean vector is taken away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import final

from raxalign.encoders.models.transforms import Affine
from raxalign.methods.base import Effect
from raxalign.methods.families.readouts import TextMethod
from raxalign.methods.families.word_vectors import TextMoments


@final
class Centering(TextMethod):
    """Subtract from each vector the mean vector of its language, the pivot's too.

    Formula: x -> x - μ, for each layer, where μ is the mean over the words of the language's text.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Libovický et al. (2020).

    Relations: `znorm` divides by the standard deviations too; `lir`, `lsar` and `leace` take out
    directions in place of the mean.

    Example:
        methods:
          none: {}
          centering: {layers: 8-12}
    """

    VERSION = 1
    reference = "Libovický et al. 2020"
    papers = ("libovicky2020",)

    def effect(self) -> Effect:
        """Return a shift."""
        return replace(super().effect(), motion="rigid")

    def maps(self, moments: TextMoments) -> Iterable[Affine]:
        """Return the shift of each layer."""
        return map(Affine, moments.means())
