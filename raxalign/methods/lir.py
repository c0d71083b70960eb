"""The strongest directions of each language's vectors are taken out."""

from __future__ import annotations

from typing import final

from pydantic import Field

from raxalign.encoders.models.transforms import Affine
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.families.readouts import TextMethod, without_span
from raxalign.methods.families.word_vectors import TextMoments


@final
class Lir(TextMethod):
    """Take out of each vector its part along the first principal directions of its language, the
    pivot's too: those carry the language.

    Formula: x -> x - C C^T x for each layer, where the columns of C are the first `rank` singular
    directions of the matrix of the language's word vectors, which is not centred.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Yang et al. (2021).

    Relations: `lsar` and `leace` have one map for all languages; `centering` takes out the mean in
    place of directions.

    Example:
        methods:
          none: {}
          lir: {rank: [1, 5], layers: 8-12}
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

    def maps(self, moments: TextMoments) -> list[Affine]:
        """Return the projection of each layer. Raises `RaxalignError` for too high a rank."""
        assert moments.gram_LHH is not None
        rank, width = self.params.rank, moments.gram_LHH.shape[-1]
        if rank >= width:
            raise RaxalignError(
                f"lir: rank {rank} leaves nothing of vectors of {width} coordinates; choose a"
                " smaller one"
            )
        return [Affine(weight=without_directions(gram_HH, rank)) for gram_HH in moments.gram_LHH]


def without_directions(gram_HH: torch.Tensor, rank: int) -> torch.Tensor:
    """I - C C^T (H, H), where C holds the `rank` first eigenvectors of X^T X, which are the first
    right singular vectors of X (rows).
    """
    return without_span(torch.linalg.eigh(gram_HH).eigenvectors[:, -rank:])
