"""The sentence frames of the phrasebook, in the order in which sentences take turns."""

from __future__ import annotations

from functools import cache

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning
from raxalign.corpora.grammar.frames import (
    GENERAL,
    OWNABLE,
    SPECIAL,
    Frame,
    actions,
    fitting,
    moments,
    named,
    of_class,
    people,
    persons,
    places,
    simple,
    simple_people,
    states,
    things,
    unfronted,
)
from raxalign.corpora.grammar.terms import NP

_PRONOUN_VERBS = ("see", "seek", "call", "invite", "support.help", "follow", "love")


def _main(clause: Clause) -> Meaning:
    return Meaning("main", (clause,))


def _possessions(person: NP) -> str:
    """The owner's determiner for a subject."""
    if person.is_plural:
        return "their"
    if person.sort == "noun":
        return "her" if "female" in lexicon.nouns()[person.key].classes else "his"
    return "her" if person.sort == "female" or person.key == "she" else "his"


def _predications() -> list[tuple[NP, str]]:
    keys = of_class(
        "person",
        "animal",
        "vehicle",
        "garment",
        "tool",
        "flower",
        "fruit",
        "food",
        "thing",
        "furniture",
        "opening",
        "room",
        "place",
        "building",
        "abstract",
        "show",
        "text",
        "nature",
        "sign",
    )
    found = []
    for key in keys:
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
    found = []
    for group in (
        "vehicle",
        "garment",
        "building",
        "place",
        "furniture",
        "person",
        "show",
        "nature",
        "animal",
        "tool",
        "fruit",
    ):
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


def _basic() -> list[Frame]:
    moments_all = moments("pres", "past", "fut")
    return [
        Frame(
            "transitive",
            (people(), actions(GENERAL), moments_all),
            lambda s, a, m: _main(simple(s, a, m)),
        ),
        Frame(
            "special",
            (people(), actions(SPECIAL), moments_all),
            lambda s, a, m: _main(simple(s, a, m)),
        ),
        Frame(
            "somewhere",
            (
                people(),
                actions(
                    ("buy", "find", "lose", "seek", "forget", "sell", "eat", "read", "see"), True
                ),
                places("place", "work", "nature", "city"),
                ("past", "fut", "pres"),
            ),
            lambda s, a, p, t: _main(simple(s, a, (t, "", False), place=p)),
        ),
        Frame(
            "negated",
            (people(), actions((*GENERAL, *SPECIAL), True), ("pres", "past", "fut", "can", "want")),
            lambda s, a, t: _main(simple(s, a, (t, "", False), negated=True)),
        ),
        Frame(
            "modal",
            (people(), actions((*GENERAL, *SPECIAL)), ("want", "can", "must")),
            lambda s, a, t: _main(simple(s, a, (t, "", False))),
        ),
        Frame(
            "pronoun",
            ([*named(), *persons()], _PRONOUN_VERBS, ("he", "she"), moments("past", "pres")),
            lambda s, v, o, m: _main(simple(s, (v, NP("pronoun", o)), m)),
        ),
        Frame(
            "gift",
            (
                people(),
                actions(("give", "show.point", "send", "bring"), True),
                [*persons()[::3], *named()],
                moments("past", "fut", "pres")[::2],
            ),
            lambda s, a, r, m: _main(simple(s, a, m, recipient=r)),
        ),
        Frame(
            "owned",
            (
                people(),
                ("sell", "find", "lose", "seek", "bring", "forget", "see"),
                OWNABLE,
                moments("past", "fut"),
            ),
            lambda s, v, k, m: _main(simple(s, (v, NP("noun", k, _possessions(s))), m)),
        ),
        Frame(
            "kin",
            (
                people(),
                ("see", "help", "call", "invite", "await", "support.help", "love"),
                of_class("kin"),
                moments("past", "pres", "fut"),
            ),
            lambda s, v, k, m: _main(simple(s, (v, NP("noun", k, _possessions(s))), m)),
        ),
        Frame("like.enjoy", (people(), actions(("like.enjoy",), True), (False, True)), _liking),
    ]


def _liking(subject: NP, action: tuple[str, NP], negated: bool) -> Meaning:
    return _main(Clause(subject, action[0], "pres", action[1], negated=negated))


def _landmarks() -> list[NP]:
    """What other places are near to; banks are left out, as nothing would tell which is meant."""
    return [
        np for np in places("place", "work", "nature", "city") if not np.key.startswith("bank.")
    ]


def _motion() -> list[Frame]:
    return [
        Frame(
            "go",
            (
                people(),
                [np for np in places("place", "work", "nature", "city") if np.key != "bank.river"],
                moments("past", "fut", "pres"),
                (False, True),
            ),
            lambda s, p, m, n: _main(
                Clause(s, "go", m[0], place=p, place_as="to", time=m[1], fronted=m[2], negated=n)
            ),
        ),
        Frame(
            "come",
            (people(), places("city"), moments("past", "fut"), ("come", "arrive")),
            lambda s, p, m, v: _main(
                Clause(
                    s,
                    v,
                    m[0],
                    place=p,
                    place_as="from" if v == "come" else "goal",
                    time=m[1],
                    fronted=m[2],
                )
            ),
        ),
        Frame(
            "live",
            (
                people(),
                [*places("city"), *places("building", "nature")[2:]],
                ("pres", "past", "want"),
                (False, True),
                ("live", "work"),
            ),
            lambda s, p, t, n, v: _main(Clause(s, v, t, place=p, negated=n)),
        ),
        Frame(
            "work",
            (
                people(),
                places("work", "place"),
                moments("pres", "past", "fut"),
                ("work", "wait", "sleep", "sing", "dance"),
            ),
            lambda s, p, m, v: _main(Clause(s, v, m[0], place=p, time=m[1], fronted=m[2])),
        ),
        Frame(
            "like.as",
            (
                people(),
                ("sing", "run", "sleep", "dance", "work"),
                of_class("animal", "person"),
                ("pres", "past"),
            ),
            lambda s, v, k, t: _main(Clause(s, v, t, like=NP("noun", k, "indef"))),
        ),
        Frame(
            "near",
            (
                [
                    NP("noun", k, d)
                    for k in of_class("place", "work", "building")
                    for d in ("def", "this")
                ],
                _landmarks(),
                ("pres", "past"),
                (False, True),
            ),
            lambda s, p, t, n: _main(Clause(s, "be", t, place=p, place_as="near", negated=n)),
        ),
        Frame(
            "exist",
            (
                [
                    np
                    for k in of_class(
                        "animal", "vehicle", "thing", "furniture", "flower", "person", "tool"
                    )
                    for np in things(k)
                    if np.det in ("indef", "some", "2", "3", "4", "5")
                ],
                places("place", "work", "nature", "city"),
            ),
            lambda s, p: Meaning("exist", (Clause(s, "be", "pres", place=p),)),
        ),
    ]


