"""Each language is moved by the mean difference of sentences and their translations."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from raxalign.encoders.models.transforms import Affine
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.methods.base import Effect, MethodInputs
from raxalign.methods.families.readouts import MapMethod
from raxalign.methods.families.word_vectors import WordReading


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
    name = "sentence_shift"
    reference = "Jang et al. 2026"
    papers = ("jang2026",)

    class Params(MapMethod.Params):
        """`pooling` comes before the mean over the words of a sentence."""

    params: Params

    def effect(self) -> Effect:
        """Return a shift."""
        return replace(super().effect(), motion="rigid")

    def fit(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[list[Affine], dict[str, object]]:
        """Return the shifts of one language."""
        *_, device = reading.shape
        sums_LH, count = torch.zeros((), dtype=torch.float64, device=device), 0
        for source_PLH, target_PLH in self.moved_first(reading, inputs, lang):
            sums_LH = sums_LH + (target_PLH - source_PLH).sum(dim=0)
            count += len(source_PLH)
        if not count:
            raise RaxalignError(self.missing(lang, inputs.pivot))
        return [Affine(shift=shift_H) for shift_H in sums_LH / count], {"sentences": count}
