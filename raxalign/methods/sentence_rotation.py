"""Orthogonal Procrustes over mean vectors of sentences and their translations."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.transforms import Transform
from raxalign.methods.base import Effect, MethodInputs, Needs
from raxalign.methods.families.word_map import Fitting, MapMethod, MapParams
from raxalign.methods.statistics.moments import Moments, sentence_pair_means
from raxalign.methods.statistics.procrustes import rotations, support


@final
class SentenceRotation(MapMethod):
    """Rotate each language onto the pivot, or the pivot onto each language, by the orthogonal map
    that brings sentences nearest to their translations; no word is linked.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer, where a row of X or Y is the mean of
    the word vectors of a sentence; with `center`, x -> (x - mean X) W + mean Y.

    Data: the bitext. Pairs with a side of which the encoder reads no word are left out; the notes
    count the others.

    Reference: Aldarmaki and Diab (2019), as in Cao et al. (2020, Table 1).

    Relations: `rotation` on sentences; choose it where words cannot be aligned well.
    `sentence_shift` fits one vector in place of a matrix.

    Example:
        methods:
          none: {}
          sentence_rotation: {center: true, pooling: last}
    """

    VERSION = 1
    reference = "Aldarmaki and Diab 2019"
    papers = ("aldarmaki2019",)

    class Params(MapParams):
        """`pooling` comes before the mean over the words of a sentence."""

        center: bool = False
        """Whether the centroids of the sentences are mapped onto each other too."""

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True)

    def effect(self) -> Effect:
        """Return a rotation, with a shift where centroids are mapped."""
        return replace(super().effect(), motion="rigid" if self.params.center else "rotation")

    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the rotations of one language."""
        center, pivot = self.params.center, inputs.pivot

        def fit(lang: str) -> tuple[list[Transform], dict[str, object]]:
            missing = (
                f"sentence_rotation: there are no sentence pairs for {lang}-{pivot}; look at its"
                " corpus"
            )
            found = sentence_pair_means(encoder, inputs, lang, layers, self.params.pooling)
            pairs = self.moved_first(found)
            moments = Moments.of(encoder, layers, pairs, missing)
            steps = rotations(moments, moments.means() if center else None)
            crosses, centred = moments.crosses(center=center), moments.crosses(center=True)
            rests = support(moments.count, crosses, centred=centred, unit="sentence pairs")
            readouts = self.readouts(lang, pivot, layers, steps)
            return readouts, {"sentences": moments.count, **rests}

        return fit