def _being() -> list[Frame]:
    sequences = [
        NP("noun", k, d, True, a)
        for k in of_class("text", "sign", "thing", "animal", "vehicle", "abstract", "person")
        for d in ("def", "this", "some", "3")
        for a in ("", *fitting(k))
    ]
    loads = [np for k in of_class("load") for np in things(k, True)]
    pillars = [
        np
        for k in of_class("pillar")
        for np in [NP("noun", k), NP("noun", k, "this"), *[NP("noun", k, c, True) for c in "2345"]]
    ]
    return [
        Frame(
            "be",
            (_predications(), ("pres", "past"), (False, True), ("", "today")),
            lambda p, t, n, m: _main(Clause(p[0], "be", t, predicate=p[1], negated=n, time=m)),
        ),
        Frame(
            "compare",
            (_comparisons(), ("pres", "past")),
            lambda c, t: _main(Clause(c[0], "be", t, predicate=c[1], than=c[2])),
        ),
        Frame(
            "sequence",
            (sequences, ("right.correct", "wrong"), ("pres", "past"), (False, True)),
            lambda s, a, t, n: _main(
                Clause(s, "be", t, place=NP("noun", "order.sequence", adjective=a), negated=n)
            ),
        ),
        Frame(
            "support.bear",
            (
                pillars,
                loads,
                [
                    (t, n)
                    for t in ("pres", "past", "must", "can", "fut")
                    for n in (False, True)
                    if not (n and t == "must")
                ],
            ),
            lambda s, o, t: _main(Clause(s, "support.bear", t[0], o, negated=t[1])),
        ),
    ]


def _two_clauses() -> list[Frame]:
    people_, acts = simple_people(), actions((*GENERAL, *SPECIAL), True)
    clause = [
        (v, t)
        for v, t in (("say", "past"), ("say", "pres"), ("believe", "pres"), ("know.fact", "pres"))
    ]
    return [
        Frame(
            "that",
            (people_, clause, simple_people(), acts, unfronted("past", "fut")),
            lambda s, c, s2, a, m: Meaning("that", (Clause(s, *c), simple(s2, a, m))),
        ),
        Frame(
            "that.be",
            (people_, clause, states()),
            lambda s, c, state: Meaning("that", (Clause(s, *c), state._replace(tense="pres"))),
        ),
        Frame(
            "because",
            (people_, acts, states()),
            lambda s, a, state: Meaning("because", (simple(s, a, ("past", "", False)), state)),
        ),
        Frame(
            "when",
            (people_, places("place", "city"), simple_people(), acts),
            lambda s, p, s2, a: Meaning(
                "when",
                (
                    Clause(s, "arrive", "past", place=p, place_as="goal"),
                    simple(s2, a, ("past", "", False)),
                ),
            ),
        ),
        Frame(
            "if",
            (people_, acts, simple_people(), acts),
            lambda s, a, s2, a2: Meaning(
                "if", (simple(s, a, ("pres", "", False)), simple(s2, a2, ("fut", "", False)))
            ),
        ),
        Frame(
            "but",
            (people_, acts, simple_people(), acts, ("but", "and")),
            lambda s, a, s2, a2, k: Meaning(
                k,
                (
                    simple(s, a, ("past", "", False)),
                    simple(s2, a2, ("past", "", False), negated=k == "but"),
                ),
            ),
        ),
        Frame(
            "relative",
            (
                [np for np in persons() if not np.adjective and np.det == "def"],
                acts,
                places("city", "building"),
                ("live", "work"),
            ),
            lambda s, a, p, v: Meaning(
                "relative", (simple(s, a, ("past", "", False)), Clause(s, v, "pres", place=p))
            ),
        ),
        Frame(
            "question",
            (people_[:-3], actions((*GENERAL, *SPECIAL)), unfronted("past", "pres", "fut")),
            lambda s, a, m: Meaning("question", (simple(s, a, m),)),
        ),
        Frame(
            "who",
            (actions((*GENERAL, *SPECIAL)), unfronted("past", "pres")),
            lambda a, m: Meaning("who", (simple(NP("pronoun", "he"), a, m),)),
        ),
        Frame(
            "where",
            (
                people_[:-3],
                actions(
                    ("buy", "find", "lose", "see", "park.vehicle", "watch.look", "read", "hear")
                ),
                ("past", "pres"),
            ),
            lambda s, a, t: Meaning("where", (simple(s, a, (t, "", False)),)),
        ),
    ]


@cache
def frames() -> tuple[Frame, ...]:
    """All frames; sentence i is of frame i modulo their number."""
    return (*_basic(), *_motion(), *_being(), *_two_clauses())
