"""Frames of where people are and go, and of what is somewhere."""

from __future__ import annotations

from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning
from raxalign.corpora.grammar.frames import Draft, main, moments, of_class, people, places, things
from raxalign.corpora.grammar.terms import NP


def _landmarks() -> list[NP]:
    """What other places are near to; banks are left out, as nothing would show which sense is
    meant.
    """
    return [
        np for np in places("place", "work", "nature", "city") if not np.key.startswith("bank.")
    ]


MOTION = (
    Draft(
        "go",
        lambda: (
            people(),
            [np for np in places("place", "work", "nature", "city") if np.key != "bank.river"],
            moments("past", "fut", "pres"),
            (False, True),
        ),
        lambda s, p, m, n: main(
            Clause(s, "go", m[0], place=p, place_as="to", time=m[1], fronted=m[2], negated=n)
        ),
    ),
    Draft(
        "come",
        lambda: (people(), places("city"), moments("past", "fut"), ("come", "arrive")),
        lambda s, p, m, v: main(
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
    Draft(
        "live",
        lambda: (
            people(),
            [*places("city"), *places("building", "nature")[2:]],
            ("pres", "past", "want"),
            (False, True),
            ("live", "work"),
        ),
        lambda s, p, t, n, v: main(Clause(s, v, t, place=p, negated=n)),
    ),
    Draft(
        "work",
        lambda: (
            people(),
            places("work", "place"),
            moments("pres", "past", "fut"),
            ("work", "wait", "sleep", "sing", "dance"),
        ),
        lambda s, p, m, v: main(Clause(s, v, m[0], place=p, time=m[1], fronted=m[2])),
    ),
    Draft(
        "like.as",
        lambda: (
            people(),
            ("sing", "run", "sleep", "dance", "work"),
            of_class("animal", "person"),
            ("pres", "past"),
        ),
        lambda s, v, k, t: main(Clause(s, v, t, like=NP("noun", k, "indef"))),
    ),
    Draft(
        "near",
        lambda: (
            [
                NP("noun", k, d)
                for k in of_class("place", "work", "building")
                for d in ("def", "this")
            ],
            _landmarks(),
            ("pres", "past"),
            (False, True),
        ),
        lambda s, p, t, n: main(Clause(s, "be", t, place=p, place_as="near", negated=n)),
    ),
    Draft(
        "exist",
        lambda: (
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
)
