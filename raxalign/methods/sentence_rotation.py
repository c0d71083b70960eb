"""Orthogonal Procrustes over mean vectors of sentences and their translations."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from raxalign.encoders.models.transforms import Affine
from raxalign.methods.base import Effect, MethodInputs
from raxalign.methods.families.readouts import MapMethod
from raxalign.methods.families.word_vectors import WordReading


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
    name = "sentence_rotation"
    reference = "Aldarmaki and Diab 2019"
    papers = ("aldarmaki2019",)

    class Params(MapMethod.Params):
        """`pooling` comes before the mean over the words of a sentence."""

        center: bool = False
        """Whether the centroids of the sentences are mapped onto each other too."""

    params: Params

    def effect(self) -> Effect:
        """Return a rotation, with a shift where centroids are mapped."""
        return replace(super().effect(), motion="rigid" if self.params.center else "rotation")

    def fit(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[list[Affine], dict[str, object]]:
        """Return the rotations of one language."""
        moments, center = self.moments(reading, inputs, lang), self.params.center
        crosses, centred = moments.crosses(center=center), moments.crosses(center=True)
        rests = moments.support(crosses, centred=centred, unit="sentence pairs")
        return moments.rotations(center=center), {"sentences": moments.count, **rests}
