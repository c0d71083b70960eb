"""The linked words of one side of held-out word pairs, as flat arrays over all words of its
sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from raxalign import lazy
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences
from raxalign.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
else:
    np = lazy.load("numpy")
    pa = lazy.load("pyarrow")

Ints: TypeAlias = "npt.NDArray[np.int64]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"


@dataclass(frozen=True)
class Words:
    """All words of the sentences of one language, numbered consecutively; word w is at
    `position[w]` of the sentence in row `row[w]`.
    """

    sentences: Sequence[Sequence[str]]

    @cached_property
    def offsets(self) -> Ints:
        """The number of each sentence's first word, and of all words."""
        return np.cumsum([0, *(len(sentence) for sentence in self.sentences)], dtype=np.int64)

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
    src: Words
    tgt: Words
    row: Ints
    src_word: Ints
    tgt_word: Ints

    def __len__(self) -> int:
        return len(self.row)

    def keep(self, chosen: Bools) -> LinkedWords:
        """Return some of the links alone, with all words."""
        return LinkedWords(
            self.ids,
            self.src,
            self.tgt,
            self.row[chosen],
            self.src_word[chosen],
            self.tgt_word[chosen],
        )

    def types(self) -> list[tuple[str, str]]:
        """Return the surface forms that each link joins."""
        src, tgt = self.src.forms, self.tgt.forms
        return [
            (src[a], tgt[b])
            for a, b in zip(self.src_word.tolist(), self.tgt_word.tolist(), strict=True)
        ]


def read_linked_words(folder: Path) -> LinkedWords:
    """Read a dataset of word pairs. Raises `DataError` for links that point beyond their
    sentence.
    """
    import pyarrow.compute as pc

    table = read_table(folder)
    src, tgt = (Words(read_sentences(table, side)) for side in ("src", "tgt"))
    links = [table[name].combine_chunks() for name in ("src_links", "tgt_links")]
    counts, others = (np.asarray(pc.list_value_length(column), dtype=np.int64) for column in links)
    if (counts != others).any():
        raise DataError(
            folder,
            "src_links and tgt_links differ in length",
            line=int(np.flatnonzero(counts != others)[0]) + 1,
        )
    row = np.repeat(np.arange(table.num_rows), counts)
    words = []
    for side, column in zip((src, tgt), links, strict=True):
        place = np.asarray(column.flatten(), dtype=np.int64)
        lengths = np.diff(side.offsets)[row]
        outside = np.flatnonzero((place < 0) | (place >= lengths))
        if len(outside):
            worst = outside[0]
            raise DataError(
                folder,
                f"link to word {place[worst]} of a sentence of {lengths[worst]} words",
                line=int(row[worst]) + 1,
            )
        words.append(side.offsets[row] + place)
    return LinkedWords(np.asarray(table["id"], dtype=np.int64), src, tgt, row, words[0], words[1])


class SeenTypes:
    """The pairs of word types that count as seen: those linked in training, as they are written,
    and dictionary entries in any case.
    """

    def __init__(self, folder: Path) -> None:
        self._linked = read_types(folder / "types.arrow")
        dictionary = folder / "dictionary.arrow"
        self._dictionary = read_types(dictionary) if dictionary.exists() else set()

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._linked or (pair[0].lower(), pair[1].lower()) in self._dictionary


def read_types(file: Path) -> set[tuple[str, str]]:
    """Read the pairs of surface forms of an Arrow file with columns src and tgt. Raises `DataError`
    where it cannot be read.
    """
    try:
        with pa.memory_map(str(file)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
            return set(zip(table["src"].to_pylist(), table["tgt"].to_pylist(), strict=True))
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise DataError(file, f"the seen word types cannot be read ({error})") from error
