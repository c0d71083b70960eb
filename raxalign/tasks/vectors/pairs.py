"""Held-out pairs as tasks read them: sentences, and linked words as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from raxalign.arrays import Bools, Ints
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences
from raxalign.corpora.text.words import look_up_form
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.pairing.build import read_types
from raxalign.pairing.links import Links
from raxalign.tasks.transfer.rows import unit


@dataclass(frozen=True)
class SentencePairs:
    """The sentence pairs of a language and the pivot, as words; `ids` (S,) are their numbers.

    `premises` (S,) are hashes by which pairs are not independent (None: they are).
    """

    ids: Ints
    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    premises: Ints | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def read(cls, folder: Path) -> SentencePairs:
        """Read a dataset of sentence pairs."""
        table = read_table(folder)
        src, tgt = (read_sentences(table, side) for side in ("src", "tgt"))
        return cls(np.asarray(table["id"], dtype=np.int64), src, tgt)

    def first(self, limit: int | None) -> SentencePairs:
        """Return the first pairs (None: all)."""
        return self.take(np.arange(len(self.ids))[:limit])

    def take(self, rows: Ints) -> SentencePairs:
        """Return the pairs of these rows."""
        src, tgt = ([side[row] for row in rows.tolist()] for side in (self.src, self.tgt))
        premises = None if self.premises is None else self.premises[rows]
        return SentencePairs(self.ids[rows], src, tgt, premises)

    @cached_property
    def units(self) -> Ints:
        """The hash of each pivot sentence (S,)."""
        return np.array([unit(words) for words in self.tgt], dtype=np.int64)


@dataclass(frozen=True)
class SideWords:
    """All words of the sentences of one language, numbered consecutively; word w is at
    `position[w]` of the sentence in row `row[w]`.
    """

    sentences: Sequence[Sequence[str]]

    @cached_property
    def offsets(self) -> Ints:
        """The number of each sentence's first word, and of all words."""
        return np.cumsum([0, *map(len, self.sentences)], dtype=np.int64)

    @cached_property
    def row(self) -> Ints:
        """The sentence of every word."""
        return np.repeat(np.arange(len(self.sentences)), np.diff(self.offsets))

    @cached_property
    def position(self) -> Ints:
        """The place of every word in its sentence."""
        return np.arange(self.offsets[-1]) - self.offsets[self.row]

    @cached_property
    def forms(self) -> list[str]:
        """The surface form of every word."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass(frozen=True)
class LinkedWords:
    """Sentence pairs with their links: link p joins the source word numbered `src_word[p]` with the
    target word `tgt_word[p]`.
    """

    ids: Ints
    src: SideWords
    tgt: SideWords
    row: Ints
    src_word: Ints
    tgt_word: Ints

    def __len__(self) -> int:
        return len(self.row)

    def sides(self) -> tuple[tuple[SideWords, Ints], tuple[SideWords, Ints]]:
        """Return the words of each side, and the word of every link."""
        return (self.src, self.src_word), (self.tgt, self.tgt_word)

    def keep(self, chosen: Bools) -> LinkedWords:
        """Return some of the links alone, with all words."""
        return replace(
            self,
            row=self.row[chosen],
            src_word=self.src_word[chosen],
            tgt_word=self.tgt_word[chosen],
        )

    def types(self) -> list[tuple[str, str]]:
        """Return the surface forms that each link joins."""
        src, tgt = ([side.forms[word] for word in words.tolist()] for side, words in self.sides())
        return list(zip(src, tgt, strict=True))


def read_linked_words(folder: Path) -> LinkedWords:
    """Read a dataset of word pairs. Raises `DataError` for links beyond their sentence."""
    table = read_table(folder)
    src, tgt = (SideWords(read_sentences(table, side)) for side in ("src", "tgt"))
    links = Links.of_table(table)
    row, words = links.rows(), []
    for side, place in ((src, links.src), (tgt, links.tgt)):
        lengths = np.diff(side.offsets)[row]
        outside = np.flatnonzero((place < 0) | (place >= lengths))
        if len(outside):
            worst = outside[0]
            problem = f"link to word {place[worst]} of a sentence of {lengths[worst]} words"
            raise DataError(folder, problem, line=int(row[worst]) + 1)
        words.append(side.offsets[row] + place)
    return LinkedWords(np.asarray(table["id"], dtype=np.int64), src, tgt, row, *words)


class SeenTypes:
    """The pairs of word types that count as seen: those linked in training, as they are written,
    and entries of the dictionaries of two languages in the form in which they are looked up.
    """

    def __init__(self, folder: Path, langs: tuple[str, str]) -> None:
        self._langs = langs
        self._linked = _pairs(folder / "types.arrow")
        self._dictionary = _pairs(folder / "dictionary.arrow")

    def __contains__(self, pair: tuple[str, str]) -> bool:
        src, tgt = map(look_up_form, pair, self._langs)
        return pair in self._linked or (src, tgt) in self._dictionary


def _pairs(file: Path) -> set[tuple[str, str]]:
    table = read_types(file)
    return set(zip(table["src"].to_pylist(), table["tgt"].to_pylist(), strict=True))
