"""Frames of two clauses, and of questions."""

from __future__ import annotations

from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning
from raxalign.corpora.grammar.frames import (
    GENERAL,
    SPECIAL,
    Draft,
    actions,
    persons,
    places,
    simple,
    simple_people,
    states,
    unfronted,
)
from raxalign.corpora.grammar.terms import NP

_REPORTS = (("say", "past"), ("say", "pres"), ("believe", "pres"), ("know.fact", "pres"))
_DEEDS = (*GENERAL, *SPECIAL)

TWO_CLAUSES = (
    Draft(
        "that",
        lambda: (
            simple_people(),
            _REPORTS,
            simple_people(),
            actions(_DEEDS, True),
            unfronted("past", "fut"),
        ),
        lambda s, c, s2, a, m: Meaning("that", (Clause(s, *c), simple(s2, a, m))),
    ),
    Draft(
        "that.be",
        lambda: (simple_people(), _REPORTS, states()),
        lambda s, c, state: Meaning("that", (Clause(s, *c), state._replace(tense="pres"))),
    ),
    Draft(
        "because",
        lambda: (simple_people(), actions(_DEEDS, True), states()),
        lambda s, a, state: Meaning("because", (simple(s, a, ("past", "", False)), state)),
    ),
    Draft(
        "when",
        lambda: (simple_people(), places("place", "city"), simple_people(), actions(_DEEDS, True)),
        lambda s, p, s2, a: Meaning(
            "when",
            (
                Clause(s, "arrive", "past", place=p, place_as="goal"),
                simple(s2, a, ("past", "", False)),
            ),
        ),
    ),
    Draft(
        "if",
        lambda: (simple_people(), actions(_DEEDS, True), simple_people(), actions(_DEEDS, True)),
        lambda s, a, s2, a2: Meaning(
            "if", (simple(s, a, ("pres", "", False)), simple(s2, a2, ("fut", "", False)))
        ),
    ),
    Draft(
        "but",
        lambda: (
            simple_people(),
            actions(_DEEDS, True),
            simple_people(),
            actions(_DEEDS, True),
            ("but", "and"),
        ),
        lambda s, a, s2, a2, k: Meaning(
            k,
            (
                simple(s, a, ("past", "", False)),
                simple(s2, a2, ("past", "", False), negated=k == "but"),
            ),
        ),
    ),
    Draft(
        "relative",
        lambda: (
            [np for np in persons() if not np.adjective and np.det == "def"],
            actions(_DEEDS, True),
            places("city", "building"),
            ("live", "work"),
        ),
        lambda s, a, p, v: Meaning(
            "relative", (simple(s, a, ("past", "", False)), Clause(s, v, "pres", place=p))
        ),
    ),
    Draft(
        "question",
        lambda: (simple_people()[:-3], actions(_DEEDS), unfronted("past", "pres", "fut")),
        lambda s, a, m: Meaning("question", (simple(s, a, m),)),
    ),
    Draft(
        "who",
        lambda: (actions(_DEEDS), unfronted("past", "pres")),
        lambda a, m: Meaning("who", (simple(NP("pronoun", "he"), a, m),)),
    ),
    Draft(
        "where",
        lambda: (
            simple_people()[:-3],
            actions(("buy", "find", "lose", "see", "park.vehicle", "watch.look", "read", "hear")),
            ("past", "pres"),
        ),
        lambda s, a, t: Meaning("where", (simple(s, a, (t, "", False)),)),
    ),
)
