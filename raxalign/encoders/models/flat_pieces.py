"""The pieces of many sentences in flat arrays: made from text, or mapped from files that were made
once for all that read the same text by the same tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.arrays import Flat, end_to_end, offsets_of, word_pieces
from raxalign.caveats import listener
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from raxalign.encoders.models.pieces import Pieces
    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    np = lazy.load("numpy")

CHUNK = 8192
"""Sentences that are tokenised at once."""

ARRAYS = ("ids", "offsets", "words", "lasts", "word_offsets", "first_W", "count_W")
"""The fields of `FlatPieces` that are arrays, and the names of their files."""
_RECORD = "pieces.json"


@dataclass(frozen=True)
class FlatPieces:
    """The pieces of some sentences, none of them special. Those of sentence s are the entries
    ``offsets[s]`` to ``offsets[s + 1]`` of `ids`; the same entries of `words` and `lasts` are the
    first and the last word of each (see `Pieces`).

    Word w of sentence s has the number ``word_offsets[s] + w``. Its pieces are `count_W` adjacent
    ones (0: it has none) from the place `first_W` of the sentence on. Neighbours may share a piece.
    `unknown` counts the tokenizer's unknown piece (None: it has no such piece).

    The arrays of mapped files are read-only, except `count_W`: what is written there is not
    written to the file.
    """

    ids: Flat
    offsets: np.ndarray
    words: Flat
    lasts: Flat
    word_offsets: np.ndarray
    first_W: Flat
    count_W: Flat
    unknown: int | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of pieces of each sentence."""
        return np.diff(self.offsets)

    @classmethod
    def join(cls, parts: Sequence[FlatPieces]) -> FlatPieces:
        """Return the sentences of all parts, one part after the other. The counts of unknown pieces
        are left out.
        """
        if len(parts) == 1:
            return parts[0]
        ids, words, lasts, first_W, count_W = (
            end_to_end([getattr(part, name) for part in parts])
            for name in ("ids", "words", "lasts", "first_W", "count_W")
        )
        offsets, word_offsets = (
            offsets_of(np.concatenate([np.diff(getattr(part, name)) for part in parts]))
            for name in ("offsets", "word_offsets")
        )
        return cls(ids, offsets, words, lasts, word_offsets, first_W, count_W)


def column_pieces(
    encoder: TransformerEncoder,
    folder: Path,
    column: str,
    lang: str | None,
    counted: str | None = None,
) -> FlatPieces:
    """Return the pieces of a column of sentences of a dataset: mapped where they were made before
    (`TransformerEncoder.prepared`), else made now.

    Args:
        encoder: The encoder whose tokenizer makes the pieces.
        folder: The folder of the dataset.
        column: The column of words.
        lang: The language of the sentences (None: a spaced one).
        counted: The name under which unknown pieces are counted (None: the language).

    Raises:
        DataError: What was made before is of other sentences.
    """
    table, made = read_table(folder), encoder.prepared.get(folder)
    found = None if made is None else map_pieces(made / column, lang)
    if found is None:
        chunks = sentence_chunks(table, column, CHUNK)
        return flat_pieces(encoder.tokenizer, chunks, lang, counted)
    if (len(found), len(found.first_W)) != (len(table), _count_words(table, column)):
        raise DataError(
            f"{made}/{column}",
            f"has the pieces of other sentences than {folder}",
            remedy="Remove both folders, and run the grid again to make them",
        )
    heard, name = listener(), counted or lang
    if heard is not None and name is not None and found.unknown is not None:
        heard.read(name, len(found.ids), found.unknown)
    return found


def _count_words(table: Any, column: str) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.list_value_length(table.column(column))).as_py() or 0)


def flat_pieces(
    tokenizer: Any,
    chunks: Iterable[Sequence[Sequence[str]]],
    lang: str | None,
    counted: str | None = None,
) -> FlatPieces:
    """Return the pieces of sentences that are given some at a time; see `bulk_pieces` for the
    arguments.
    """
    from raxalign.encoders.models.pieces import bulk_pieces

    none, parts = np.zeros(0, np.int32), []
    for sentences in chunks:
        pieces = list(bulk_pieces(tokenizer, sentences, lang, counted))
        sizes = np.array([len(sentence) for sentence in sentences], np.int64)
        lengths = np.array([len(row.ids) for row in pieces], np.int64)
        flat = [np.concatenate([none, *(row[i] for row in pieces)]) for i in range(3)]
        parts.append((*flat, lengths, sizes, *word_spans(pieces, sizes)))
    if not parts:
        parts.append((none, none, none, none, none, none, none))
    ids, words, lasts, lengths, sizes, first_W, count_W = map(
        np.concatenate, zip(*parts, strict=True)
    )
    unknown = tokenizer.unk_token_id
    return FlatPieces(
        ids,
        offsets_of(lengths),
        words,
        lasts,
        offsets_of(sizes),
        first_W,
        count_W,
        None if unknown is None else int((ids == unknown).sum()),
    )


def word_spans(pieces: Sequence[Pieces], sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (place of the first piece in its sentence, number of pieces) of all words of some
    sentences, int32; `sizes` are the numbers of their words.
    """
    none = np.zeros(0, np.int32)
    lengths = np.array([len(row.ids) for row in pieces], np.int64)
    firsts, lasts = (np.concatenate([none, *(row[i] for row in pieces)]) for i in (1, 2))
    read, words = word_pieces(firsts, lasts)
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    number = words + np.repeat(np.cumsum(sizes) - sizes, lengths)[read]
    found, where, counts = np.unique(number, return_index=True, return_counts=True)
    first, count = np.zeros((2, int(sizes.sum())), np.int32)
    first[found], count[found] = place[read[where]], counts
    return first, count


def map_pieces(folder: Path, lang: str | None) -> FlatPieces | None:
    """Return pieces that `write_record` completed, their files mapped; None where they are not
    there or are those of another language.
    """
    record = read_record(folder)
    if record is None or record["lang"] != lang:
        return None
    arrays = {name: map_array(folder, name) for name in ARRAYS}
    return FlatPieces(**arrays, unknown=record["unknown"])


def map_array(folder: Path, name: str) -> np.ndarray:
    """Return an array of a file, mapped. Where no two words share a piece, `lasts` has no file of
    its own.
    """
    path = folder / f"{name}.npy"
    if name == "lasts" and not path.exists():
        path = folder / "words.npy"
    try:
        return np.asarray(np.load(path, mmap_mode="c" if name == "count_W" else "r"))
    except ValueError:  # a file without an entry cannot be mapped
        return np.asarray(np.load(path))


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record that `write_record` wrote; None where there is none."""
    file = folder / _RECORD
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def write_record(folder: Path, lang: str | None, unknown: int | None) -> Mapping[str, object]:
    """Complete a folder of arrays (`ARRAYS`) by the record that `map_pieces` reads; return it."""
    record = {"lang": lang, "unknown": unknown}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    return record
