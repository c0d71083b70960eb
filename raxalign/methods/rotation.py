"""Rotation of one language's vectors onto the other's: orthogonal Procrustes over word pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, final

from raxalign.encoders.models.transforms import Affine
from raxalign.methods.base import Effect, MethodInputs
from raxalign.methods.families.readouts import WordMapMethod
from raxalign.options.params import Removed

if TYPE_CHECKING:
    from raxalign.methods.families.word_vectors import WordReading


@final
class Rotation(WordMapMethod):
    """Rotate each language onto the pivot, or the pivot onto each language, by orthogonal
    Procrustes: the orthogonal map that brings word pairs nearest together.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer; with `center`, x -> (x - mean X) W +
    mean Y (Kulshreshtha et al. 2020, Eq. 5).

    Data: linked words of the bitext (`supervision: parallel`), or the entries of a dictionary
    (`dictionary`), whose vectors are means over all occurrences in the bitext in any case. Entries
    with a word that occurs less than `min_count` times are left out; the notes count them.

    Fewer pairs than dimensions leave the rotation arbitrary in the dimensions that no pair spans,
    and a direction in which the pairs hardly vary together is turned at random. The notes record
    the number of pairs, that of dimensions, the rank of the pairs' cross-covariance at each layer,
    and in how many directions they vary together (its effective rank: the exponential of the
    entropy of its singular values). Results show a remark where dimensions are arbitrary, and where
    the pairs vary together in less than 1/32 of them. A task's training run leaves fewer
    directions: in a small encoder trained on slots 12 of 256 where there were 32.

    Reference: Wang et al. (2019) as in Cao et al. (2020, §3.2); RotateAlign and NormRotate in
    Kulshreshtha et al. (2020).

    Relations: `linear` may stretch the space as well and needs more word pairs; `sentence_rotation`
    needs no word pairs; `finetune` trains the encoder's weights on the same word pairs instead.

    Example:
        methods:
          none: {}
          rotation: {center: [false, true], layers: 9-12}
          rotation_dictionary:
            kind: rotation
            supervision: dictionary
            dictionary: "dictionaries/{lang}-{pivot}.txt"
    """

    VERSION = 2
    name = "rotation"
    reference = "Wang et al. 2019; Kulshreshtha et al. 2020"
    papers = ("wang2019", "kulshreshtha2020")

    class Params(WordMapMethod.Params):
        """`dictionary`, `swap` and `min_count` count with `supervision: dictionary` alone."""

        center: bool = False
        """Whether the centroids of both languages are mapped onto each other too."""
        removed: ClassVar = {
            "normalize": Removed(
                "leave it out, or use `iterative_normalization` with `rotate`", "none"
            ),
            "centroids": Removed("leave it out: centroids are means over the word pairs", "pairs"),
            "toward_identity": Removed(
                "leave it out: a rotation is not held near the identity", default=0.0
            ),
        }

    params: Params

    def idle(self) -> set[str]:
        """Return what no centroid makes use of, too."""
        return super().idle() if self.params.center else super().idle() | {"centroids"}

    def effect(self) -> Effect:
        """Return a rotation, with a shift where centroids are mapped."""
        return replace(super().effect(), motion="rigid" if self.params.center else "rotation")

    def fit(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[list[Affine], dict[str, object]]:
        """Return the rotations of a language."""
        moments, center = self.moments(reading, inputs, lang), self.params.center
        rests = moments.support(
            moments.crosses(center=center), centred=moments.crosses(center=True)
        )
        facts = {**self.coverage(inputs, lang, moments.count), **rests}
        return moments.rotations(center=center), facts
