"""The subspace in which the means of languages differ is taken out of all vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pydantic import Field

from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.text import TextMethod, without_span
from raxalign.methods.statistics.moments import text_moments

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

_RANK = (
    "Dimensions of the subspace: at most the number of languages, the pivot included, less one"
    " (none: as many as that)."
)


@final
class Lsar(TextMethod):
    """Take out of each vector its part in the subspace that tells languages apart, one subspace for
    all languages and the pivot.

    Formula: the means of L languages (the columns of M) are fitted by μ 1^T + B Γ^T with B^T B = I
    of `rank` columns and μ orthogonal to B; x -> x - B B^T x, for each layer.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Xie et al. (2022).
    """

    VERSION = 1
    reference = "Xie et al. 2022"
    papers = ("xie2022",)

    class Params(TextMethod.Params):
        """The means are over the words of the sentences that are read."""

        rank: int | None = Field(None, ge=1, description=_RANK)

    params: Params

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Return the encoder with one projection per layer, for every language. Raises
        `RaxalignError` for text without words, or too high a rank.
        """
        from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform

        languages, most = (*inputs.languages, inputs.pivot), len(inputs.languages)
        rank = self.params.rank or most
        if rank > most:
            raise RaxalignError(
                f"lsar: rank {rank} is too much for the means of {most + 1} languages; at most"
                f" {most} (give more languages together)"
            )
        reading = self.word_reading(encoder, runtime)
        found = [text_moments(reading, inputs, lang) for lang in languages]
        transforms = []
        for place, layer in enumerate(reading.layers):
            basis_HR = language_subspace(
                torch.stack([moments.means()[place] for moments in found], dim=1), rank
            )
            weight = without_span(basis_HR)
            transforms += [
                Transform(lang, layer, steps=(Affine(weight=weight),)) for lang in languages
            ]
        return AlignedEncoder(
            encoder,
            tuple(transforms),
            notes={lang: {"words": m.count} for lang, m in zip(languages, found, strict=True)},
        )


def language_subspace(means_HL: torch.Tensor, rank: int) -> torch.Tensor:
    """Return an orthonormal basis B (H, at most `rank`) of the subspace in which the means of
    languages (columns) differ most.

    The paper fits twice: B of the means about their mean, then μ as the point of μ' + span B that
    is nearest to the origin, and B about that. The second μ differs from the first by a vector in
    span B, so that the span is the same, and the first fit is all that a projection needs.
    Directions in which the means do not differ are left out, so that nothing arbitrary is removed.
    """
    centred_HL = means_HL - means_HL.mean(dim=1, keepdim=True)
    left_HL, strength_L, _ = torch.linalg.svd(centred_HL, full_matrices=False)
    differs = strength_L[:rank] > 1e-10 * means_HL.norm()
    basis: torch.Tensor = left_HL[:, :rank][:, differs]
    return basis
