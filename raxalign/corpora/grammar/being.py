"""Frames of how things are, alone and in comparison with others."""

from __future__ import annotations

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.frames import Draft, fitting, main, of_class, things
from raxalign.corpora.grammar.terms import NP

_DESCRIBED = (
    "person", "animal", "vehicle", "garment", "tool", "flower", "fruit", "food", "thing",
    "furniture", "opening", "room", "place", "building", "abstract", "show", "text", "nature",
    "sign",
)  # fmt: skip
_COMPARED = (
    "vehicle", "garment", "building", "place", "furniture", "person", "show", "nature", "animal",
    "tool", "fruit",
)  # fmt: skip


def _predications() -> list[tuple[NP, str]]:
    """Subjects with an adjective that goes with them."""
    found = []
    for key in of_class(*_DESCRIBED):
        subjects = [
            NP("noun", key),
            NP("noun", key, "this"),
            NP("noun", key, plural=True),
            NP("noun", key, "this", True),
        ]
        found += [
            (subject, adjective)
            for subject in subjects
            for adjective in fitting(key)
            if adjective != "close.near"
        ]
    return found


def _comparisons() -> list[tuple[NP, str, NP]]:
    """Two nouns of one class with an adjective that goes with both."""
    found = []
    for group in _COMPARED:
        keys = [key for key in of_class(group) if not key.startswith("bank.")]
        for one in keys:
            for other in keys:
                for adjective in set(fitting(one)) & set(fitting(other)) if one != other else ():
                    entry = lexicon.adjectives()[adjective]
                    if (
                        all(getattr(entry.lang[lang], "comparative", "") for lang in ("en", "de"))
                        and adjective != "close.near"
                    ):
                        found.append((NP("noun", one), adjective, NP("noun", other)))
    return sorted(found)


def _sequences() -> list[NP]:
    """What can be in an order: plural things, with and without an adjective."""
    return [
        NP("noun", k, d, True, a)
        for k in of_class("text", "sign", "thing", "animal", "vehicle", "abstract", "person")
        for d in ("def", "this", "some", "3")
        for a in ("", *fitting(k))
    ]


def _loads() -> list[NP]:
    """What can be borne."""
    return [np for k in of_class("load") for np in things(k, True)]


def _pillars() -> list[NP]:
    """What can bear a load."""
    return [
        np
        for k in of_class("pillar")
        for np in [NP("noun", k), NP("noun", k, "this"), *[NP("noun", k, c, True) for c in "2345"]]
    ]


BEING = (
    Draft(
        "be",
        lambda: (_predications(), ("pres", "past"), (False, True), ("", "today")),
        lambda p, t, n, m: main(Clause(p[0], "be", t, predicate=p[1], negated=n, time=m)),
    ),
    Draft(
        "compare",
        lambda: (_comparisons(), ("pres", "past")),
        lambda c, t: main(Clause(c[0], "be", t, predicate=c[1], than=c[2])),
    ),
    Draft(
        "sequence",
        lambda: (_sequences(), ("right.correct", "wrong"), ("pres", "past"), (False, True)),
        lambda s, a, t, n: main(
            Clause(s, "be", t, place=NP("noun", "order.sequence", adjective=a), negated=n)
        ),
    ),
    Draft(
        "support.bear",
        lambda: (
            _pillars(),
            _loads(),
            [
                (t, n)
                for t in ("pres", "past", "must", "can", "fut")
                for n in (False, True)
                if not (n and t == "must")
            ],
        ),
        lambda s, o, t: main(Clause(s, "support.bear", t[0], o, negated=t[1])),
    ),
)
