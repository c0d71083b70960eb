"""Centring: each language's mean vector is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from raxalign.methods.base import MethodInputs
from raxalign.methods.families.text import TextMethod

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


@final
class Centering(TextMethod):
    """Subtract from each vector the mean vector of its language, the pivot's too.

    Formula: x -> x - μ, for each layer, where μ is the mean over the words of the language's text.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Libovický et al. (2020).
    """

    VERSION = 1
    reference = "Libovický et al. 2020"
    papers = ("libovicky2020",)

    class Params(TextMethod.Params):
        """The means are over the words of the sentences that are read."""

    params: Params

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Return the encoder with a shift for each language and layer. Raises `RaxalignError` for
        text without words.
        """
        from raxalign.encoders.models.aligned import Affine

        return self.each_by_itself(
            encoder, inputs, runtime, lambda moments: map(Affine, moments.means())
        )
