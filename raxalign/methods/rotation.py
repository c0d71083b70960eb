"""Rotation of one language's vectors onto the other's: orthogonal Procrustes over word pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, final

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import Affine, Transform, Unit
from raxalign.lazy import torch
from raxalign.measured import Motion
from raxalign.methods.base import Effect, MethodInputs, Needs
from raxalign.methods.families.word_map import (
    Fitting,
    WordMapMethod,
    WordPairParams,
    coverage,
    moving_readout,
    no_pairs,
    supervised_pairs,
)
from raxalign.methods.statistics.moments import Moments, WordReading, stepped, text_moments
from raxalign.methods.statistics.procrustes import procrustes, rotations, support

Chain = tuple[Unit | Affine, ...]
Chains = list[Chain]
__all__ = ["Rotation", "procrustes"]


@final
class Rotation(WordMapMethod):
    """Rotate each language onto the pivot, or the pivot onto each language, by the orthogonal map
    that brings word pairs nearest together.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer; with `center`, x -> (x - mean X) W +
    mean Y (Kulshreshtha et al. 2020, Eq. 5).

    With `normalize: unit-center-unit` the vectors of both languages are brought to length one,
    centred, and brought to length one again, when the rotation is fitted and whenever vectors are
    read (the order of vecmap, and so of the fastText baseline of Cao et al. 2020).

    Data: linked words of the bitext (`supervision: parallel`), or the entries of a dictionary
    (`dictionary`), whose vectors are means over all occurrences in the bitext in any case. Entries
    with a word that occurs less than `min_count` times are left out; the notes count them.

    Fewer pairs than dimensions leave the rotation arbitrary in the dimensions that no pair spans,
    and a direction in which the pairs hardly vary together is turned by chance. The notes record
    the number of pairs, that of dimensions, the rank of the pairs' cross-covariance at each layer,
    and in how many directions they vary together (its effective rank: the exponential of the
    entropy of its singular values). Results show a remark where dimensions are arbitrary, and where
    the pairs vary together in less than 1/32 of them. A task's training leaves fewer directions: in
    a small encoder trained on slots 12 of 256 where there were 32. With `toward_identity` what the
    pairs do not determine stays nearly as it is: W = argmin ||X W - Y||² + λ ||W - I||², λ =
    `toward_identity` times the mean singular value of X^T Y. Under a tagger of parts of speech
    (`readout: refit`, one seed) .1 raised Turkish from 44.6 to 47.7 (without a rotation 44.2) and
    left German, Spanish and Chinese within .1 of 60.7, 64.7 and 44.0. The F1 of Turkish names rose
    from 40.0 to 43.3 with .3 and to 44.0 with 1 (without a rotation 45.5; 99 % of the pairs are
    words that the tagger does not call names).

    Reference: Wang et al. (2019) as in Cao et al. (2020, §3.2); RotateAlign and NormRotate in
    Kulshreshtha et al. (2020).
    """

    VERSION = 2
    reference = "Wang et al. 2019; Kulshreshtha et al. 2020"
    papers = ("wang2019", "kulshreshtha2020")

    class Params(WordPairParams):
        """Centroids are those of `center` and the centres of `normalize`. Kulshreshtha et al. print
        them as means over pairs, with which the pivot has one centre for each language; vecmap
        takes every word of the vocabulary once. `dictionary`, `swap` and `min_count` have an effect
        with `supervision: dictionary` alone.
        """

        center: bool = False
        """Whether the centroids of both languages are mapped onto each other too."""
        normalize: Literal["none", "unit-center-unit"] = "none"
        """Whether vectors are brought to length one, centred, and brought to length one again
        before the rotation.
        """
        centroids: Literal["pairs", "corpus"] = "pairs"
        """What centroids are means over: the vectors of the word pairs (`pairs`), or all
        occurrences of words in each language's text (`corpus`).
        """
        toward_identity: Annotated[float, LATER] = Field(0.0, ge=0, allow_inf_nan=False)
        """How much the rotation is held near the identity where the pairs do not determine it: 0
        not at all, 0.1 a little, 1 much.
        """

        def reads_corpus(self) -> bool:
            """Whether centroids are taken, and from text."""
            return self.centroids == "corpus" and (self.center or self.normalize != "none")

    params: Params

    def needs(self) -> Needs:
        """Word pairs, or the bitext in which a dictionary's words occur; text for its centroids."""
        return replace(super().needs(), text=self.params.reads_corpus())

    def idle(self) -> set[str]:
        """What only a dictionary, or only a centroid, makes use of."""
        taken = self.params.center or self.params.normalize != "none"
        return super().idle() if taken else super().idle() | {"centroids"}

    def effect(self) -> Effect:
        """Readouts; of the pivot too where it is normalised, or where it is what moves."""
        return Effect(pivot=super().effect().pivot or self.params.normalize != "none")

    def motion(self) -> Motion:
        """Return a rotation, with a shift where centroids are mapped; none where lengths change."""
        if self.params.normalize != "none":
            return "any"
        return "rigid" if self.params.center else "rotation"

    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the rotations of a language; the pivot's centroids are found once."""
        return _Rotations(self, encoder, inputs, layers).fit


