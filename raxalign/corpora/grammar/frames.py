"""Sentence frames: each is a product of lists of choices, and the meaning that a choice of each
makes.

The number of a sentence inside its frame is the mixed-radix number of its choices, so different
numbers are different sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause, times
from raxalign.corpora.grammar.compose import Meaning
from raxalign.corpora.grammar.terms import NP

OWNABLE = (
    "car",
    "bicycle",
    "book",
    "key",
    "suitcase",
    "coat",
    "hat",
    "shirt",
    "watch.clock",
    "picture",
    "phone",
    "dog",
    "horse",
    "knife",
)


class Frame(NamedTuple):
    """A sort of sentence: its axes of choice and what they make."""

    name: str
    axes: tuple[Sequence[Any], ...]
    build: Callable[..., Meaning]

    @property
    def size(self) -> int:
        """How many sentences it has."""
        size = 1
        for axis in self.axes:
            size *= len(axis)
        return size

    def meaning(self, number: int) -> Meaning:
        """Return the sentence of a number below `size`."""
        chosen = []
        for axis in self.axes:
            number, place = divmod(number, len(axis))
            chosen.append(axis[place])
        return self.build(*chosen)


class Draft(NamedTuple):
    """A frame whose axes are made when they are asked for: they come from the lexicon, which is not
    read when a module is imported.
    """

    name: str
    axes: Callable[[], tuple[Sequence[Any], ...]]
    build: Callable[..., Meaning]


def main(clause: Clause) -> Meaning:
    """Return a sentence of one clause."""
    return Meaning("main", (clause,))


def of_class(*classes: str) -> list[str]:
    """Return the keys of the nouns that have one of the classes."""
    return [key for key, noun in lexicon.nouns().items() if noun.classes & set(classes)]


def fitting(noun: str) -> list[str]:
    """Return the adjectives that fit a noun."""
    return [
        key for key, adjective in lexicon.adjectives().items() if lexicon.admits(adjective, noun)
    ]


@cache
def named(full: bool = False) -> list[NP]:
    """Persons by name; with surnames where `full`."""
    found = []
    for sort in ("male", "female"):
        for index in range(len(lexicon.names(sort))):
            found += [
                NP(sort, str(index), surname=surname)
                for surname in (range(len(lexicon.names("surname"))) if full else [-1])
            ]
    return found


@cache
def persons() -> list[NP]:
    """Common nouns of persons: definite, with an adjective, plural, counted."""
    found = []
    for index, key in enumerate(of_class("person")):
        adjectives = fitting(key)
        found += [
            NP("noun", key),
            NP("noun", key),
            NP("noun", key, "indef"),
            NP("noun", key, "this"),
        ]
        found += [
            NP("noun", key, adjective=adjectives[(index + step) % len(adjectives)])
            for step in (0, 3, 5)
        ]
        found += [
            NP("noun", key, plural=True),
            NP("noun", key, "some", True),
            NP("noun", key, str(2 + index % 4), True),
        ]
    return list(dict.fromkeys(found))


@cache
def people() -> list[NP]:
    """Return all that can do something."""
    return [
        *persons(),
        *named(),
        *named(True)[::4],
        *[NP("pronoun", key) for key in ("he", "she", "they")],
    ]


@cache
def simple_people() -> list[NP]:
    """Names, pronouns and plain definite nouns: for sentences of two clauses."""
    return [
        *[NP("noun", key) for key in of_class("person")],
        *named(),
        *[NP("pronoun", key) for key in ("he", "she", "they")],
    ]


def things(key: str, definite: bool = False) -> list[NP]:
    """Return the phrases that a noun makes as an object."""
    adjectives = fitting(key)
    found = [NP("noun", key), NP("noun", key, "this"), NP("noun", key, plural=True)]
    found += [NP("noun", key, adjective=adjective) for adjective in adjectives]
    if not definite:
        found += [
            NP("noun", key, "indef"),
            NP("noun", key, "some", True),
            *[NP("noun", key, count, True) for count in "2345"],
        ]
        found += [NP("noun", key, "indef", adjective=adjective) for adjective in adjectives[::2]]
        found += [NP("noun", key, "3", True, adjective) for adjective in adjectives[1::2]]
    return found


GENERAL = (
    "buy", "sell", "find", "lose", "see", "seek", "bring", "forget", "steal", "clean", "repair",
    "paint", "open", "close.shut", "eat", "cut", "drink", "read", "write", "feed", "help", "visit",
    "call", "invite", "await", "support.help", "follow", "wear", "hear", "carry", "love",
)  # fmt: skip
SPECIAL = (
    "watch.look",
    "book.reserve",
    "park.vehicle",
    "light.kindle",
    "switch_on",
    "switch_off",
    "play.music",
    "order.buy",
    "win",
    "close.shut",
    "support.help",
)


@cache
def actions(verbs: tuple[str, ...], definite: bool = False) -> list[tuple[str, NP]]:
    """Return what can be done: a verb and its object. Milk and other masses come only in the
    definite singular.
    """
    found = []
    for verb in verbs:
        entry = lexicon.verbs()[verb]
        for key in lexicon.nouns():
            if lexicon.admits(entry, key):
                mass = (
                    "drink" in lexicon.nouns()[key].classes or "kin" in lexicon.nouns()[key].classes
                )
                phrases = (
                    [NP("noun", key), NP("noun", key, "this")] if mass else things(key, definite)
                )
                found += [(verb, np) for np in phrases]
    return found


@cache
def moments(*tenses: str) -> list[tuple[str, str, bool]]:
    """Tense, an adjunct of time that fits it or none, and whether it comes first."""
    found = []
    for tense in tenses:
        found.append((tense, "", False))
        for key, (goes_with, _) in times().items():
            if tense in goes_with:
                found += [(tense, key, False), (tense, key, True)]
    return found


@cache
def unfronted(*tenses: str) -> list[tuple[str, str, bool]]:
    """Return the moments whose adjunct does not come first."""
    return [moment for moment in moments(*tenses) if not moment[2]]


@cache
def places(*classes: str) -> list[NP]:
    """Definite places of the classes, and cities where asked for."""
    found = [NP("noun", key) for key in of_class(*classes)]
    return found + (
        [NP("city", str(index)) for index in range(len(lexicon.names("city")))]
        if "city" in classes
        else []
    )


@cache
def states() -> list[Clause]:
    """Return what can be the case at the same time as something else: subjects with adjectives."""
    found = []
    for key in of_class(
        "person",
        "room",
        "building",
        "thing",
        "vehicle",
        "garment",
        "show",
        "text",
        "abstract",
        "food",
    ):
        found += [
            Clause(NP("noun", key), "be", "past", predicate=adjective)
            for adjective in fitting(key)
            if adjective != "close.near"
        ]
    return found


def simple(
    subject: NP, action: tuple[str, NP], moment: tuple[str, str, bool], **more: Any
) -> Clause:
    """Somebody does something at some time."""
    tense, time, fronted = moment
    return Clause(subject, action[0], tense, action[1], time=time, fronted=fronted, **more)
