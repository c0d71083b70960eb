"""Tagged sentences: requests with slots, and sentences with persons, places and organisations, both
in BIO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause, times
from raxalign.corpora.grammar.compose import Meaning, tokens
from raxalign.corpora.grammar.frames import actions, moments, named, of_class, places
from raxalign.corpora.grammar.phrases import phrase
from raxalign.corpora.grammar.sentences import realization
from raxalign.corpora.grammar.splits import Draw, Pool, Split
from raxalign.corpora.grammar.terms import NP

SLOTS = ("artist", "city", "cuisine", "date", "genre", "goal", "hour", "origin", "people", "person")
ENTITIES = ("LOC", "ORG", "PER")
_DATES = ("today", "tomorrow", "monday", "friday", "evening", "morning", "next_week")
Filler = NP | int | str
Request = tuple[int, tuple[tuple[str, Filler], ...]]


@dataclass(frozen=True)
class Tagged:
    """A sentence with one BIO tag per word; the same id is the same sentence in all languages."""

    id: int
    words: tuple[str, ...]
    tags: tuple[str, ...]


@cache
def _fillers(slot: str) -> list[dict[str, str]]:
    return [
        dict(zip(lexicon.LANGS, cells, strict=True))
        for kind, *cells in lexicon.rows("fillers")
        if kind == slot
    ]


@cache
def _requests() -> list[dict[str, list[str]]]:
    return [
        dict(zip(lexicon.LANGS, (cell.split() for cell in cells), strict=True))
        for _, *cells in lexicon.rows("requests")
    ]


def _choices(slot: str) -> list[Filler]:
    """What may fill a slot."""
    if slot in ("city", "origin", "goal"):
        return list(places("city"))
    if slot == "person":
        return [*named(), *named(True)[::3]]
    if slot == "artist":
        return list(named(True)[1::2])
    return list(_DATES) if slot == "date" else list(range(len(_fillers(slot))))


def _fill(lang: str, slot: str, filler: Filler, preposition: str) -> list[tuple[str, str]]:
    """The words of a slot with their tags; prepositions and articles stay outside."""
    if isinstance(filler, NP):
        words = [
            (form, tag == "PROPN") for form, _, tag, _ in phrase(lang, filler, "acc", preposition)
        ]
    elif isinstance(filler, str):
        words = [
            (form, any(offset % 100 in (30, 40) for offset in offsets))
            for form, offsets, _, _ in times()[filler][1][lang]
        ]
    else:
        words = [
            (form.lstrip("_"), not form.startswith("_"))
            for form in _fillers(slot)[filler][lang].split()
        ]
    tagged, inside = [], False
    for form, counts in words:
        tagged.append((form, f"{'I' if inside else 'B'}-{slot}" if counts else "O"))
        inside = counts
    return tagged


def _make_request(stream: int, draw: Draw) -> tuple[Request, str]:
    template = _requests()[stream]["en"]
    filled: list[tuple[str, Filler]] = []
    for item in template:
        if match := re.fullmatch(r"\{(\w+)(?::.+)?\}", item):
            options = [
                option
                for option in _choices(match[1])
                if (option not in [value for _, value in filled]) or isinstance(option, int)
            ]
            filled.append((match[1], options[draw(len(options))]))
    request = (stream, tuple(filled))
    return request, repr(request)


@cache
def _request_pool(split: Split, seed: int) -> Pool[Request]:
    return Pool("slots", split, seed, len(_requests()), _make_request, even=False)


def slots(n: int, lang: str, split: Split, seed: int = 0) -> list[Tagged]:
    """Return the first n requests of a split, tagged with their slots (`SLOTS`); no request is in
    two splits.
    """
    found = []
    for number, (template, filled) in enumerate(_request_pool(split, seed).first(n)):
        values = dict(filled)
        pairs: list[tuple[str, str]] = []
        for item in _requests()[template][lang]:
            match = re.fullmatch(r"\{(\w+)(?::(.+))?\}", item)
            pairs += (
                _fill(lang, match[1], values[match[1]], match[2] or "") if match else [(item, "O")]
            )
        words, tags = zip(*pairs, strict=True)
        found.append(Tagged(number, words, tags))
    return found


def _organisations() -> list[NP]:
    return [NP("org", str(index)) for index in range(len(lexicon.names("org")))]


class _Cast(NamedTuple):
    """Who and what a sentence with entities is about, and when."""

    one: NP
    other: NP
    common: NP
    city: NP
    firm: NP
    deal: tuple[str, NP]
    moment: tuple[str, str, bool]


def _draw_cast(draw: Draw) -> _Cast:
    people, cities, firms = [*named(), *named(True)[::2]], places("city"), _organisations()
    when = moments("past", "fut")
    moment = when[draw(len(when))]
    one = people[draw(len(people))]
    others = [np for np in people if (np.sort, np.key) != (one.sort, one.key)]
    other = others[draw(len(others))]
    deals = actions(("buy", "sell", "find", "lose", "repair", "paint"), True)
    deal, city, firm = deals[draw(len(deals))], cities[draw(len(cities))], firms[draw(len(firms))]
    common = NP("noun", of_class("person")[draw(20)])
    return _Cast(one, other, common, city, firm, deal, moment)


def _entity_clauses(cast: _Cast, draw: Draw) -> tuple[Clause, ...]:
    """Six things that can be said of the cast."""
    one, other, common, city, firm, (verb, thing), (tense, time, fronted) = cast
    clauses = (
        Clause(one, "work", tense, place=firm, place_as="firm"),
        Clause(firm, verb, tense, thing),
        Clause((one, common)[draw(2)], "go", tense, place=city, place_as="to"),
        Clause(one, ("see", "invite", "help", "call")[draw(4)], tense, (other, common)[draw(2)]),
        Clause(common, verb, tense, thing, place=city),
        Clause(firm, ("invite", "support.help", "seek")[draw(3)], tense, (one, common)[draw(2)]),
    )
    return tuple(clause._replace(time=time, fronted=fronted) for clause in clauses)


def _make_entities(stream: int, draw: Draw) -> tuple[Meaning, str]:
    cast = _draw_cast(draw)
    clauses = _entity_clauses(cast, draw)
    if stream < len(clauses):
        said = Meaning("main", (clauses[stream],))
    else:
        inner = clauses[draw(len(clauses))]._replace(time="", fronted=False)
        said = Meaning("that", (Clause(cast.other, "say", "past"), inner))
    return said, repr(said)


@cache
def _entity_pool(split: Split, seed: int) -> Pool[Meaning]:
    return Pool("entities", split, seed, 7, _make_entities)


def entities(n: int, lang: str, split: Split, seed: int = 0) -> list[Tagged]:
    """Return the first n sentences of a split, tagged with persons, places and organisations
    (`ENTITIES`); no sentence is in two splits.
    """
    found = []
    for number, said in enumerate(_entity_pool(split, seed).first(n)):
        made = realization(tokens(lang, said))
        found.append(Tagged(number, made.words, made.entities))
    return found
