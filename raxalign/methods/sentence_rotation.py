"""Rotation of one language's vectors onto the other's: orthogonal Procrustes over mean vectors of
sentences and their translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, final

from pydantic import Field

from raxalign import lazy
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.word_map import Direction, moving_readout
from raxalign.methods.statistics.pair_moments import Moments, sentences_of
from raxalign.methods.statistics.procrustes import nearest_rotation
from raxalign.methods.statistics.support import support

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import Affine, AlignedEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")


@final
class SentenceRotation(Method):
    """Rotate each language onto the pivot, or the pivot onto each language, by the orthogonal map
    that brings sentences nearest to their translations; no word is linked.

    Formula: W = argmin ||X W - Y||, W^T W = I, for each layer, where a row of X or Y is the mean of
    the word vectors of a sentence; with `center`, x -> (x - mean X) W + mean Y.

    Data: the bitext. Pairs with a side of which the encoder reads no word are left out; the notes
    count the others.

    Reference: Aldarmaki and Diab (2019), as in Cao et al. (2020, Table 1).
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "Aldarmaki and Diab 2019"
    papers = ("aldarmaki2019",)

    class Params(Method.Params):
        """`pooling` comes before the mean over the words of a sentence."""

        center: bool = Field(
            False,
            description="Whether the centroids of the sentences are mapped onto each other too.",
        )
        layers: Layers = Field("last", description=wording.LAYERS_MAPPED)
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)
        direction: Direction = Field("to-pivot", description=wording.DIRECTION)

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True)

    def effect(self) -> Effect:
        """Readouts; of the pivot, one for each language, where that is what moves."""
        return Effect(pivot=self.params.direction == "to-other")

    def acts(self, n_layers: int) -> Acts:
        """Readouts of `layers`."""
        return Acts(readouts=frozenset(parse_layers(self.params.layers, n_layers)))

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with a rotation for each language and layer. Raises `RaxalignError`
        where a language has no sentence pairs.
        """
        from raxalign.encoders.models.aligned import AlignedEncoder

        layers = parse_layers(self.params.layers, encoder.n_layers)
        transforms, notes = [], {}
        for lang in inputs.languages:
            moments = self._moments(encoder, inputs, lang, layers)
            for place, layer in enumerate(layers):
                transforms.append(
                    moving_readout(
                        self.params.direction,
                        lang,
                        inputs.pivot,
                        layer,
                        (self._step(moments, place),),
                    )
                )
            crosses, centred = (
                [moments.cross(place, center=center) for place in range(len(layers))]
                for center in (self.params.center, True)
            )
            notes[lang] = {
                "sentences": moments.count,
                **support(moments.count, crosses, centred=centred, unit="sentence pairs"),
            }
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def _moments(
        self, encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...]
    ) -> Moments:
        """Return the moments of the sentence pairs of a language, the side that moves first."""
        moments = Moments.empty(len(layers), encoder.hidden_size, encoder.device)
        for src_PLH, tgt_PLH in self._pairs(encoder, inputs, lang, layers):
            moved = self.params.direction == "to-pivot"
            moments.add(*((src_PLH, tgt_PLH) if moved else (tgt_PLH, src_PLH)))
        if not moments.count:
            raise RaxalignError(
                f"sentence_rotation: there are no sentence pairs for {lang}-{inputs.pivot};"
                " look at its corpus"
            )
        return moments

    def _pairs(
        self, encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The mean vectors of sentence pairs, (P, L, H) for the other language and for the pivot, a
        chunk at a time.
        """
        folder = inputs.bitext[lang]
        for src, tgt in zip(sentences_of(folder, "src"), sentences_of(folder, "tgt"), strict=True):
            src_BLH, src_B = sentence_means(encoder, src, lang, layers, self.params.pooling)
            tgt_BLH, tgt_B = sentence_means(encoder, tgt, inputs.pivot, layers, self.params.pooling)
            both_B = src_B & tgt_B
            yield src_BLH[both_B], tgt_BLH[both_B]

    def _step(self, moments: Moments, place: int) -> Affine:
        """The map of one layer."""
        from raxalign.encoders.models.aligned import Affine

        weight = nearest_rotation(moments.cross(place, center=self.params.center))
        from_mean, to_mean = moments.means(place)
        return Affine(from_mean, weight, to_mean) if self.params.center else Affine(weight=weight)


def sentence_means(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    layers: tuple[int, ...],
    pooling: Pooling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean vectors of the words of sentences.

    Args:
        encoder: The encoder that reads the sentences.
        sentences: B sentences as words.
        lang: Their language.
        layers: The L layers that are read.
        pooling: How pieces become words.

    Returns:
        Means (B, L, H) in float64 of the words that the encoder reads, and whether (B,) there
        is such a word.
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
