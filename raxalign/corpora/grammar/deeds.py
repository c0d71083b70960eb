"""Frames of what people do to things and to one another, in one clause."""

from __future__ import annotations

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning
from raxalign.corpora.grammar.frames import (
    GENERAL,
    OWNABLE,
    SPECIAL,
    Draft,
    actions,
    main,
    moments,
    named,
    of_class,
    people,
    persons,
    places,
    simple,
)
from raxalign.corpora.grammar.terms import NP

_PRONOUN_VERBS = ("see", "seek", "call", "invite", "support.help", "follow", "love")


def _possessions(person: NP) -> str:
    """The owner's determiner for a subject."""
    if person.is_plural:
        return "their"
    if person.sort == "noun":
        return "her" if "female" in lexicon.nouns()[person.key].classes else "his"
    return "her" if person.sort == "female" or person.key == "she" else "his"


def _liking(subject: NP, action: tuple[str, NP], negated: bool) -> Meaning:
    return main(Clause(subject, action[0], "pres", action[1], negated=negated))


DEEDS = (
    Draft(
        "transitive",
        lambda: (people(), actions(GENERAL), moments("pres", "past", "fut")),
        lambda s, a, m: main(simple(s, a, m)),
    ),
    Draft(
        "special",
        lambda: (people(), actions(SPECIAL), moments("pres", "past", "fut")),
        lambda s, a, m: main(simple(s, a, m)),
    ),
    Draft(
        "somewhere",
        lambda: (
            people(),
            actions(("buy", "find", "lose", "seek", "forget", "sell", "eat", "read", "see"), True),
            places("place", "work", "nature", "city"),
            ("past", "fut", "pres"),
        ),
        lambda s, a, p, t: main(simple(s, a, (t, "", False), place=p)),
    ),
    Draft(
        "negated",
        lambda: (
            people(),
            actions((*GENERAL, *SPECIAL), True),
            ("pres", "past", "fut", "can", "want"),
        ),
        lambda s, a, t: main(simple(s, a, (t, "", False), negated=True)),
    ),
    Draft(
        "modal",
        lambda: (people(), actions((*GENERAL, *SPECIAL)), ("want", "can", "must")),
        lambda s, a, t: main(simple(s, a, (t, "", False))),
    ),
    Draft(
        "pronoun",
        lambda: ([*named(), *persons()], _PRONOUN_VERBS, ("he", "she"), moments("past", "pres")),
        lambda s, v, o, m: main(simple(s, (v, NP("pronoun", o)), m)),
    ),
    Draft(
        "gift",
        lambda: (
            people(),
            actions(("give", "show.point", "send", "bring"), True),
            [*persons()[::3], *named()],
            moments("past", "fut", "pres")[::2],
        ),
        lambda s, a, r, m: main(simple(s, a, m, recipient=r)),
    ),
    Draft(
        "owned",
        lambda: (
            people(),
            ("sell", "find", "lose", "seek", "bring", "forget", "see"),
            OWNABLE,
            moments("past", "fut"),
        ),
        lambda s, v, k, m: main(simple(s, (v, NP("noun", k, _possessions(s))), m)),
    ),
    Draft(
        "kin",
        lambda: (
            people(),
            ("see", "help", "call", "invite", "await", "support.help", "love"),
            of_class("kin"),
            moments("past", "pres", "fut"),
        ),
        lambda s, v, k, m: main(simple(s, (v, NP("noun", k, _possessions(s))), m)),
    ),
    Draft("like.enjoy", lambda: (people(), actions(("like.enjoy",), True), (False, True)), _liking),
)
