"""The rows of a bitext or word-pair dataset whose sentences have few enough pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.corpora.text.sentences import read_sentences
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import numpy as np

    from raxalign.encoders.base import Encoder
else:
    np = lazy.load("numpy")

_CHUNK = 4096


def short_rows(table: Any, encoder: Encoder, langs: tuple[str, str], max_pieces: int) -> Any:
    """Return the rows of an Arrow table with at most `max_pieces` pieces on each side, special
    pieces apart.

    Args:
        table: The rows, with the columns ``src`` and ``tgt`` of words.
        encoder: The encoder whose tokenizer makes the pieces.
        langs: The languages of the two columns.
        max_pieces: The largest number of pieces per side; 0 keeps all rows.

    Raises:
        RaxalignError: The encoder is static, so that its words are not made of pieces.
    """
    from raxalign.encoders.models.pieces import bulk_pieces
    from raxalign.encoders.models.transformer import TransformerEncoder

    if not max_pieces:
        return table
    if not isinstance(encoder, TransformerEncoder):
        raise RaxalignError("`max_pieces` requires a transformer encoder; leave it out")
    kept = np.ones(len(table), bool)
    for start in range(0, len(table), _CHUNK):
        part = slice(start, start + _CHUNK)
        for name, lang in zip(("src", "tgt"), langs, strict=True):
            sentences = read_sentences(table.slice(start, _CHUNK), name)
            pieces = bulk_pieces(encoder.tokenizer, sentences, lang)
            kept[part] &= np.array([len(ids) <= max_pieces for ids, *_ in pieces])
    return table.take(np.flatnonzero(kept))
