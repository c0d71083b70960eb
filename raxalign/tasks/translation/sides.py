"""The two sides of held-out sentence pairs as pieces: what is translated, what is the reference,
and which pieces a language has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import PieceRow, bulk_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.transfer.fingerprints import unit


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
        truncated: the number of rows that are cut.
    """

    lang: str
    ids: npt.NDArray[np.int64]
    units: npt.NDArray[np.int64]
    rows: Sequence[PieceRow]
    pieces: Sequence[npt.NDArray[np.int64]]
    vocabulary: frozenset[int]
    truncated: int


@dataclass(frozen=True)
class Way:
    """One direction of translation in one split: the side that is translated, and the one that is
    its reference.
    """

    source: Side
    target: Side


def read_sides(
    stream: AlignedEncoder, folder: Path, languages: tuple[str, str], limit: int | None = None
) -> tuple[Side, Side]:
    """Read both sides of a dataset of sentence pairs, the other language's and the pivot's.

    Args:
        stream: the encoder.
        folder: the dataset.
        languages: the other language and the pivot.
        limit: the number of sentences to translate, from the first on (None: all).
    """
    encoder, table = stream.encoder, read_table(folder)
    assert isinstance(encoder, TransformerEncoder)
    ids, pivot = np.asarray(table["id"], dtype=np.int64)[:limit], table["tgt"].to_pylist()
    units = np.array([unit(sentence) for sentence in pivot[: len(ids)]], dtype=np.int64)
    src, tgt = (
        _side(encoder, ids, units, sentences, lang)
        for sentences, lang in zip((table["src"].to_pylist(), pivot), languages, strict=True)
    )
    return src, tgt


def _side(
    encoder: TransformerEncoder,
    ids: npt.NDArray[np.int64],
    units: npt.NDArray[np.int64],
    sentences: Sequence[Sequence[str]],
    lang: str,
) -> Side:
    """Make the side of all `sentences`, of which the first are translated, one per entry of
    `ids`.
    """
    whole = [found.astype(np.int64) for found, _ in bulk_pieces(encoder.tokenizer, sentences, lang)]
    vocabulary = frozenset(np.unique(np.concatenate(whole)).tolist() if whole else ()) | frozenset(
        encoder.tokenizer.all_special_ids
    )
    rows, pieces = encoder.pieces(sentences[: len(ids)], lang), whole[: len(ids)]
    around = len(encoder.pieces([[]], lang)[0])
    truncated = sum(len(row) - around < len(own) for row, own in zip(rows, pieces, strict=True))
    return Side(lang, ids, units, rows, pieces, vocabulary, truncated)
