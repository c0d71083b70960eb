"""Sentences of one or several languages, tokenised once into flat arrays, and rows of them: single
sentences, or pairs.

A pair is one row, `[CLS] a [SEP] b [SEP]`, whose positions run on through both sentences. Rows are
put together batch by batch without a loop over rows, so the order of the two sentences may change
from one step to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.arrays import Flat, end_to_end, offsets_of, ranges
from raxalign.encoders.models.flat_pieces import FlatPieces, column_pieces
from raxalign.encoders.models.vectors import Spoken
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.pairing.aligners.base import Links

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


@dataclass(frozen=True)
class Rows:
    """Rows of pieces, one after the other: row r is the entries ``offsets[r]`` to ``offsets[r +
    1]`` of the flat arrays.

    `ids` are the pieces, special ones included; `words` and `lasts` are the first and the last word
    of each piece in its own sentence (-1: none); `langs` its language, an index into `languages`
    (those of the `Sentences`); `segments` is 1 in the second sentence of a pair and its separator,
    else 0. The k-th sentence of row r (K is 1, or 2 for pairs) has its first piece at the place
    ``first_RK[r, k]`` *of the row* and ``kept_RK[r, k]`` pieces there, which are the first ones of
    the sentence: its last word may have lost some of its own.
    """

    ids: np.ndarray
    words: np.ndarray
    lasts: np.ndarray
    langs: np.ndarray
    segments: np.ndarray
    offsets: np.ndarray
    first_RK: np.ndarray
    kept_RK: np.ndarray
    languages: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def spoken(self) -> Spoken | None:
        """The language of each piece; None where the rows do not name their languages."""
        return Spoken(self.languages, self.langs) if self.languages else None

    @property
    def lengths(self) -> np.ndarray:
        """The pieces of each row, special ones included."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> Rows:
        """Return some of the rows, in the order given."""
        index, _ = ranges(self.offsets, rows)
        flat = (self.ids, self.words, self.lasts, self.langs, self.segments)
        ids, words, lasts, langs, segments = (part[index] for part in flat)
        return Rows(
            ids,
            words,
            lasts,
            langs,
            segments,
            offsets_of(self.lengths[rows]),
            self.first_RK[rows],
            self.kept_RK[rows],
            self.languages,
        )


@dataclass(frozen=True)
class Sentences:
    """Tokenised sentences: the pieces of sentence s, without special ones, are `lengths_S[s]`
    entries of `ids` from `starts_S[s]` on, their first and last words (numbered from 0 in each
    sentence; -1: none) the same entries of `words` and `lasts`, its language
    ``languages[langs_S[s]]``. They are whole; only rows are cut.

    Word w of sentence s is number ``word_starts_S[s] + w``; its pieces are `count_W` adjacent ones
    (0: it has none) from the place `first_W` of the sentence on. The special pieces lie at the
    beginning of `ids`: those before, between and after sentences, as (start, number). Rows have at
    most `max_length` pieces.
    """

    ids: Flat
    words: Flat
    lasts: Flat
    starts_S: np.ndarray
    lengths_S: np.ndarray
    langs_S: np.ndarray
    word_starts_S: np.ndarray
    first_W: Flat
    count_W: Flat
    languages: tuple[str, ...]
    max_length: int
    before: tuple[int, int]
    between: tuple[int, int]
    after_single: tuple[int, int]
    after_pair: tuple[int, int]

    def __len__(self) -> int:
        return len(self.starts_S)

    def pieces(self, sentence: int) -> np.ndarray:
        """Return the pieces of one sentence, without special ones."""
        return self.ids[
            self.starts_S[sentence] : self.starts_S[sentence] + self.lengths_S[sentence]
        ]


