"""The linear map that brings word pairs nearest together: least squares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, final

from raxalign.encoders.models.transforms import Affine
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.readouts import WordMapMethod
from raxalign.methods.families.word_vectors import Moments, WordReading
from raxalign.options.params import Removed

_ROUNDING = 1e-12  # eigenvalues of X^T X below this share of the largest one count as zero


@final
class Linear(WordMapMethod):
    """Map each language onto the pivot, or the pivot onto each language, by the matrix that brings
    word pairs nearest together.

    Formula: W = argmin ||X W - Y||² for each layer, of the pairs (X, Y); with `center`, x -> (x -
    mean X) W + mean Y. With fewer pairs than dimensions, the shortest of the matrices that fit
    them, which sends to zero what no pair spans: the notes record the rank, and results show a
    remark.

    Data: linked words of the bitext, or the entries of a dictionary, as `rotation` reads them.

    Reference: Mikolov et al. (2013); for contextual vectors Liu et al. (2019) and Wang et al.
    (2019).

    Relations: `rotation` is the orthogonal map of the same word pairs, which keeps distances;
    choose this one where there are many more word pairs than dimensions.

    Example:
        methods:
          none: {}
          linear: {center: true, layers: 8-12}
    """

    VERSION = 3
    name = "linear"
    reference = "Mikolov et al. 2013; Wang et al. 2019"
    papers = ("mikolov2013translation", "wang2019")

    class Params(WordMapMethod.Params):
        """`dictionary`, `swap` and `min_count` have an effect with `supervision: dictionary`
        alone.
        """

        center: bool = False
        """Whether the centroids of the word pairs are mapped onto each other too."""
        removed: ClassVar = {
            "ridge": Removed("leave it out: the matrix is that of least squares", 0.0)
        }

    params: Params

    def fit(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[list[Affine], dict[str, object]]:
        """Return the matrices of one language."""
        inner, center = Moments.empty(*reading.shape), self.params.center

        def blocks() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for source, target in self.moved_first(reading, inputs, lang):
                inner.add(source, source)
                yield source, target

        pairs = Moments.of(reading, blocks(), self.missing(lang, inputs.pivot))
        squares = inner.crosses(center=center)
        weights = [
            least_squares(square / pairs.count, cross / pairs.count)
            for square, cross in zip(squares, pairs.crosses(center=center), strict=True)
        ]
        rests = inner.support(squares, otherwise="is zero", tolerance=_ROUNDING)
        return (
            pairs.steps(weights, center=center),
            {**self.coverage(inputs, lang, pairs.count), **rests},
        )


def least_squares(inner_HH: torch.Tensor, cross_HK: torch.Tensor) -> torch.Tensor:
    """Return the W (H, K) that minimises ||X W - Y||², from X^T X and X^T Y in float64; the
    shortest where there are several.
    """
    weight: torch.Tensor = torch.linalg.pinv(inner_HH, rtol=_ROUNDING, hermitian=True) @ cross_HK
    return weight
