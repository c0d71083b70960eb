"""The two sides of held-out sentence pairs as pieces: what is translated, what is the reference,
and which pieces a language has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import PieceRow, bulk_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.translation.sentences import SentencePairs


@dataclass(frozen=True)
class Side:
    """The sentences of one language that are translated.

    Attributes:
        lang: the language.
        ids: the number of each sentence pair (S,).
        units: the hash of each pair's pivot sentence (S,).
        rows: the sentences as the encoder reads them.
        pieces: the sentences whole and without special pieces.
        vocabulary: the pieces of all sentences of the side, translated or not; special pieces count
            as every language's.
        words: the sentences in words.
        truncated: the number of rows that are cut.
        premises: the hash of each pair's premise (S,), where pairs of one premise are not
            independent.
    """

    lang: str
    ids: npt.NDArray[np.int64]
    units: npt.NDArray[np.int64]
    rows: Sequence[PieceRow]
    pieces: Sequence[npt.NDArray[np.int64]]
    vocabulary: frozenset[int]
    words: Sequence[Sequence[str]]
    truncated: int
    premises: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Way:
    """One direction of translation in one split: the side that is translated, and the one that is
    its reference.
    """

    source: Side
    target: Side


def read_sides(
    stream: AlignedEncoder,
    pairs: SentencePairs,
    languages: tuple[str, str],
    limit: int | None = None,
) -> tuple[Side, Side]:
    """Make both sides of sentence pairs, the other language's and the pivot's.

    Args:
        stream: the encoder.
        pairs: the sentence pairs.
        languages: the other language and the pivot.
        limit: the number of sentences to translate, from the first on (None: all).
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    src, tgt = (
        _side(encoder, pairs, sentences, lang, limit)
        for sentences, lang in zip((pairs.src, pairs.tgt), languages, strict=True)
    )
    return src, tgt


def _side(
    encoder: TransformerEncoder,
    pairs: SentencePairs,
    sentences: Sequence[Sequence[str]],
    lang: str,
    limit: int | None,
) -> Side:
    """Make the side of all `sentences`, of which the first `limit` are translated."""
    read = bulk_pieces(encoder.tokenizer, sentences, lang)
    whole = [found.ids.astype(np.int64) for found in read]
    vocabulary = frozenset(np.unique(np.concatenate(whole)).tolist() if whole else ()) | frozenset(
        encoder.tokenizer.all_special_ids
    )
    words, pieces = sentences[:limit], whole[:limit]
    rows = encoder.pieces(words, lang)
    around = len(encoder.pieces([[]], lang)[0])
    truncated = sum(len(row) - around < len(own) for row, own in zip(rows, pieces, strict=True))
    premises = None if pairs.premises is None else pairs.premises[:limit]
    return Side(
        lang,
        pairs.ids[:limit],
        pairs.units[:limit],
        rows,
        pieces,
        vocabulary,
        words,
        truncated,
        premises,
    )
