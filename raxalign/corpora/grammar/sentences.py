"""Sentences by number: words, tags, entities and gold links in any of the six languages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from raxalign.corpora.grammar.catalogue import frames
from raxalign.corpora.grammar.compose import Meaning, tokens
from raxalign.corpora.grammar.terms import Token
from raxalign.errors import RaxalignError

_MASK = (1 << 64) - 1


def scrambled(number: int, size: int, seed: int) -> int:
    """Return a permutation of range(size) that depends on the seed: a four-round Feistel network,
    walked until it falls inside.
    """
    half = max(1, (size - 1).bit_length() + 1 >> 1)
    low = (1 << half) - 1
    while True:
        left, right = number >> half, number & low
        for turn in range(4):
            mixed = (
                right * 0x9E3779B97F4A7C15 + (seed * 4 + turn + 1) * 0xBF58476D1CE4E5B9
            ) & _MASK
            mixed = ((mixed ^ (mixed >> 29)) * 0x94D049BB133111EB) & _MASK
            left, right = right, left ^ ((mixed >> 32) & low)
        number = left << half | right
        if number < size:
            return number


@cache
def capacity() -> int:
    """Return how many sentences there are before one could come twice."""
    return min(frame.size for frame in frames()) * len(frames())


@lru_cache(maxsize=1024)
def meaning(number: int, seed: int) -> Meaning:
    """Return what sentence `number` of a seed says, before any language; different numbers say
    different things.
    """
    table = frames()
    inner, which = divmod(number, len(table))
    frame = table[which]
    if not 0 <= inner < frame.size:
        raise RaxalignError(
            f"the phrasebook has {capacity()} sentences; sentence {number} was asked for"
        )
    return frame.meaning(scrambled(inner, frame.size, seed * 1009 + which))


@dataclass(frozen=True)
class Realization:
    """A sentence in one language: its words, what each expresses (for links), universal
    part-of-speech tags, and entities in BIO.
    """

    words: tuple[str, ...]
    senses: tuple[tuple[int, ...], ...]
    tags: tuple[str, ...]
    entities: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words as one would write them."""
        return detokenized(self.words)


@dataclass(frozen=True)
class Sentence:
    """A sentence in every language that it is asked for."""

    id: int
    meaning: Meaning

    def realize(self, lang: str) -> Realization:
        """Return its form in a language."""
        return realization(tokens(lang, self.meaning))

    def links(self, source: str, target: str) -> tuple[tuple[int, int], ...]:
        """Return the gold links between two languages, 0-based."""
        return links(self.realize(source).senses, self.realize(target).senses)


def sentence(number: int, seed: int = 0) -> Sentence:
    """Sentence `number` of a seed; it depends on nothing else."""
    return Sentence(number, meaning(number, seed))


def realization(words: list[Token]) -> Realization:
    """Return the parallel tuples of a sentence's tokens."""
    forms, senses, tags, marks = zip(*words, strict=True)
    entities = []
    previous = ("", 0)
    for mark, expressed in zip(marks, senses, strict=True):
        # Two names side by side, as subject and object in German, are two entities.
        here = (mark, expressed[0] // 50)
        entities.append(("I-" if here == previous else "B-") + mark if mark else "O")
        previous = here
    return Realization(forms, senses, tags, tuple(entities))


def links(
    source: tuple[tuple[int, ...], ...], target: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, int], ...]:
    """Words that express the same; a part that the other side does not express links to the whole
    that it belongs to.
    """
    of_source, of_target = _places(source), _places(target)
    found = set()
    for sense, places in of_source.items():
        for other in of_target.get(sense) or of_target.get(sense - sense % 10, []):
            found.update([(place, other) for place in places])
    for sense, places in of_target.items():
        if sense not in of_source:
            for other in of_source.get(sense - sense % 10, []):
                found.update([(other, place) for place in places])
    return tuple(sorted(found))


def _places(senses: tuple[tuple[int, ...], ...]) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for place, expressed in enumerate(senses):
        for sense in expressed:
            table.setdefault(sense, []).append(place)
    return table


def detokenized(words: tuple[str, ...] | list[str]) -> str:
    """Return the words joined by spaces, none before punctuation and after an apostrophe or an
    opening mark.
    """
    text = ""
    for word in words:
        glue = not text or text[-1] in "'¿" or word in (".", ",", "?", ";")
        text += word if glue else " " + word
    return text
