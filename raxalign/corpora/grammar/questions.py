"""Questions with answer spans: a context of a few sentences, parallel over the languages, in which
one sentence holds the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from raxalign.corpora.grammar.clauses import OBJECT, PLACE, RECIPIENT, SUBJECT, Clause
from raxalign.corpora.grammar.compose import Meaning, tokens
from raxalign.corpora.grammar.frames import actions, named, of_class, places
from raxalign.corpora.grammar.sentences import detokenized
from raxalign.corpora.grammar.splits import Draw, Pool, Split
from raxalign.corpora.grammar.terms import NP, Token

KINDS = ("who", "where", "what")
_DEEDS = ("buy", "sell", "find", "lose", "see", "seek", "forget")
Asked = tuple[str, int, tuple[Clause, ...]]


@dataclass(frozen=True)
class Question:
    """A question on a context; `context[start:start + len(answer)] == answer`."""

    id: int
    context: str
    question: str
    answer: str
    start: int


def _make(stream: int, draw: Draw) -> tuple[Asked, str]:
    """Four deeds of four people: two share the verb, two the place, all the things are
    different.
    """
    who = [*named(), *[NP("noun", key) for key in of_class("person")]]
    verbs, cities = list(_DEEDS), places("city")
    things = sorted(
        {np.key for _, np in actions(_DEEDS) if not np.adjective and np.det == "def"} - _animate()
    )
    first, second = verbs.pop(draw(len(verbs))), verbs.pop(draw(len(verbs)))
    allowed = [_objects(verb, tuple(things)) for verb in (first, first, second, second)]
    where = draw(len(cities))
    other_place = cities[(where + 1 + draw(len(cities) - 1)) % len(cities)]
    clauses = []
    taken: set[str] = set()
    for verb, objects, city in zip(
        (first, first, second, second),
        allowed,
        (cities[where], other_place, cities[where], other_place),
        strict=True,
    ):
        free = [key for key in objects if key not in taken]
        key = free[draw(len(free))]
        taken.add(key)
        clauses.append(Clause(who.pop(draw(len(who))), verb, "past", NP("noun", key), place=city))
    order = [clauses.pop(draw(len(clauses))) for _ in range(len(clauses))]
    asked = (KINDS[stream], draw(4), tuple(order))
    return asked, repr(asked[2])


@cache
def _animate() -> frozenset[str]:
    return frozenset(of_class("person", "kin", "nature", "building", "sign"))


@cache
def _objects(verb: str, things: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(np.key for _, np in actions((verb,)) if np.key in things))


@cache
def _pool(split: Split, seed: int) -> Pool[Asked]:
    return Pool("questions", split, seed, len(KINDS), _make)


def _answer(words: list[Token], kind: str) -> tuple[int, int]:
    """The first and last word of the answer: names and places bare, people and things with their
    article.
    """
    low, high = {
        "who": (SUBJECT, OBJECT),
        "what": (OBJECT, RECIPIENT),
        "where": (PLACE, PLACE + 50),
    }[kind]
    proper = [
        at for at, token in enumerate(words) if low <= token[1][0] < high and token[2] == "PROPN"
    ]
    found = proper or [
        at
        for at, token in enumerate(words)
        if any(low <= offset < high for offset in token[1]) and token[2] != "VERB"
    ]
    return found[0], found[-1]


def questions(n: int, lang: str, split: Split, seed: int = 0) -> list[Question]:
    """Return the first n questions of a split: who did it, where, and what they did it to, in
    turns; no context is in two splits.
    """
    made = []
    for number, (kind, asked, clauses) in enumerate(_pool(split, seed).first(n)):
        context, answer, start = "", "", 0
        for place, clause in enumerate(clauses):
            words = tokens(lang, Meaning("main", (clause,)))
            forms = [token[0] for token in words]
            context += " " if context else ""
            if place == asked:
                first, last = _answer(words, kind)
                before = detokenized(forms[:first])
                joined = detokenized(forms[: last + 1])
                # The joint of the two is a space unless the answer is glued to what precedes it.
                begin = len(before) + (joined[len(before) : len(before) + 1] == " ")
                answer, start = joined[begin:], len(context) + begin
            context += detokenized(forms)
        clause = clauses[asked]
        about = (
            clause._replace(subject=NP("pronoun", "he"))
            if kind == "who"
            else clause._replace(place=None)
            if kind == "where"
            else clause
        )
        question = detokenized([token[0] for token in tokens(lang, Meaning(kind, (about,)))])
        made.append(Question(number, context, question, answer, start))
    return made
