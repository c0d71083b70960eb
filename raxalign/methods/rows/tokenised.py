"""Bitexts and texts, tokenised once into the flat arrays of `Sentences`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raxalign.errors import DataError
from raxalign.methods.rows.sentences import Sentences

if TYPE_CHECKING:
    from raxalign.encoders.models.pieces import Pieces
    from raxalign.encoders.models.transformer import TransformerEncoder

_CHUNK = 8192


@dataclass(frozen=True)
class Bitexts:
    """Sentence pairs of one or several languages with the pivot, all in one: the sides of pair p
    are the sentences `src_P[p]` and `tgt_P[p]` (the pivot's) of `sentences`. It is row
    `numbers_P[p]` of its own dataset, that of ``sentences.languages[langs_P[p]]``.

    `counts` holds for each language how many pairs were read (`read`) and how many passed the
    length filter (`sentences`).
    """

    sentences: Sentences
    src_P: np.ndarray
    tgt_P: np.ndarray
    langs_P: np.ndarray
    numbers_P: np.ndarray
    counts: dict[str, dict[str, int]]

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
    from raxalign.corpora.text.dataset import read_table

    reader = _Reader(encoder, (*folders, pivot), max_length)
    sides: list[tuple[np.ndarray, np.ndarray]] = []
    langs, numbers, counts = [], [], {}
    for k, (lang, folder) in enumerate(folders.items()):
        table = read_table(folder)
        (src, src_sizes), (tgt, tgt_sizes) = (
            reader.read(table, name, at) for name, at in (("src", k), ("tgt", len(folders)))
        )
        both = src_sizes + tgt_sizes <= (max_pieces or np.inf)
        kept = both & (np.minimum(src_sizes, tgt_sizes) >= min_pieces)
        if not kept.any():
            raise _too_strict(folder, len(table), min_pieces, max_pieces)
        sides.append((src[kept], tgt[kept]))
        langs.append(np.full(int(kept.sum()), k))
        numbers.append(np.flatnonzero(kept))
        counts[lang] = {"sentences": int(kept.sum()), "read": len(table)}
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
    from raxalign.corpora.text.dataset import read_table

    reader = _Reader(encoder, tuple(folders), max_length)
    kept = []
    for k, folder in enumerate(folders.values()):
        table = read_table(folder)
        numbers, sizes = reader.read(table, "words", k)
        if not (sizes >= min_pieces).any():
            raise DataError(
                folder,
                f"none of the {len(table)} sentences has {min_pieces} pieces or more; relax"
                " min_pieces",
            )
        kept.append(numbers[sizes >= min_pieces])
    return chosen(reader.sentences(), np.concatenate(kept))


def chosen(sentences: Sentences, numbers: np.ndarray) -> Sentences:
    """Return the sentences of these numbers, in this order; the pieces themselves are shared."""
    parts = (part[numbers] for part in (sentences.starts_S, sentences.lengths_S, sentences.langs_S))
    return replace(sentences, **dict(zip(("starts_S", "lengths_S", "langs_S"), parts, strict=True)))


class _Reader:
    """Tokenises columns of sentences into one flat array, which begins with the special pieces."""

    def __init__(
        self, encoder: TransformerEncoder, languages: tuple[str, ...], max_length: int
    ) -> None:
        from raxalign.encoders.models.pieces import bulk_pieces, read_template

        template = read_template(encoder.tokenizer)
        self.specials = [
            template.before,
            template.between,
            template.after_single,
            template.after_pair,
        ]
        self.languages, self.max_length = languages, min(max_length, encoder.max_positions)
        self.ids = [np.array([i for part in self.specials for i in part], np.int32)]
        none = np.full(sum(map(len, self.specials)), -1, np.int32)
        self.words, self.lasts = [none], [none]
        self.lengths: list[np.ndarray] = []
        self.langs: list[np.ndarray] = []
        self.n = 0
        self.pieces: Callable[[Any, str], Iterator[Pieces]] = lambda part, lang: bulk_pieces(
            encoder.tokenizer, part, lang
        )

    def read(self, table: Any, column: str, lang: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokenise an Arrow column of sentences: (the number of each sentence, how many pieces it
        has).
        """
        from raxalign.corpora.text.sentences import sentence_chunks

        before, sizes = self.n, [np.zeros(0, np.int64)]
        for part in sentence_chunks(table, column, _CHUNK):
            found = list(self.pieces(part, self.languages[lang]))
            self.ids.append(np.concatenate([pieces.ids for pieces in found]))
            self.words.append(np.concatenate([pieces.words for pieces in found]))
            self.lasts.append(np.concatenate([pieces.lasts for pieces in found]))
            sizes.append(np.array([len(pieces.ids) for pieces in found], np.int64))
        self.lengths += sizes
        self.langs.append(np.full(len(table), lang))
        self.n += len(table)
        return np.arange(before, self.n), np.concatenate(sizes)

    def sentences(self) -> Sentences:
        """Return all that was read."""
        sizes = [len(part) for part in self.specials]
        specials = [(sum(sizes[:i]), size) for i, size in enumerate(sizes)]
        lengths_S = np.concatenate(self.lengths)
        starts_S = sum(sizes) + np.cumsum(lengths_S) - lengths_S
        flat = (
            np.concatenate(self.ids),
            np.concatenate(self.words),
            np.concatenate(self.lasts),
            starts_S,
            lengths_S,
            np.concatenate(self.langs),
        )
        return Sentences(*flat, self.languages, self.max_length, *specials)
