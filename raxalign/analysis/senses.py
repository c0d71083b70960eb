"""Words with several senses in context: does retrieval tell the senses apart better than one vector
per word could (Cao et al. 2020, §5)?

The gold translations of a pivot word in the held-out sentences stand for its senses, so all is
computed from the predictions of retrieval. One vector per word finds the same translation
everywhere; the best that it can do is the most frequent one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

PAPER_WORDS = ("like", "order", "support", "close")


@dataclass(frozen=True)
class Sense:
    """A gold translation of a word: how often it occurs, and how often retrieval found a word of
    that form, and exactly that occurrence.
    """

    translation: str
    occurrences: int
    right_form: int
    right_place: int


@dataclass(frozen=True)
class PivotWord:
    """A pivot word with its senses, the most frequent first."""

    word: str
    senses: tuple[Sense, ...]

    @property
    def occurrences(self) -> int:
        """How often the word is linked."""
        return sum(sense.occurrences for sense in self.senses)

    @property
    def in_context(self) -> float:
        """The share of occurrences for which a word of the right form was found."""
        return sum(sense.right_form for sense in self.senses) / self.occurrences

    @property
    def majority(self) -> float:
        """The share that the most frequent translation, always chosen, gets right."""
        return self.senses[0].occurrences / self.occurrences


def senses(table: pa.Table, words: Sequence[str] = PAPER_WORDS) -> list[PivotWord]:
    """Return the senses of some pivot words, in any casing, in the predictions of one language and
    split; words that do not occur are left out.
    """
    found = _words(table)
    return [found[word] for word in dict.fromkeys(word.lower() for word in words) if word in found]


def ambiguous(table: pa.Table, *, least: int = 3, most: int = 20) -> list[PivotWord]:
    """Return the pivot words with at least two translations that occur `least` times each, those
    with the most such occurrences first; a form without letters is not a word here.
    """
    weights = {}
    for word in _words(table).values():
        spelt = [
            sense for sense in word.senses if any(letter.isalpha() for letter in sense.translation)
        ]
        frequent = [sense.occurrences for sense in spelt if sense.occurrences >= least]
        if len(frequent) > 1 and any(letter.isalpha() for letter in word.word):
            weights[word] = sum(frequent[1:])
    return sorted(weights, key=lambda word: (-weights[word], word.word))[:most]


def _words(table: pa.Table) -> dict[str, PivotWord]:
    gold: dict[str, Counter[str]] = defaultdict(Counter)
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for word, translation, retrieved, correct in _answers(table):
        gold[word][translation] += 1
        forms[word][translation] += retrieved == translation
        places[word][translation] += correct
    return {
        word: PivotWord(
            word,
            tuple(
                Sense(form, n, forms[word][form], places[word][form])
                for form, n in _ordered(counts)
            ),
        )
        for word, counts in gold.items()
    }


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _answers(table: pa.Table) -> Iterator[tuple[str, str, str, bool]]:
    """(pivot word, its gold translation, the form that was found, whether it is exactly that
    occurrence), lower-cased, of queries from the pivot.
    """
    columns = (table[name].to_pylist() for name in ("direction", "tgt", "src", "found", "correct"))
    for direction, word, translation, retrieved, correct in zip(*columns, strict=True):
        if direction == "from_pivot":
            yield word.lower(), translation.lower(), retrieved.lower(), correct
