"""The contract of a word aligner: sentences of words in, directed links out."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from raxalign.arrays import Bools, Int32s, Ints, offsets_of, ranges
from raxalign.corpora.readers.inspection import FileRead
from raxalign.encoders.base import Encoder
from raxalign.lazy import np
from raxalign.options.params import BaseParams, PlugIn
from raxalign.options.sources import Source

_BITS = 16
_MASK = (1 << _BITS) - 1


@dataclass(frozen=True)
class Links:
    """Links of n sentence pairs in compact form: those of pair i are ``src[offsets[i]:offsets[i +
    1]]`` with the same slice of ``tgt``.

    `offsets` is int64 (n + 1,), `src` and `tgt` are int32 word positions, 0-based.

    >>> links = Links.of([{(0, 1), (0, 0)}, set(), {(2, 1)}])
    >>> len(links), links.pair(2), links.take(np.array([2, 0])).src.tolist()
    (3, {(2, 1)}, [2, 0, 0])
    """

    offsets: Ints
    src: Int32s
    tgt: Int32s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pair(self, i: int) -> set[tuple[int, int]]:
        """The links of sentence pair i."""
        part = slice(self.offsets[i], self.offsets[i + 1])
        return set(zip(self.src[part].tolist(), self.tgt[part].tolist(), strict=True))

    @classmethod
    def of(cls, pairs: Iterable[Iterable[tuple[int, int]]]) -> Links:
        """Links from a collection of (source, target) positions for each sentence pair, each
        sorted.
        """
        rows = [sorted(set(links)) for links in pairs]
        flat = np.array([link for row in rows for link in row], np.int32).reshape(-1, 2)
        return cls(
            offsets_of([len(row) for row in rows]),
            np.ascontiguousarray(flat[:, 0]),
            np.ascontiguousarray(flat[:, 1]),
        )

    @classmethod
    def from_codes(cls, codes: Ints, n: int) -> Links:
        """The inverse of `codes`, for n sentence pairs; `codes` must be sorted."""
        bounds = np.arange(n + 1, dtype=np.int64) << (2 * _BITS)
        offsets = np.searchsorted(codes, bounds).astype(np.int64)
        return cls(
            offsets, ((codes >> _BITS) & _MASK).astype(np.int32), (codes & _MASK).astype(np.int32)
        )

    def codes(self) -> Ints:
        """One integer per link, ordered by (sentence pair, source, target) and different for
        different links; positions are below 65,535.
        """
        if len(self.src) and max(int(self.src.max()), int(self.tgt.max())) >= _MASK:
            raise ValueError(f"a link's position is not below {_MASK}")
        return (self.rows() << (2 * _BITS)) | (self.src.astype(np.int64) << _BITS) | self.tgt

    def rows(self) -> Ints:
        """The sentence pair of each link, int64 (number of links,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    def take(self, rows: Ints) -> Links:
        """The links of the sentence pairs `rows`, in that order."""
        index, _ = ranges(self.offsets, rows)
        return Links(offsets_of(np.diff(self.offsets)[rows]), self.src[index], self.tgt[index])

    def part(self, start: int, stop: int) -> Links:
        """The links of the sentence pairs from start up to stop; a view."""
        a, b = self.offsets[start], self.offsets[stop]
        return Links(self.offsets[start : stop + 1] - a, self.src[a:b], self.tgt[a:b])

    def where(self, keep: Bools) -> Links:
        """Return some of the links, in the same order."""
        return Links(offsets_of(keep)[self.offsets], self.src[keep], self.tgt[keep])

    def swapped(self) -> Links:
        """Return the links with the sides exchanged."""
        return Links(self.offsets, self.tgt, self.src)

    def outside(self, src_lengths: Ints, tgt_lengths: Ints) -> int | None:
        """Return the number of the first link that is outside its sentences, whose numbers of words
        (n,) are given; None where there is no such link.
        """
        row = self.rows()
        wrong = (self.src < 0) | (self.src >= src_lengths[row])
        wrong |= (self.tgt < 0) | (self.tgt >= tgt_lengths[row])
        return int(np.argmax(wrong)) if wrong.any() else None

    @classmethod
    def join(cls, parts: Sequence[Links]) -> Links:
        """The sentence pairs of all parts, one after the other."""
        counts = np.concatenate([np.zeros(0, np.int64), *(np.diff(part.offsets) for part in parts)])
        empty = np.zeros(0, np.int32)
        return cls(
            offsets_of(counts),
            np.concatenate([empty, *(p.src for p in parts)]),
            np.concatenate([empty, *(p.tgt for p in parts)]),
        )

    def digest(self) -> str:
        """SHA-256 of the links: equal for equal links in equal order, on any machine."""
        sha = hashlib.sha256()
        for array, kind in ((self.offsets, "<i8"), (self.src, "<i4"), (self.tgt, "<i4")):
            sha.update(np.ascontiguousarray(array, kind).data)
        return sha.hexdigest()


@dataclass(frozen=True)
class AlignerInputs:
    """What a word aligner may use besides the words.

    `ids` are those of the sentence pairs in the corpus, `gold` the corpus's own links (None: it has
    none), `locations` the places of the aligner's `sources`; `work` is a scratch folder and
    `threads` the share of the cores. `own_words` is False where a tokeniser made the words. `lang`
    is the language of the source side, `pivot` that of the target side. `encoder` is the encoder
    that the aligner names, loaded on `device`; it is None for an aligner that names none.
    """

    ids: Sequence[int]
    gold: Links | None
    locations: Mapping[str, str]
    work: Path
    threads: int
    own_words: bool = True
    lang: str = ""
    pivot: str = ""
    encoder: Encoder | None = None
    device: str = "cpu"


LOWERCASE = "Whether words are compared in lower case."
"""What the option `lowercase` of several word aligners is."""


class WordAligner(PlugIn):
    """Makes links in both directions. `forward` links were found by explaining target words by
    source words, `reverse` the other way; both are (source position, target position).
    """

    QUICKER: ClassVar[str] = ""
    """The kind of a word aligner that is much quicker, which `plan` names where this one takes most
    of the time."""

    STOCHASTIC: ClassVar[bool] = False
    """Whether two runs on the same sentences give different links, whatever the options. Each
    training run has links of its own then."""

    class Params(BaseParams):
        """The options of the word aligner."""

    def missing(self) -> list[str]:
        """Return what it needs and this machine lacks, as messages that say how to install it."""
        return []

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Outside data, by name (links from a file)."""
        return {}

    def read_files(self, lang: str, pivot: str) -> Iterator[FileRead]:
        """Read the local files among the `sources` of one language, before anything is made, and
        yield what was found in each.
        """
        return iter(())

    def encoder(self) -> str | None:
        """Return the encoder that the word aligner reads: a folder, a hub name or a kind of
        encoder, as a grid names one. None, the default, is for word aligners that read words alone.

        It is a param (`EncoderName`) of the word aligner and not the encoder of a trial, so that
        all encoders of a grid are tested on the same links.
        """
        return None

    def check_encoder(self, n_layers: int | None) -> list[str]:
        """Return the faults of the options with an encoder of `n_layers` blocks (None: not known
        before it is loaded), as messages that begin with the option's name.
        """
        return []

    @abstractmethod
    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Link the words of n sentence pairs, of which no side is empty: forward and reverse links,
        each with one entry per sentence pair in input order. An aligner without directions returns
        the same links twice.
        """
