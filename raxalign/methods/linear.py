"""The linear map of one language's vectors onto the other's that is nearest over word pairs: least
squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from pydantic import Field

from raxalign import lazy
from raxalign.config.sources import Source
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families.word_map import (
    WordPairParams,
    coverage,
    moving_readout,
    supervised_pairs,
)
from raxalign.methods.statistics.pair_moments import Moments
from raxalign.methods.statistics.support import support

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import Affine, AlignedEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")

_ROUNDING = 1e-12  # eigenvalues of X^T X below this share of the largest one count as zero


@final
class Linear(Method):
    """Map each language onto the pivot, or the pivot onto each language, by the matrix that brings
    word pairs nearest together.

    Formula: W = argmin (1/n) ||X W - Y||² + ridge ||W||² for each layer, of the n pairs (X, Y);
    with `center`, x -> (x - mean X) W + mean Y. Without `ridge`, and with fewer pairs than
    dimensions, the shortest of the matrices that fit them, which sends to zero what no pair spans:
    the notes record the rank, and results show a remark.

    Data: linked words of the bitext, or the entries of a dictionary, as `rotation` reads them.

    Reference: Mikolov et al. (2013); for contextual vectors Liu et al. (2019) and Wang et al.
    (2019).
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "Mikolov et al. 2013; Wang et al. 2019"
    papers = ("mikolov2013translation", "wang2019")

    class Params(WordPairParams):
        """`dictionary`, `swap` and `min_count` have an effect with `supervision: dictionary`
        alone.
        """

        center: bool = Field(
            False,
            description="Whether the centroids of the word pairs are mapped onto each other too.",
        )
        ridge: float = Field(
            0.0,
            ge=0,
            allow_inf_nan=False,
            description="Weight of the squared norm of W, which holds the matrix small (0: none).",
        )

    params: Params

    def needs(self) -> Needs:
        """Word pairs; with a dictionary the bitext in which its words occur."""
        return self.params.needs()

    def canonical(self) -> dict[str, Any]:
        """Without what only a dictionary makes use of."""
        return {
            name: value
            for name, value in self.params.identity().items()
            if name not in self.params.idle()
        }

    def effect(self) -> Effect:
        """Readouts; of the pivot, one for each language, where that is what moves."""
        return Effect(pivot=self.params.direction == "to-other")

    def acts(self, n_layers: int) -> Acts:
        """Readouts of `layers`."""
        return Acts(readouts=frozenset(parse_layers(self.params.layers, n_layers)))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The dictionary, where it is read."""
        return self.params.sources(lang, pivot)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """The encoder with a map for each language and layer. Raises `RaxalignError` where a
        language has no pairs.
        """
        from raxalign.encoders.models.aligned import AlignedEncoder

        layers = parse_layers(self.params.layers, encoder.n_layers)
        transforms, notes = [], {}
        for lang in inputs.languages:
            pairs, inner = (
                Moments.empty(len(layers), encoder.hidden_size, encoder.device) for _ in range(2)
            )
            for block in supervised_pairs(self.params, encoder, inputs, lang, layers):
                source, target = block if self.params.direction == "to-pivot" else block[::-1]
                pairs.add(source, target)
                inner.add(source, source)
            if not pairs.count:
                raise RaxalignError(
                    f"linear: there are no word pairs for {lang}-{inputs.pivot}; look at its"
                    " corpus, its links or its dictionary"
                )
            steps = [self._step(pairs, inner, place) for place in range(len(layers))]
            transforms += [
                moving_readout(self.params.direction, lang, inputs.pivot, layer, (step,))
                for layer, step in zip(layers, steps, strict=True)
            ]
            notes[lang] = {
                **coverage(self.params, inputs, lang, pairs.count),
                **self._support(inner),
            }
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def _support(self, inner: Moments) -> dict[str, object]:
        """What the maps of a language rest on, for the notes."""
        center = self.params.center
        squares = [inner.cross(place, center=center) for place in range(len(inner.cross_LHH))]
        return support(inner.count, squares, otherwise="is zero", tolerance=_ROUNDING)

    def _step(self, pairs: Moments, inner: Moments, place: int) -> Affine:
        """The map of one layer."""
        from raxalign.encoders.models.aligned import Affine

        center = self.params.center
        squares, cross = inner.cross(place, center=center), pairs.cross(place, center=center)
        weight = least_squares(squares / pairs.count, cross / pairs.count, self.params.ridge)
        return (
            Affine(pairs.means(place)[0], weight, pairs.means(place)[1])
            if center
            else Affine(weight=weight)
        )


def least_squares(
    inner_HH: torch.Tensor, cross_HK: torch.Tensor, ridge: float = 0.0
) -> torch.Tensor:
    """The W (H, K) that minimises ||X W - Y||² + ridge ||W||², from X^T X and X^T Y in float64; the
    shortest where there are several.
    """
    penalised = inner_HH + ridge * torch.eye(
        len(inner_HH), dtype=inner_HH.dtype, device=inner_HH.device
    )
    weight: torch.Tensor = torch.linalg.pinv(penalised, rtol=_ROUNDING, hermitian=True) @ cross_HK
    return weight
