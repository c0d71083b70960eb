"""awesome-align (Dou and Neubig 2021): links from the probabilities of pieces for one another.

A batch of n sentence pairs is a tensor (n, S, T): similarities of S source with T target pieces,
``-inf`` where one of the two is special or fills up a shorter sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, final

from pydantic import Field

from raxalign.arrays import Ints
from raxalign.corpora.text.words import spaced_out
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.pairing.aligners.base import AlignerInputs, SimilarityAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

CHUNK = 4096
"""Sentence pairs whose pieces are in memory together."""
Extraction = Literal["softmax", "entmax"]
_EXTRACTION = (
    "How similarities become probabilities: by `softmax`, or by the sparse `entmax` with α = 1.5,"
    " which gives most subword tokens none."
)
_THRESHOLD = "Probability that two subword tokens must exceed, each for the other, to be linked."


@final
class AwesomeAlign(SimilarityAligner):
    """Words are linked where a subword token of one is probable for one of the other, and the other
    way too, by their states in a multilingual encoder. Nothing is trained, and a sentence pair's
    links depend on that pair alone.

    The similarity of two subword tokens is the product of their states at one layer. Its
    probabilities over the target's subword tokens, and those over the source's, must both exceed
    `threshold`. A subword token that several words share links its first and its last one. Links
    have no direction, so that `symmetrization` changes nothing. The encoder is that of the option
    `encoder`, whatever a grid's own `encoder` is: all encoders of a grid are tested on the same
    links.

    Data: an encoder, and any number of sentence pairs; the method `awesome_align` trains an encoder
    for it.

    Reference: Dou and Neubig (2021), section 2.1; Peters et al. (2019) for entmax.

    Relations: `simalign` compares words by cosines; `fast_align` and `thot` learn from the sentence
    pairs and need no encoder.

    Example:
        pairs:
          aligner: awesome_align
          encoder: bert-base-multilingual-cased
          layer: 8
          extraction: softmax
    """

    VERSION: ClassVar[int] = 1
    papers = ("dou2021", "extraction=entmax peters2019")

    class Params(SimilarityAligner.Params):
        """The defaults are the paper's, for an encoder of 12 layers."""

        extraction: Extraction = Field("softmax", description=_EXTRACTION)
        threshold: float = Field(0.001, ge=0, lt=1, description=_THRESHOLD)

    params: Params

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Return the same links as forward and as reverse ones; each pair's are sorted by source,
        then target. Raises `RaxalignError` where the encoder does not have the layer, or pieces.
        """
        encoder = inputs.encoder
        if not isinstance(encoder, TransformerEncoder):
            raise RaxalignError(
                f"awesome_align: {self.params.encoder} has no subword tokens with states; name a"
                " transformer in `encoder`"
            )
        sides, langs = (Words.of(src), Words.of(tgt)), (inputs.lang, inputs.pivot)
        codes = [np.zeros(0, np.int64)]
        for start in range(0, len(sides[0]), CHUNK):
            rows = np.arange(start, min(start + CHUNK, len(sides[0])))
            pieces = [
                encoder.pieces(spaced_out(side.read(rows), self.params.spacing), lang)
                for side, lang in zip(sides, langs, strict=True)
            ]
            codes += [found + (start << 32) for found in self._codes(encoder, *pieces)]
        links = Links.from_codes(np.unique(np.concatenate(codes)), len(sides[0]))
        return links, links

    def _codes(self, encoder: TransformerEncoder, src: RowSource, tgt: RowSource) -> Iterator[Ints]:
        """Yield the links of batches of sentence pairs as `Links.codes`, in any order."""
        (layer,) = parse_layers(self.params.layer, encoder.n_layers)
        longest = np.maximum(src.lengths, tgt.lengths)
        for chosen in token_batches(longest, encoder.batch_tokens):
            sides = [encoder.laid_out(side, chosen) for side in (src, tgt)]
            with torch.no_grad(), evaluating(encoder.model):
                states = [encoder.hidden(side.on(encoder.device), upto=layer)[-1] for side in sides]
                similarities_NST = torch.bmm(states[0], states[1].mT)
            of_words = [(side.words_BT >= 0).to(encoder.device) for side in sides]
            both_NST = of_words[0][:, :, None] & of_words[1][:, None, :]
            similarities_NST = similarities_NST.masked_fill(~both_NST, -torch.inf)
            found = linked(similarities_NST, self.params.extraction, self.params.threshold)
            rows, s, t = found.cpu().numpy().nonzero()
            for source in (sides[0].words_BT, sides[0].lasts_BT):
                for target in (sides[1].words_BT, sides[1].lasts_BT):
                    i, j = source.numpy()[rows, s], target.numpy()[rows, t]
                    yield (chosen[rows].astype(np.int64) << 32) | (i.astype(np.int64) << 16) | j


def linked(
    similarities_NST: torch.Tensor, extraction: Extraction, threshold: float
) -> torch.Tensor:
    """Return the links (n, S, T): both probabilities of the two pieces exceed the threshold."""
    of_tgt_NST, of_src_NST = probabilities(similarities_NST, extraction)
    probable_NST = (of_tgt_NST > threshold) & (of_src_NST > threshold)
    links_NST: torch.Tensor = probable_NST & (similarities_NST > -torch.inf)
    return links_NST


def probabilities(
    similarities_NST: torch.Tensor, extraction: Extraction
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the probabilities (n, S, T) of the target's pieces for each of the source's, and those
    of the source's for each of the target's. Gradient flows. Where a piece is not compared with any
    other, they mean nothing.
    """
    way = entmax if extraction == "entmax" else torch.softmax
    low = torch.finfo(similarities_NST.dtype).min / 4
    finite_NST = similarities_NST.clamp(min=low)  # a row without a piece of a word has a sum too
    return way(finite_NST, 2), way(finite_NST, 1)


def entmax(scores: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the probabilities of entmax with α = 1.5 along one dimension.

    They are max(0, z - τ)² with z = scores / 2, and τ makes their sum 1. With the k largest z in
    the support, τ is the smaller root of a quadratic in their mean and variance; the right k is
    the largest whose τ is below the k-th z (Peters et al. 2019, algorithm 2).
    """
    z = (scores - scores.amax(dim, keepdim=True)) / 2
    ordered = z.sort(dim, descending=True).values
    shape = [1] * z.ndim
    shape[dim] = -1
    k = torch.arange(1, z.shape[dim] + 1, dtype=z.dtype, device=z.device).view(shape)
    # what is far below the largest one is never in the support; its square would be infinite
    ordered = ordered.clamp(min=-2)
    mean, square = ordered.cumsum(dim) / k, ordered.square().cumsum(dim) / k
    support = (_threshold(mean, square, k) <= ordered).sum(dim, keepdim=True)
    # no gradient passes the thresholds of other k, whose roots have none at 0
    mean, square = (part.gather(dim, support - 1) for part in (mean, square))
    found = _threshold(mean, square, support.to(z.dtype))
    return (z - found).clamp(min=0).square()


def _threshold(mean: torch.Tensor, square: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The τ of a support of k values with this mean and mean square."""
    return mean - ((1 - k * (square - mean.square())) / k).clamp(min=0).sqrt()
