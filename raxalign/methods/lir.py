"""The strongest directions of each language's vectors are taken out."""

from __future__ import annotations

from typing import final

from pydantic import Field

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import Affine, AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.text import TextMethod, without_span
from raxalign.methods.statistics.moments import TextMoments
from raxalign.train.runtime import Runtime


@final
class Lir(TextMethod):
    """Take out of each vector its part along the first principal directions of its language, the
    pivot's too: those carry the language.

    Formula: x -> x - C C^T x for each layer, where the columns of C are the first `rank` singular
    directions of the matrix of the language's word vectors, which is not centred.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Yang et al. (2021).
    """

    VERSION = 1
    reference = "Yang et al. 2021"
    gram = True
    papers = ("yang2021lir",)

    class Params(TextMethod.Params):
        """The directions are those of the words of the sentences that are read."""

        rank: int = Field(1, ge=1)
        """Number of directions that are taken out of each language's vectors."""

    params: Params

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Return the encoder with a projection for each language and layer. Raises `RaxalignError`
        for text without words, or too high a rank.
        """
        if self.params.rank >= encoder.hidden_size:
            raise RaxalignError(
                f"lir: rank {self.params.rank} leaves nothing of vectors of {encoder.hidden_size}"
                " coordinates; choose a smaller one"
            )
        return super().align(encoder, inputs, runtime)

    def maps(self, moments: TextMoments) -> list[Affine]:
        """Return the projection of each layer."""
        assert moments.gram_LHH is not None
        rank = self.params.rank
        return [Affine(weight=without_directions(gram_HH, rank)) for gram_HH in moments.gram_LHH]


def without_directions(gram_HH: torch.Tensor, rank: int) -> torch.Tensor:
    """I - C C^T (H, H), where C holds the `rank` first eigenvectors of X^T X, which are the first
    right singular vectors of X (rows).
    """
    return without_span(torch.linalg.eigh(gram_HH).eigenvectors[:, -rank:])
