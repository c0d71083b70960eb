"""Links of words as links of the pieces of `[CLS] a [SEP] b [SEP]` rows: which pieces stand for
which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from raxalign.arrays import offsets_of, ranges, word_pieces
from raxalign.methods.rows.sentences import Bitexts, Rows, Sentences, joint_rows
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.schema import links_of, read_pairs

_CHUNK = 8192


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
        """From links between two places of a row that begins at `starts_P`, each link once however
        often it is given.
        """
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
    places in their joint rows.
    """
    rows = joint_rows(sentences, numbers_R2[:, 0], numbers_R2[:, 1])
    width = (
        int(max(rows.lasts.max(initial=0), links.src.max(initial=0), links.tgt.max(initial=0))) + 1
    )
    codes_W, first_W, count_W = _whole_words(rows, sentences, numbers_R2, width)
    owners = links.rows()
    (src, has_src), (tgt, has_tgt) = (
        _find(codes_W, (2 * owners + side) * width + positions)
        for side, positions in enumerate((links.src, links.tgt))
    )
    both = has_src & has_tgt
    left, right, link = piece_links(
        first_W[src[both]], count_W[src[both]], first_W[tgt[both]], count_W[tgt[both]]
    )
    counts = np.bincount(owners[both][link], minlength=len(rows))
    return Links(offsets_of(counts), left.astype(np.int32), right.astype(np.int32))


def _whole_words(
    rows: Rows, sentences: Sentences, numbers_R2: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The words of joint rows that have all their pieces: (code, place of the first piece in the
    row, number of pieces), ordered by code.

    The code of word w of sentence k in row r is (2 r + k) width + w.
    """
    kept, words = word_pieces(rows.words, rows.lasts)
    row_C = np.searchsorted(rows.offsets, kept, side="right") - 1
    codes_C = (2 * row_C + rows.segments[kept]) * width + words
    codes, where, counts = np.unique(codes_C, return_index=True, return_counts=True)
    cut_RK = rows.kept_RK < sentences.lengths_S[numbers_R2]
    next_word = sentences.words[(sentences.starts_S[numbers_R2] + rows.kept_RK)[cut_RK]]
    first_lost = np.full(cut_RK.size, width)
    first_lost[np.flatnonzero(cut_RK.reshape(-1))] = np.where(next_word >= 0, next_word, width)
    whole = codes % width < first_lost[codes // width]
    return codes[whole], (kept - rows.offsets[row_C])[where[whole]], counts[whole]


def _find(codes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(place of each in the ordered `codes`, whether it is there)."""
    if not len(codes):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return place, codes[place] == wanted
