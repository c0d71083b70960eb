"""Orthogonal Procrustes over mean vectors of sentences and their translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from pydantic import Field

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families.word_map import Fitting, MapMethod, MapParams, Pairs
from raxalign.methods.statistics.moments import CHUNK, Moments
from raxalign.methods.statistics.procrustes import rotations, support

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import Transform


@final
class SentenceRotation(MapMethod):
    """Rotate each language onto the pivot, or the pivot onto each language, by the orthogonal map
    that brings sentences nearest to their translations; no word is linked.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer, where a row of X or Y is the mean of
    the word vectors of a sentence; with `center`, x -> (x - mean X) W + mean Y.

    Data: the bitext. Pairs with a side of which the encoder reads no word are left out; the notes
    count the others.

    Reference: Aldarmaki and Diab (2019), as in Cao et al. (2020, Table 1).
    """

    VERSION = 1
    reference = "Aldarmaki and Diab 2019"
    papers = ("aldarmaki2019",)

    class Params(MapParams):
        """`pooling` comes before the mean over the words of a sentence."""

        center: bool = Field(
            False,
            description="Whether the centroids of the sentences are mapped onto each other too.",
        )

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True)

    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the rotations of one language."""
        center, pivot = self.params.center, inputs.pivot

        def fit(lang: str) -> tuple[list[Transform], dict[str, object]]:
            missing = (
                f"sentence_rotation: there are no sentence pairs for {lang}-{pivot}; look at its"
                " corpus"
            )
            pairs = self.moved_first(self._pairs(encoder, inputs, lang, layers))
            moments = Moments.of(encoder, layers, pairs, missing)
            steps = rotations(moments, moments.means() if center else None)
            crosses, centred = moments.crosses(center=center), moments.crosses(center=True)
            rests = support(moments.count, crosses, centred=centred, unit="sentence pairs")
            readouts = self.readouts(lang, pivot, layers, steps)
            return readouts, {"sentences": moments.count, **rests}

        return fit

    def _pairs(
        self, encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...]
    ) -> Pairs:
        """Yield the mean vectors of sentence pairs of the other language and of the pivot."""
        table = read_table(inputs.bitext[lang])
        sides = (sentence_chunks(table, side, CHUNK) for side in ("src", "tgt"))
        for src, tgt in zip(*sides, strict=True):
            src_BLH, src_B = sentence_means(encoder, src, lang, layers, self.params.pooling)
            tgt_BLH, tgt_B = sentence_means(encoder, tgt, inputs.pivot, layers, self.params.pooling)
            both_B = src_B & tgt_B
            yield src_BLH[both_B], tgt_BLH[both_B]


def sentence_means(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    layers: tuple[int, ...],
    pooling: Pooling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the means (B, L, H), in float64, of the words of B sentences that the encoder reads,
    and whether (B,) there is such a word.
    """
    words = encoder.words(sentences, lang, layers=layers, pooling=pooling)
    offsets = torch.tensor(words.offsets, device=words.vectors_NLH.device)
    rows_N = torch.repeat_interleave(
        torch.arange(len(sentences), device=offsets.device), offsets.diff()
    )
    sums_BLH = torch.zeros(
        len(sentences), len(layers), encoder.hidden_size, dtype=torch.float64, device=offsets.device
    )
    sums_BLH.index_add_(0, rows_N, words.vectors_NLH.double())  # absent words are zero
    counts_B = torch.zeros(len(sentences), dtype=torch.int64, device=offsets.device).index_add_(
        0, rows_N, words.present_N.long()
    )
    return sums_BLH / counts_B.clamp(min=1)[:, None, None], counts_B > 0
