"""Text and bitext datasets as sentences that are tokenised once, for training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from raxalign.arrays import ranges
from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.rows import RowSource, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import SentencePooling, Spans
from raxalign.errors import DataError
from raxalign.lazy import np, pa, pc, torch
from raxalign.pairing.build import WordPairs
from raxalign.pairing.links import Links


@dataclass(frozen=True)
class Bitexts:
    """Sentence pairs of one or several languages with the pivot, all in one: the sides of pair p
    are the sentences `src_P[p]` and `tgt_P[p]` (the pivot's) of `sentences`. It is row
    `numbers_P[p]` of its own dataset, that of ``sentences.languages[langs_P[p]]``.

    `counts` holds for each language how many pairs were read (`read`) and how many passed the
    length filter (`sentences`). `links` are those of the words of each pair, or of their pieces
    (`weam`), where they were read; `types` are numbers of texts, of each word or of
    each sentence (`read_words`, `read_sentences`); `dropped` counts links of words that are
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

    @classmethod
    def read(
        cls,
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
        `allowed[0]` pieces, or with more than `allowed[1]` on both sides together; special pieces
        do not count (Pan et al. 2021: 10 and 128). With `alone` sentences are rows of their own: a
        word that loses a piece there has none. Raises `DataError` for a language without a pair
        left.
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
            _report_left(f"sentence pairs of {lang}-{pivot}", n, len(kept[-1]))
            start += 2 * n
        langs = [code for k in range(len(folders)) for code in (k, len(folders))]
        sentences = Sentences.of(
            encoder, columns, langs, (*folders, pivot), max_length, alone=alone
        )
        langs_P = np.repeat(np.arange(len(kept)), list(map(len, kept)))
        src_P, tgt_P, numbers_P = map(np.concatenate, (src, tgt, kept))
        both = np.concatenate([src_P, tgt_P]) if alone else np.stack([src_P, tgt_P], 1)
        sentences.report_cut(both)
        return cls(sentences, src_P, tgt_P, langs_P, numbers_P, counts)

    @classmethod
    def read_linked(
        cls, encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
    ) -> Bitexts:
        """Return word-pair datasets, language -> folder, with the links of words that were both
        read. Rows have at most `max_length` pieces, or what the encoder's positions allow. Raises
        `DataError` where a dataset has no rows.
        """
        bitexts = cls.read(encoder, folders, pivot, max_length, (0, None), alone=True)
        links = Links.join([WordPairs.read(folder).links for folder in folders.values()])
        bitexts, found, count_W = replace(bitexts, links=links), [], bitexts.sentences.count_W
        for start in range(0, len(bitexts), _LINKED):
            rows = np.arange(start, min(start + _LINKED, len(bitexts)))
            _, src, tgt = bitexts.linked(rows)
            part = links.part(start, start + len(rows))
            found.append(part.where((count_W[src] > 0) & (count_W[tgt] > 0)))
        return replace(bitexts, links=Links.join(found))

    @classmethod
    def read_words(
        cls, encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
    ) -> Bitexts:
        """Return word-pair datasets with a type for each word (of a language), without the links of
        words that are spelt the same. Raises `DataError` where there is no link to learn from.
        """
        bitexts = cls.read_linked(encoder, folders, pivot, max_length)
        types, size = _types(
            folders, lambda path, side: pc.list_flatten(WordPairs.read(path).table.column(side))
        )
        _, src, tgt = bitexts.linked(np.arange(len(bitexts)))
        kept = types[src] % size != types[tgt]
        if not kept.any():
            raise DataError(
                next(iter(folders.values())),
                f"has no word pair to learn from ({len(kept)} were dropped: their words are spelt"
                " the same)",
            )
        links, dropped = bitexts.links.where(kept), len(kept) - int(kept.sum())
        return replace(bitexts, links=links, types=types, dropped=dropped)

    @classmethod
    def read_sentences(
        cls, encoder: TransformerEncoder, folders: Mapping[str, Path], pivot: str, max_length: int
    ) -> Bitexts:
        """Return bitexts with a type per sentence. Raises `DataError` where one has no rows."""
        bitexts = cls.read(encoder, folders, pivot, max_length, (0, None), alone=True)
        types, _ = _types(
            folders, lambda path, side: pc.binary_join(read_table(path).column(side), " ")
        )
        return replace(bitexts, types=types)

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


def _allowed(folder: Path, src: Pieces, tgt: Pieces, allowed: tuple[int, int | None]) -> np.ndarray:
    """The numbers of the pairs of an allowed length. Raises `DataError` where there is none."""
    if not len(src):
        raise DataError(folder, "the dataset has no sentence pairs")
    sizes_2S, (least, most) = np.stack([src.lengths, tgt.lengths]), allowed
    short = sizes_2S.sum(axis=0) <= (most or np.inf)
    kept = np.flatnonzero(short & (sizes_2S.min(axis=0) >= least))
    if not len(kept):
        limits = f"{least} subword tokens or more on each side"
        limits += "" if most is None else f" and {most} or less on both together"
        raise DataError(
            folder,
            f"none of the {len(src)} sentence pairs has {limits}; relax min_pieces or max_pieces",
        )
    return kept


def _report_left(what: str, read: int, kept: int) -> None:
    """Report, while caveats are collected, what is left out for its length."""
    left = LeftOut({"of another number of subword tokens than is allowed": read - kept})
    if read > kept and (heard := Caveats.listener()) is not None:
        (heard.partial[what],) = left.remarks("", kept)


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
                f"none of the {len(pieces)} sentences has {min_pieces} subword tokens or more;"
                " relax min_pieces",
            )
    langs = range(len(columns))
    sentences = Sentences.of(encoder, columns, langs, tuple(folders), max_length)
    numbers_R = np.flatnonzero(sentences.lengths_S >= min_pieces)
    for number, (lang, pieces) in enumerate(zip(folders, columns, strict=True)):
        kept = int((sentences.langs_S[numbers_R] == number).sum())
        _report_left(f"sentences of {lang}", len(pieces), kept)
    sentences.report_cut(numbers_R)
    return RowSource(sentences, numbers_R)


_LINKED = 100_000  # sentence pairs whose links are looked up at once


def _types(
    folders: Mapping[str, Path], texts: Callable[[Path, str], pa.ChunkedArray]
) -> tuple[np.ndarray, int]:
    """Return a number for each text of some datasets, in the order of `Bitexts.read`: the same for
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


# units in the last place of the largest coordinate: what batches of other widths change in a dozen
# blocks
_ROUNDING = 100


@dataclass(frozen=True)
class States:
    """Hidden states of some sentences end to end, one tensor (pieces, H) per layer; sentence s has
    ``lengths_S[s]`` pieces from ``starts_S[s]`` on, of which `trailing` at the end are special.
    """

    layers: list[torch.Tensor]
    starts_S: np.ndarray
    lengths_S: np.ndarray
    trailing: int = 0

    @classmethod
    def read(
        cls,
        encoder: TransformerEncoder,
        sentences: Sentences,
        numbers: np.ndarray,
        layers: tuple[int, ...],
    ) -> States:
        """Return the states of some sentences, each by itself, by one forward pass; gradient
        flows.
        """
        packed = encoder.lay_out([sentences.single_rows(numbers)])
        states = encoder.states(packed, layers)
        return cls(states, packed.starts_S, packed.lengths_S, encoder.trailing)

    def sentences(self, pooling: SentencePooling) -> torch.Tensor:
        """Return the vectors (S, H) of the sentences at the first layer that was read: of the first
        piece (`cls`), of the last one that is not special (`last`), or the mean over all pieces,
        special ones too (as sentence-transformers do), in which all weigh the same or piece i
        weighs i + 1 (`weighted`).
        """
        spans = Spans.of_sentences(self.starts_S, self.lengths_S, pooling, self.trailing)
        return spans.pool(self.layers[:1])[:, 0]


def real_gap(vectors_XH: torch.Tensor, reference_XH: torch.Tensor) -> torch.Tensor:
    """``vectors - reference`` (..., H), 0 (and without gradient) in coordinates that differ by
    rounding alone.

    At step 0 the frozen side equals its reference up to the rounding of another batch. Adam divides
    a gradient by its own size, so that noise would move words by a whole learning rate, and
    differently with each number of workers.
    """
    gap_XH = vectors_XH - reference_XH
    rounding_X1 = (
        _ROUNDING
        * torch.finfo(gap_XH.dtype).eps
        * reference_XH.detach().abs().amax(dim=-1, keepdim=True)
    )
    return torch.where(
        gap_XH.detach().abs() <= rounding_X1, 0.0, gap_XH
    )  # in this order NaN stays NaN