class _Rotations:
    """The fit of all languages."""

    def __init__(
        self, method: Rotation, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]
    ) -> None:
        self.method, self.params = method, method.params
        self.encoder, self.inputs, self.layers = encoder, inputs, layers
        self.found: dict[tuple[str, int], torch.Tensor] = {}

    def fit(self, lang: str) -> tuple[list[Transform], dict[str, object]]:
        """Return the readouts of one language, and of the pivot for it, and what they rest on."""
        params, pivot = self.params, self.inputs.pivot
        steps = self._normalizers(lang) if params.normalize != "none" else self._each(())
        moments = self._moments(lang, steps)
        ends = self._centroids(lang, steps, moments) if params.center else None
        if params.direction == "to-other":
            steps = steps[::-1]
        found = rotations(moments, ends, params.toward_identity)
        readouts = []
        for layer, step, moving, held in zip(self.layers, found, *steps, strict=True):
            readouts.append(moving_readout(params.direction, lang, pivot, layer, (*moving, step)))
            readouts += self._held(lang, layer, held)
        facts = {
            **coverage(params, self.inputs, lang, moments.count),
            **support(
                moments.count,
                moments.crosses(center=params.center),
                centred=moments.crosses(center=True),
                otherwise="stays as it is" if params.toward_identity else "is arbitrary",
            ),
        }
        return readouts, facts

    def _held(self, lang: str, layer: int, steps: Chain) -> list[Transform]:
        """Return the normalisation of the side that does not move; the pivot's has the centre of
        its pairs with one language, or of its own text, which is the same for all and is applied
        once.
        """
        if not steps:
            return []
        if self.params.direction == "to-other":
            return [Transform(lang, layer, steps=steps)]
        pivot = self.inputs.pivot
        if self.params.centroids == "pairs":
            return [Transform(pivot, layer, steps=steps, toward=lang)]
        first = lang == self.inputs.languages[0]
        return [Transform(pivot, layer, steps=steps)] if first else []

    def _each(self, chain: Chain) -> tuple[Chains, Chains]:
        """Return the same steps for both languages and all layers."""
        return [chain] * len(self.layers), [chain] * len(self.layers)

    def _normalizers(self, lang: str) -> tuple[Chains, Chains]:
        """Return unit, centre, unit for each layer, of a language and of the pivot."""
        unit = self._each((Unit(),))
        moments = self._moments(lang, unit) if self.params.centroids == "pairs" else None
        ends = self._centroids(lang, unit, moments)
        if self.params.direction == "to-other":
            ends = ends[::-1]
        sides: list[Chains] = [[(Unit(), Affine(mean), Unit()) for mean in side] for side in ends]
        return sides[0], sides[1]

    def _moments(self, lang: str, steps: tuple[Chains, Chains]) -> Moments:
        """Return sums over the pairs of a language after both sides' steps, the moving first."""
        pairs = supervised_pairs(self.params, self.encoder, self.inputs, lang, self.layers)
        after = ((stepped(src, steps[0]), stepped(tgt, steps[1])) for src, tgt in pairs)
        missing = no_pairs("rotation", lang, self.inputs.pivot)
        return Moments.of(self.encoder, self.layers, self.method.moved_first(after), missing)

    def _centroids(
        self, lang: str, steps: tuple[Chains, Chains], moments: Moments | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean vectors (L, H) of both languages after their steps, the moving first."""
        if self.params.centroids == "pairs":
            assert moments is not None
            return moments.means()
        src, tgt = (
            self._corpus_mean(code, chains)
            for code, chains in zip((lang, self.inputs.pivot), steps, strict=True)
        )
        return (src, tgt) if self.params.direction == "to-pivot" else (tgt, src)

    def _corpus_mean(self, lang: str, steps: Chains) -> torch.Tensor:
        """Return the mean over the words of a language's text, after some steps."""
        key = (lang, len(steps[0]))
        if key not in self.found:
            reading = WordReading(self.encoder, self.layers, self.params.pooling)
            self.found[key] = text_moments(reading, self.inputs, lang, before=steps).means()
        return self.found[key]
