"""Text and bitext datasets as sentences that are tokenised once, for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from raxalign.arrays import offsets_of, ranges
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import RowSource, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.lazy import np, pa, pc
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.schema import links_of, read_pairs


@dataclass(frozen=True)
class Bitexts:
    """Sentence pairs of one or several languages with the pivot, all in one: the sides of pair p
    are the sentences `src_P[p]` and `tgt_P[p]` (the pivot's) of `sentences`. It is row
    `numbers_P[p]` of its own dataset, that of ``sentences.languages[langs_P[p]]``.

    `counts` holds for each language how many pairs were read (`read`) and how many passed the
    length filter (`sentences`). `links` are those of the words of each pair, or of their pieces
    (`with_piece_links`), where they were read; `types` are numbers of texts, of each word or of
    each sentence (`read_word_rows`, `read_sentence_rows`); `dropped` counts links of words that are
    spelt the same.
    """

    sentences: Sentences
    src_P: np.ndarray
    tgt_P: np.ndarray
    langs_P: np.ndarray
    numbers_P: np.ndarray
    counts: dict[str, dict[str, int]]
    links: Links = field(default_factory=lambda: Links.of([]))
    types: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.src_P)

    def sides(self, rows: np.ndarray) -> np.ndarray:
        """Return the sentences of some pairs: all first sides, then the pivot's."""
        return np.concatenate([self.src_P[rows], self.tgt_P[rows]])

    def linked(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the word links of some pairs: (the place in `rows` of the pair of each, the number
        of its word, and that of the pivot's).
        """
        link, owners = ranges(self.links.offsets, rows)
        starts = self.sentences.word_offsets
        src, tgt = (
            starts[numbers[rows][owners]] + positions[link]
            for numbers, positions in ((self.src_P, self.links.src), (self.tgt_P, self.links.tgt))
        )
        return owners, src, tgt


def read_bitexts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    pivot: str,
    max_length: int,
    allowed: tuple[int, int | None] = (1, None),
    *,
    alone: bool = False,
) -> Bitexts:
    """Tokenise bitext (or word-pair) datasets, language -> folder in the order of the result.

    Rows of them have at most `max_length` pieces. Pairs are left out with a side of less than
    `allowed[0]` pieces, or with more than `allowed[1]` on both sides together; special pieces do
    not count (Pan et al. 2021: 10 and 128). With `alone` sentences are rows of their own: a word
    that loses a piece there has none. Raises `DataError` for a language without a pair left.
    """
    columns: list[Pieces] = []
    src, tgt, kept, counts, start = [], [], [], {}, 0
    for lang, folder in folders.items():
        counted = f"{lang}-{pivot}" if alone else None
        for name, code in (("src", lang), ("tgt", pivot)):
            columns.append(Pieces.of_column(encoder, folder, name, code, counted))
        kept.append(_allowed(folder, columns[-2], columns[-1], allowed))
        n = len(columns[-1])
        src.append(start + kept[-1])
        tgt.append(start + n + kept[-1])
        counts[lang] = {"sentences": len(kept[-1]), "read": n}
        start += 2 * n
    langs = [code for k in range(len(folders)) for code in (k, len(folders))]
    sentences = Sentences.of(encoder, columns, langs, (*folders, pivot), max_length, alone=alone)
    langs_P = np.repeat(np.arange(len(kept)), list(map(len, kept)))
    src_P, tgt_P, numbers_P = map(np.concatenate, (src, tgt, kept))
    both = np.concatenate([src_P, tgt_P]) if alone else np.stack([src_P, tgt_P], 1)
    sentences.report_cut(both)
    return Bitexts(sentences, src_P, tgt_P, langs_P, numbers_P, counts)


def _allowed(folder: Path, src: Pieces, tgt: Pieces, allowed: tuple[int, int | None]) -> np.ndarray:
    """The numbers of the pairs of an allowed length. Raises `DataError` where there is none."""
    if not len(src):
        raise DataError(folder, "the dataset has no sentence pairs")
    sizes_2S, (least, most) = np.stack([src.lengths, tgt.lengths]), allowed
    short = sizes_2S.sum(axis=0) <= (most or np.inf)
    kept = np.flatnonzero(short & (sizes_2S.min(axis=0) >= least))
    if not len(kept):
        limits = f"{least} pieces or more on each side"
        limits += "" if most is None else f" and {most} or less on both together"
        raise DataError(
            folder,
            f"none of the {len(src)} sentence pairs has {limits}; relax min_pieces or max_pieces",
        )
    return kept


def read_texts(
    encoder: TransformerEncoder,
    folders: Mapping[str, Path],
    max_length: int,
    *,
    min_pieces: int = 1,
) -> RowSource:
    """Tokenise text datasets (column ``words``), language -> folder; sentences of fewer than
    `min_pieces` pieces are not trained on. Raises `DataError` for a language without any other.
    """
    columns = [Pieces.of_column(encoder, folder, "words", lang) for lang, folder in folders.items()]
    for folder, pieces in zip(folders.values(), columns, strict=True):
        if not (pieces.lengths >= min_pieces).any():
            raise DataError(
                folder,
                f"none of the {len(pieces)} sentences has {min_pieces} pieces or more; relax"
                " min_pieces",
            )
    langs = range(len(columns))
    sentences = Sentences.of(encoder, columns, langs, tuple(folders), max_length)
    numbers_R = np.flatnonzero(sentences.lengths_S >= min_pieces)
    sentences.report_cut(numbers_R)
    return RowSource(sentences, numbers_R)


def tokenise(
    encoder: TransformerEncoder,
    chunks: Iterable[Sequence[Sequence[str]]],
    max_length: int,
    lang: str | None = None,
) -> Sentences:
    """Return sentences, given as lists of some, that are rows of their own, of at most `max_length`
    pieces. `lang` is their language (None: a spaced one).
    """
    pieces = Pieces.read(encoder.tokenizer, chunks, lang)
    languages = () if lang is None else (lang,)
    return Sentences.of(encoder, [pieces], [0], languages, max_length, alone=True)


_CHUNK = 8192
_LINKED = 100_000  # sentence pairs whose links are looked up at once


def read_linked_rows(
    encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
) -> Bitexts:
    """Return word-pair datasets, language -> folder, with the links of words that were both read.
    Rows have at most `max_length` pieces, or what the encoder's positions allow. Raises `DataError`
    where a dataset has no rows.
    """
    bitexts = read_bitexts(encoder, folders, pivot, max_length, (0, None), alone=True)
    links = Links.join([links_of(read_pairs(folder)) for folder in folders.values()])
    bitexts, found, count_W = replace(bitexts, links=links), [], bitexts.sentences.count_W
    for start in range(0, len(bitexts), _LINKED):
        rows = np.arange(start, min(start + _LINKED, len(bitexts)))
        _, src, tgt = bitexts.linked(rows)
        part = links.part(start, start + len(rows))
        found.append(part.where((count_W[src] > 0) & (count_W[tgt] > 0)))
    return replace(bitexts, links=Links.join(found))


def read_word_rows(
    encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
) -> Bitexts:
    """Return word-pair datasets with a type for each word (of a language), without the links of
    words that are spelt the same. Raises `DataError` where there is no link to learn from.
    """
    bitexts = read_linked_rows(encoder, folders, pivot, max_length)
    types, size = _types(folders, lambda path, side: pc.list_flatten(read_pairs(path).column(side)))
    _, src, tgt = bitexts.linked(np.arange(len(bitexts)))
    kept = types[src] % size != types[tgt]
    if not kept.any():
        raise DataError(
            next(iter(folders.values())),
            f"has no word pair to learn from ({len(kept)} were dropped: their words are spelt the"
            " same)",
        )
    links, dropped = bitexts.links.where(kept), len(kept) - int(kept.sum())
    return replace(bitexts, links=links, types=types, dropped=dropped)


def read_sentence_rows(
    encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
) -> Bitexts:
    """Return bitexts with a type per sentence. Raises `DataError` where one has no rows."""
    bitexts = read_bitexts(encoder, folders, pivot, max_length, (0, None), alone=True)
    types, _ = _types(
        folders, lambda path, side: pc.binary_join(read_table(path).column(side), " ")
    )
    return replace(bitexts, types=types)


def _types(
    folders: Mapping[str, Path], texts: Callable[[Path, str], pa.ChunkedArray]
) -> tuple[np.ndarray, int]:
    """Return a number for each text of some datasets, in the order of `read_bitexts`: the same for
    the same text of a language. It is that of the text in any language, modulo the second number.
    """
    columns = [texts(folder, side) for side in ("tgt", "src") for folder in folders.values()]
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, columns[0].type).dictionary_encode()
    numbers = np.concatenate(
        [np.zeros(0, np.int64), *(np.asarray(chunk.indices) for chunk in encoded.chunks)]
    )
    size = 1 + int(numbers.max(initial=0))
    parts = np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])
    tgt, src = parts[: len(folders)], parts[len(folders) :]
    own = [part + (k + 1) * size for k, part in enumerate(src)]
    return np.concatenate([part for both in zip(own, tgt, strict=True) for part in both]), size


def piece_links(
    first_src: np.ndarray, n_src: np.ndarray, first_tgt: np.ndarray, n_tgt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links of words as links of their pieces: (place of the one, place of the other, number of the
    word link).

    Word link l joins the `n_src[l]` pieces from `first_src[l]` on with the `n_tgt[l]` pieces from
    `first_tgt[l]` on: the i-th with the i-th, and what the longer word has more of with the last
    piece of the shorter one.

    >>> links = piece_links(np.array([1]), np.array([3]), np.array([7]), np.array([2]))
    >>> [part.tolist() for part in links]
    [[1, 2, 3], [7, 8, 8], [0, 0, 0]]
    """
    longer = np.maximum(n_src, n_tgt)
    owners = np.repeat(np.arange(len(longer)), longer)
    i = np.arange(len(owners)) - np.repeat(np.cumsum(longer) - longer, longer)
    return (
        first_src[owners] + np.minimum(i, n_src[owners] - 1),
        first_tgt[owners] + np.minimum(i, n_tgt[owners] - 1),
        owners,
    )


@dataclass(frozen=True)
class Partners:
    """The exchange matrix A without its zeros: piece p of the flat rows is linked with the places
    ``places[offsets[p]:offsets[p + 1]]`` of its row.

    A is symmetric, and has no links within a sentence.
    """

    offsets: np.ndarray
    places: np.ndarray

    @classmethod
    def of(
        cls, starts_P: np.ndarray, left_P: np.ndarray, right_P: np.ndarray, n_pieces: int
    ) -> Partners:
        """From links of places in rows that begin at `starts_P`, each link once."""
        here = np.concatenate([starts_P + left_P, starts_P + right_P])
        there = np.concatenate([right_P, left_P])
        width = int(there.max(initial=0)) + 1
        codes = np.unique(here.astype(np.int64) * width + there)
        counts = np.bincount(codes // width, minlength=n_pieces)
        return cls(offsets_of(counts), (codes % width).astype(np.int32))

    def linked(self, pieces: np.ndarray) -> np.ndarray:
        """Return whether each of some pieces has a partner."""
        return np.asarray(self.offsets[pieces + 1] > self.offsets[pieces])

    def of_pieces(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the partners of some pieces: (their places in their rows, the place in `pieces` of
        the piece that each belongs to).
        """
        entries, owners = ranges(self.offsets, pieces)
        return self.places[entries].astype(np.int64), owners


def with_piece_links(bitexts: Bitexts, folders: Mapping[str, Path]) -> Bitexts:
    """Return bitexts with the links of their datasets, language -> folder as in `read_bitexts`, as
    links of places in the rows `[CLS] tgt [SEP] src [SEP]` (the pivot first): their `src` are
    places of the pivot's pieces, their `tgt` of the other language's.

    Links of words that were not read whole are left out.
    """
    parts = [
        links_of(read_pairs(folder)).take(bitexts.numbers_P[bitexts.langs_P == k])
        for k, folder in enumerate(folders.values())
    ]
    words, found = Links.join(parts), []
    for start in range(0, len(bitexts), _CHUNK):
        stop = min(start + _CHUNK, len(bitexts))
        numbers_R2 = np.stack([bitexts.tgt_P[start:stop], bitexts.src_P[start:stop]], axis=1)
        part = words.part(start, stop)
        found.append(expand(bitexts.sentences, numbers_R2, Links(part.offsets, part.tgt, part.src)))
    return replace(bitexts, links=Links.join(found))


def expand(sentences: Sentences, numbers_R2: np.ndarray, links: Links) -> Links:
    """Return the word links of some sentence pairs, from first to second sentences, as links of
    places in their joint rows; those of words that lost a piece are left out.
    """
    rows, owners = sentences.joint_rows(numbers_R2[:, 0], numbers_R2[:, 1]), links.rows()
    places, counts = [], []
    both = np.ones(len(owners), bool)
    for k, positions in enumerate((links.src, links.tgt)):
        words = sentences.word_offsets[numbers_R2[owners, k]] + positions
        first, count = (
            part[words].astype(np.int64) for part in (sentences.first_W, sentences.count_W)
        )
        both &= (count > 0) & (first + count <= rows.kept_RK[owners, k])
        places.append(rows.first_RK[owners, k] + first)
        counts.append(count)
    left, right, link = piece_links(
        places[0][both], counts[0][both], places[1][both], counts[1][both]
    )
    offsets = offsets_of(np.bincount(owners[both][link], minlength=len(rows)))
    return Links(offsets, left.astype(np.int32), right.astype(np.int32))