def single_rows(sentences: Sentences, numbers: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP]` for each sentence of `numbers`."""
    room = sentences.max_length - sentences.before[1] - sentences.after_single[1]
    kept_R1 = np.minimum(sentences.lengths_S[numbers], max(room, 0))[:, None]
    langs_R1 = sentences.langs_S[numbers][:, None]
    return _laid_out(
        sentences, [sentences.before, sentences.after_single], numbers[:, None], kept_R1, langs_R1
    )


def joint_rows(sentences: Sentences, first: np.ndarray, second: np.ndarray) -> Rows:
    """Return a row `[CLS] a [SEP] b [SEP]` for each pair of sentences `first[r]`, `second[r]`; what
    is too long loses the end of the longer sentence first, as in `TransformerEncoder.pieces`.
    """
    specials = [sentences.before, sentences.between, sentences.after_pair]
    room = max(sentences.max_length - sum(size for _, size in specials), 0)
    numbers_R2 = np.stack([first, second], axis=1)
    return _laid_out(
        sentences,
        specials,
        numbers_R2,
        shares(sentences.lengths_S[numbers_R2], room),
        sentences.langs_S[numbers_R2],
    )


def shares(lengths_R2: np.ndarray, room: int) -> np.ndarray:
    """Return how many pieces the two sentences of each row keep in `room`, (R, 2): the longer one
    is cut first, then both.

    >>> shares(np.array([[10, 3], [10, 9], [9, 10], [2, 3]]), 9).tolist()
    [[6, 3], [5, 4], [4, 5], [2, 3]]
    """
    shorter_R = np.minimum(lengths_R2.min(axis=1), room // 2)
    longer_R = np.minimum(lengths_R2.max(axis=1), room - shorter_R)
    first_shorter_R = lengths_R2[:, 0] <= lengths_R2[:, 1]
    cut_R2 = np.stack(
        [
            np.where(first_shorter_R, shorter_R, longer_R),
            np.where(first_shorter_R, longer_R, shorter_R),
        ],
        axis=1,
    )
    return np.where((lengths_R2.sum(axis=1) <= room)[:, None], lengths_R2, cut_R2)


def _laid_out(
    sentences: Sentences,
    specials: list[tuple[int, int]],
    numbers_RK: np.ndarray,
    kept_RK: np.ndarray,
    langs_RK: np.ndarray,
) -> Rows:
    """Rows of special pieces and sentences in turn; special pieces but the first ones belong to the
    sentence before them.
    """
    n, k = numbers_RK.shape
    parts = 2 * k + 1
    starts_RP, lengths_RP = np.empty((n, parts), np.int64), np.empty((n, parts), np.int64)
    starts_RP[:, 0::2], lengths_RP[:, 0::2] = ([part[i] for part in specials] for i in (0, 1))
    starts_RP[:, 1::2], lengths_RP[:, 1::2] = sentences.starts_S[numbers_RK], kept_RK
    flat = lengths_RP.reshape(-1)
    ends = np.cumsum(flat)
    index = np.arange(int(ends[-1]) if n else 0) + np.repeat(
        starts_RP.reshape(-1) - (ends - flat), flat
    )
    owner_P = np.maximum(np.arange(parts) - 1, 0) // 2
    segments = np.repeat(np.broadcast_to(owner_P, (n, parts)).reshape(-1), flat)
    langs = np.repeat(langs_RK[:, owner_P].reshape(-1), flat)
    first_RK = (np.cumsum(lengths_RP, axis=1) - lengths_RP)[:, 1::2]
    return Rows(
        sentences.ids[index],
        sentences.words[index],
        sentences.lasts[index],
        langs,
        segments,
        offsets_of(lengths_RP.sum(axis=1)),
        first_RK,
        kept_RK,
        sentences.languages,
    )


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
    names = ("starts_S", "lengths_S", "langs_S", "word_starts_S")
    return replace(sentences, **{name: getattr(sentences, name)[numbers] for name in names})


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
            offsets_of(np.concatenate([np.diff(p.word_offsets) for p in self.columns]))[:-1],
            end_to_end([pieces.first_W for pieces in self.columns]),
            end_to_end([pieces.count_W for pieces in self.columns]),
        )
        return Sentences(*flat, self.languages, self.max_length, *specials)
