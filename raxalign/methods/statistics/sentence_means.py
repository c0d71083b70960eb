"""The mean word vectors of sentences and of their translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.statistics.moments import CHUNK


def sentence_pair_means(
    encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...], pooling: Pooling
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the mean vectors (P, L, H), in float64, of the sentences of a language and of their
    translations in the pivot. Pairs with a side of which the encoder reads no word are left out.
    """
    table = read_table(inputs.bitext[lang])
    sides = (sentence_chunks(table, side, CHUNK) for side in ("src", "tgt"))
    for src, tgt in zip(*sides, strict=True):
        src_BLH, src_B = sentence_means(encoder, src, lang, layers, pooling)
        tgt_BLH, tgt_B = sentence_means(encoder, tgt, inputs.pivot, layers, pooling)
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
    counts_B = torch.bincount(rows_N[words.present_N], minlength=len(sentences))
    return sums_BLH / counts_B.clamp(min=1)[:, None, None], counts_B > 0
