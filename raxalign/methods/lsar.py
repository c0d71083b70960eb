"""The subspace in which the means of languages differ is taken out of all vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from pydantic import Field

from raxalign.encoders.models.transforms import Affine
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.families.readouts import JointTextMethod, without_span
from raxalign.methods.families.word_vectors import TextMoments


@final
class Lsar(JointTextMethod):
    """Take out of each vector its part in the subspace that tells languages apart, one subspace for
    all languages and the pivot.

    Formula: the means of L languages (the columns of M) are fitted by μ 1^T + B Γ^T with B^T B = I
    of `rank` columns and μ orthogonal to B; x -> x - B B^T x, for each layer.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Xie et al. (2022).

    Relations: `lir` has directions of each language by itself; `leace` takes the covariance into
    account and changes vectors less.

    Example:
        methods:
          none: {}
          lsar: {rank: 1, layers: 8-12}
    """

    VERSION = 1
    reference = "Xie et al. 2022"
    papers = ("xie2022",)

    class Params(JointTextMethod.Params):
        """The means are over the words of the sentences that are read."""

        rank: int | None = Field(None, ge=1)
        """Dimensions of the subspace: at most the number of languages, the pivot included, less one
        (none: as many as that).
        """

    params: Params

    def joint_maps(self, found: Sequence[TextMoments]) -> Iterator[Affine]:
        """Yield the projection of each layer. Raises `RaxalignError` for too high a rank."""
        most = len(found) - 1
        rank = self.params.rank or most
        if rank > most:
            raise RaxalignError(
                f"lsar: rank {rank} is too much for the means of {most + 1} languages; at most"
                f" {most} (give more languages together)"
            )
        for means_HL in torch.stack([moments.means() for moments in found], dim=-1):
            basis_HR = language_subspace(means_HL, rank)
            yield Affine(weight=without_span(basis_HR))


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
