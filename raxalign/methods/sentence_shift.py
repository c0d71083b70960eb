"""Each language is moved by the mean difference of sentences and their translations."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.base import Effect, MethodInputs, Needs
from raxalign.methods.families.word_map import Fitting, MapMethod, MapParams
from raxalign.methods.statistics.moments import sentence_pair_means


@final
class SentenceShift(MapMethod):
    """Move each language toward the pivot, or the pivot toward each language, by the mean
    difference of sentences and their translations; no word is linked.

    Formula: x -> x + (mean Y - mean X), for each layer, where a row of X or Y is the mean of the
    word vectors of a sentence. `mean_shift` moves what is inside the encoder and reads text that is
    not translated; here content is the same on both sides, so that the difference is the
    language's alone.

    Data: the bitext. Pairs with a side of which the encoder reads no word are left out; the notes
    count the others.

    Reference: Jang et al. (2026, SHIFT), who subtract the difference from documents when they are
    indexed.

    Relations: `sentence_rotation` fits a matrix to the same sentence pairs; choose this one where
    they are few.

    Example:
        methods:
          none: {}
          sentence_shift: {layers: 8-12}
    """

    VERSION = 1
    reference = "Jang et al. 2026"
    papers = ("jang2026",)

    class Params(MapParams):
        """`pooling` comes before the mean over the words of a sentence."""

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True)

    def effect(self) -> Effect:
        """Return a shift."""
        return replace(super().effect(), motion="rigid")

    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the shifts of one language."""

        def fit(lang: str) -> tuple[list[Transform], dict[str, object]]:
            found = sentence_pair_means(encoder, inputs, lang, layers, self.params.pooling)
            sums_LH, count = torch.zeros((), dtype=torch.float64, device=encoder.device), 0
            for source_PLH, target_PLH in self.moved_first(found):
                sums_LH = sums_LH + (target_PLH - source_PLH).sum(dim=0)
                count += len(source_PLH)
            if not count:
                raise RaxalignError(
                    f"sentence_shift: there are no sentence pairs for {lang}-{inputs.pivot}; look"
                    " at its corpus"
                )
            steps = [Affine(shift=shift_H) for shift_H in sums_LH / count]
            return self.readouts(lang, inputs.pivot, layers, steps), {"sentences": count}

        return fit
