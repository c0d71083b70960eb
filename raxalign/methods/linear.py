"""The linear map that brings word pairs nearest together: least squares."""

from __future__ import annotations

from typing import ClassVar, final

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families.word_map import (
    Fitting,
    Pairs,
    WordMapMethod,
    WordPairParams,
    coverage,
    no_pairs,
    supervised_pairs,
)
from raxalign.methods.statistics.moments import Moments
from raxalign.methods.statistics.procrustes import support
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

    VERSION = 2
    reference = "Mikolov et al. 2013; Wang et al. 2019"
    papers = ("mikolov2013translation", "wang2019")

    class Params(WordPairParams):
        """`dictionary`, `swap` and `min_count` have an effect with `supervision: dictionary`
        alone.
        """

        center: bool = False
        """Whether the centroids of the word pairs are mapped onto each other too."""
        removed: ClassVar = {
            "ridge": Removed("leave it out: the matrix is that of least squares", 0.0)
        }

    params: Params

    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the matrices of one language."""

        def fit(lang: str) -> tuple[list[Transform], dict[str, object]]:
            missing = no_pairs("linear", lang, inputs.pivot)
            inner = Moments.empty(len(layers), encoder.hidden_size, encoder.device)

            def blocks() -> Pairs:
                found = supervised_pairs(self.params, encoder, inputs, lang, layers)
                for source, target in self.moved_first(found):
                    inner.add(source, source)
                    yield source, target

            pairs = Moments.of(encoder, layers, blocks(), missing)
            squares = inner.crosses(center=self.params.center)
            steps = self._steps(pairs, squares)
            facts = {
                **coverage(self.params, inputs, lang, pairs.count),
                **support(inner.count, squares, otherwise="is zero", tolerance=_ROUNDING),
            }
            return self.readouts(lang, inputs.pivot, layers, steps), facts

        return fit

    def _steps(self, pairs: Moments, squares: list[torch.Tensor]) -> list[Affine]:
        """Return the map of each layer."""
        center = self.params.center
        weights = [
            least_squares(square / pairs.count, cross / pairs.count)
            for square, cross in zip(squares, pairs.crosses(center=center), strict=True)
        ]
        if not center:
            return [Affine(weight=weight) for weight in weights]
        sources, targets = pairs.means()
        return [Affine(*step) for step in zip(sources, weights, targets, strict=True)]


def least_squares(inner_HH: torch.Tensor, cross_HK: torch.Tensor) -> torch.Tensor:
    """Return the W (H, K) that minimises ||X W - Y||², from X^T X and X^T Y in float64; the
    shortest where there are several.
    """
    weight: torch.Tensor = torch.linalg.pinv(inner_HH, rtol=_ROUNDING, hermitian=True) @ cross_HK
    return weight
