"""Bitexts and texts, tokenised once into the flat arrays of `Sentences`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from raxalign.arrays import end_to_end
from raxalign.encoders.models.flat_pieces import FlatPieces, column_pieces
from raxalign.errors import DataError
from raxalign.methods.rows.sentences import Sentences
from raxalign.pairing.aligners.base import Links

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


@dataclass(frozen=True)
class Bitexts:
    """Sentence pairs of one or several languages with the pivot, all in one: the sides of pair p
    are the sentences `src_P[p]` and `tgt_P[p]` (the pivot's) of `sentences`. It is row
    `numbers_P[p]` of its own dataset, that of ``sentences.languages[langs_P[p]]``.

    `counts` holds for each language how many pairs were read (`read`) and how many passed the
    length filter (`sentences`). `links` are those of the pieces of each pair, where they were read
    (`with_piece_links`).
    """

    sentences: Sentences
    src_P: np.ndarray
    tgt_P: np.ndarray
    langs_P: np.ndarray
    numbers_P: np.ndarray
    counts: dict[str, dict[str, int]]
    links: Links = field(default_factory=lambda: Links.of([]))

    def __len__(self) -> int:
        return len(self.src_P)


def read_bitexts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    pivot: str,
    max_length: int,
    *,
    min_pieces: int = 1,
    max_pieces: int | None = None,
) -> Bitexts:
    """Tokenise bitext (or word-pair) datasets, language -> folder in the order of the result.

    Rows of them have at most `max_length` pieces. Pairs with a side of less than `min_pieces`
    pieces, or with more than `max_pieces` on both sides together, are left out; special pieces do
    not count (Pan et al. 2021: 10 and 128). Raises `DataError` for a language without a pair left.
    """
    reader = _Reader(encoder, (*folders, pivot), max_length)
    sides: list[tuple[np.ndarray, np.ndarray]] = []
    langs, numbers, counts = [], [], {}
    for k, (lang, folder) in enumerate(folders.items()):
        (src, src_sizes), (tgt, tgt_sizes) = (
            reader.read(folder, name, at) for name, at in (("src", k), ("tgt", len(folders)))
        )
        both = src_sizes + tgt_sizes <= (max_pieces or np.inf)
        kept = both & (np.minimum(src_sizes, tgt_sizes) >= min_pieces)
        if not kept.any():
            raise _too_strict(folder, len(src), min_pieces, max_pieces)
        sides.append((src[kept], tgt[kept]))
        langs.append(np.full(int(kept.sum()), k))
        numbers.append(np.flatnonzero(kept))
        counts[lang] = {"sentences": int(kept.sum()), "read": len(src)}
    src_P, tgt_P = (np.concatenate([side[i] for side in sides]) for i in (0, 1))
    known = (src_P, tgt_P, np.concatenate(langs), np.concatenate(numbers))
    return Bitexts(reader.sentences(), *known, counts)


def _too_strict(folder: Path, n_pairs: int, min_pieces: int, max_pieces: int | None) -> DataError:
    """No sentence pair of a dataset has an allowed length."""
    least = f"{min_pieces} pieces or more on each side"
    limits = least if max_pieces is None else f"{least} and {max_pieces} or less on both together"
    return DataError(
        folder,
        f"none of the {n_pairs} sentence pairs has {limits}; relax min_pieces or max_pieces",
    )


def read_texts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    max_length: int,
    *,
    min_pieces: int = 1,
) -> Sentences:
    """Tokenise text datasets (column ``words``).

    Args:
        encoder: The encoder whose tokenizer makes the pieces.
        folders: Language -> the folder of its text.
        max_length: The largest number of pieces of a sentence, special ones included.
        min_pieces: Sentences of fewer pieces are left out.

    Raises:
        DataError: A language has no sentence left.
    """
    reader = _Reader(encoder, tuple(folders), max_length)
    kept = []
    for k, folder in enumerate(folders.values()):
        numbers, sizes = reader.read(folder, "words", k)
        if not (sizes >= min_pieces).any():
            raise DataError(
                folder,
                f"none of the {len(numbers)} sentences has {min_pieces} pieces or more; relax"
                " min_pieces",
            )
        kept.append(numbers[sizes >= min_pieces])
    return chosen(reader.sentences(), np.concatenate(kept))


def chosen(sentences: Sentences, numbers: np.ndarray) -> Sentences:
    """Return the sentences of these numbers, in this order; the pieces themselves are shared."""
    parts = (part[numbers] for part in (sentences.starts_S, sentences.lengths_S, sentences.langs_S))
    return replace(sentences, **dict(zip(("starts_S", "lengths_S", "langs_S"), parts, strict=True)))


class _Reader:
    """Reads the pieces of columns of sentences; all of them lie end to end, behind the special
    pieces.
    """

    def __init__(
        self, encoder: TransformerEncoder, languages: tuple[str, ...], max_length: int
    ) -> None:
        from raxalign.encoders.models.pieces import read_template

        template = read_template(encoder.tokenizer)
        self.specials = [
            template.before,
            template.between,
            template.after_single,
            template.after_pair,
        ]
        self.encoder, self.languages = encoder, languages
        self.max_length = min(max_length, encoder.max_positions)
        self.columns: list[FlatPieces] = []
        self.langs: list[np.ndarray] = []
        self.n = 0

    def read(self, folder: Path, column: str, lang: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a column of the sentences of a dataset: (the number of each sentence, how many
        pieces it has).
        """
        pieces, before = column_pieces(self.encoder, folder, column, self.languages[lang]), self.n
        self.columns.append(pieces)
        self.langs.append(np.full(len(pieces), lang))
        self.n += len(pieces)
        return np.arange(before, self.n), pieces.lengths

    def sentences(self) -> Sentences:
        """Return all that was read."""
        sizes = [len(part) for part in self.specials]
        specials = [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]
        lengths_S = np.concatenate([pieces.lengths for pieces in self.columns])
        starts_S = sum(sizes) + np.cumsum(lengths_S) - lengths_S
        ids = np.array([i for part in self.specials for i in part], np.int32)
        none = np.full(sum(sizes), -1, np.int32)
        flat = (
            end_to_end([ids, *(pieces.ids for pieces in self.columns)]),
            end_to_end([none, *(pieces.words for pieces in self.columns)]),
            end_to_end([none, *(pieces.lasts for pieces in self.columns)]),
            starts_S,
            lengths_S,
            np.concatenate(self.langs),
        )
        return Sentences(*flat, self.languages, self.max_length, *specials)
