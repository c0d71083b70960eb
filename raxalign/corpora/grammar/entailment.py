"""Entailment: premise, hypothesis and label, parallel over the languages.

The hypothesis is drawn without regard to the label, and the premise is made for it: so the
hypothesis alone says nothing. What decides is a more special or more general noun, negation on
either side, opposites, numbers, swapped roles, and whether a clause stands under a verb of knowing
(which vouches for it) or of saying and believing (which do not). Numbers are meant exactly: who
bought two did not buy five.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import Clause
from raxalign.corpora.grammar.compose import Meaning, tokens
from raxalign.corpora.grammar.frames import fitting, named, of_class, simple_people, states
from raxalign.corpora.grammar.sentences import realization
from raxalign.corpora.grammar.splits import Draw, Pool, Split
from raxalign.corpora.grammar.terms import NP

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = ("entailment", "neutral", "contradiction")
KINDS_OF = {
    "animal": "animal",
    "fruit": "fruit",
    "garment": "garment",
    "tool": "tool",
    "flower": "flower",
    "instrument": "music",
}
_DEALINGS = ("buy", "sell", "find", "lose", "see", "seek", "bring", "steal")
_MEETINGS = ("see", "help", "call", "invite", "await", "support.help", "follow", "love", "seek")


@dataclass(frozen=True)
class Entailment:
    """A labelled pair of sentences, as words; the same id is the same pair in all languages."""

    id: int
    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: Label


def _under(verb: str, holder: NP, clause: Clause) -> Meaning:
    return Meaning("that", (Clause(holder, verb, "pres"), clause))


def _holder(draw: Draw, clause: Clause) -> NP:
    """Somebody else than who the clause is about."""
    holders = [np for np in named() if np not in (clause.subject, clause.object)]
    return holders[draw(len(holders))]


def _beside(draw: Draw, clause: Clause) -> Meaning:
    """The clause with another one that says nothing about it."""
    others = [
        state for state in _neutral_states() if state.subject not in (clause.subject, clause.object)
    ]
    other = others[draw(len(others))]._replace(tense=clause.tense)
    return Meaning("and", (clause, other) if draw(2) else (other, clause))


@cache
def _neutral_states() -> list[Clause]:
    return [
        state for state in states() if "person" not in lexicon.nouns()[state.subject.key].classes
    ][::3]


def _denied(clause: Clause) -> Clause:
    return clause._replace(negated=not clause.negated)


def _framed(draw: Draw, premise: Clause) -> Meaning:
    """The premise alone, next to another clause, or vouched for. Which of the three it is does not
    depend on the label.
    """
    frame = draw(4)
    if frame == 0:
        return _beside(draw, premise)
    return (
        _under("know.fact", _holder(draw, premise), premise)
        if frame == 1
        else Meaning("main", (premise,))
    )


def _vouched(
    draw: Draw, label: Label, clause: Clause, contrary: Clause, stranger: Clause
) -> Meaning:
    """The clause (or its contrary) next to another, under knowing, or under saying and believing;
    neutral too is what a stranger did.
    """
    if label == "neutral":
        if draw(2):
            return _under(
                ("say", "believe")[draw(2)], _holder(draw, clause), clause if draw(2) else contrary
            )
        said = stranger
    else:
        said = clause if label == "entailment" else contrary
    return _beside(draw, said) if draw(2) else _under("know.fact", _holder(draw, clause), said)


def _people() -> list[NP]:
    return simple_people()[:-3]


def _dealing(draw: Draw) -> tuple[NP, str]:
    """Who did what with something."""
    people = _people()
    return people[draw(len(people))], _DEALINGS[draw(len(_DEALINGS))]


def _polarity(draw: Draw, label: Label) -> tuple[Meaning, Clause]:
    keys = [key for group in KINDS_OF.values() for key in of_class(group)]
    subject, verb = _dealing(draw)
    clause = Clause(subject, verb, "past", NP("noun", keys[draw(len(keys))]), negated=bool(draw(2)))
    stranger = clause._replace(subject=_holder(draw, clause), negated=bool(draw(2)))
    return _vouched(draw, label, clause, _denied(clause), stranger), clause


def _opposites(draw: Draw, label: Label) -> tuple[Meaning, Clause]:
    found = _contrasts()
    clause = found[draw(len(found))]._replace(tense="pres")
    opposite = clause._replace(predicate=lexicon.adjectives()[clause.predicate].opposite)
    others = [
        other
        for other in found
        if other.subject != clause.subject
        and other.predicate in (clause.predicate, opposite.predicate)
    ]
    # Where nothing else can be so (only answers are right), something quite different is said.
    others = others or [other for other in found if other.subject != clause.subject]
    stranger = others[draw(len(others))]._replace(tense="pres")
    return _vouched(draw, label, clause, opposite if draw(2) else _denied(clause), stranger), clause


@cache
def _contrasts() -> list[Clause]:
    opposite = {key: entry.opposite for key, entry in lexicon.adjectives().items()}
    return [state for state in states() if opposite[state.predicate] in fitting(state.subject.key)]


def _other(draw: Draw, group: str) -> str:
    """A noun of another kind."""
    groups = [other for other in sorted(KINDS_OF) if other != group]
    members = of_class(KINDS_OF[groups[draw(len(groups))]])
    return members[draw(len(members))]


def _kinds(draw: Draw, label: Label) -> tuple[Meaning, Clause]:
    group = sorted(KINDS_OF)[draw(len(KINDS_OF))]
    members = of_class(KINDS_OF[group])
    member, general, negated = members[draw(len(members))], bool(draw(2)), draw(3) == 0
    subject, verb = _dealing(draw)
    clause = Clause(
        subject, verb, "past", NP("noun", group if general else member), negated=negated
    )
    adjectives = fitting(member)
    special = clause._replace(
        object=NP(
            "noun",
            member,
            adjective="" if general and draw(2) else adjectives[draw(len(adjectives))],
        )
    )
    if label == "contradiction":
        return (
            _framed(draw, special._replace(negated=False) if negated else _denied(clause)),
            clause,
        )
    if label == "entailment":
        return (_beside(draw, clause) if negated else _framed(draw, special)), clause
    # What was done with something of another kind says nothing; nor does the general about the
    # special.
    instead = (
        NP("noun", group)
        if not general and not negated and draw(2)
        else NP("noun", _other(draw, group))
    )
    said = clause._replace(object=instead, negated=bool(draw(2)) and instead.key != group)
    return _framed(draw, said), clause


def _numbers(draw: Draw, label: Label) -> tuple[Meaning, Clause]:
    group = sorted(KINDS_OF)[draw(len(KINDS_OF))]
    members = of_class(KINDS_OF[group])
    key, count = members[draw(len(members))], "2345"[draw(4)]
    subject, verb = _dealing(draw)
    clause = Clause(subject, verb, "past", NP("noun", key, count, True))
    adjectives = ["", *fitting(key)]
    other = [digit for digit in "2345" if digit != count][draw(3)]
    if label == "entailment":
        np = NP("noun", key, count, True, adjectives[1 + draw(len(adjectives) - 1)])
    elif label == "contradiction":
        np = NP("noun", key, other, True)
    else:
        np = NP("noun", _other(draw, group), count if draw(2) else other, True)
        np = np._replace(adjective=fitting(np.key)[0] if draw(2) else "")
    return _framed(draw, clause._replace(object=np)), clause


_TIMES = ("yesterday", "today", "monday", "friday", "evening", "morning", "winter", "summer")


def _roles(draw: Draw, label: Label) -> tuple[Meaning, Clause]:
    people = _people()
    subject = people[draw(len(people))]
    rest = [np for np in people if np != subject]
    clause = Clause(
        subject,
        _MEETINGS[draw(len(_MEETINGS))],
        "past",
        rest[draw(len(rest))],
        negated=draw(3) == 0,
    )
    assert clause.object is not None
    dated = clause._replace(time=_TIMES[draw(len(_TIMES))], negated=False)
    if label == "entailment":
        return (_beside(draw, clause) if clause.negated else _framed(draw, dated)), clause
    if label == "contradiction":
        return _framed(draw, dated if clause.negated else _denied(clause)), clause
    swapped = (dated if draw(2) else _denied(dated)._replace(time=""))._replace(
        subject=clause.object, object=clause.subject
    )
    return _framed(draw, swapped), clause


_FAMILIES = (_polarity, _kinds, _opposites, _roles, _numbers)


def _make(stream: int, draw: Draw) -> tuple[tuple[Meaning, Clause, Label], str]:
    label = LABELS[stream % 3]
    premise, hypothesis = _FAMILIES[stream // 3](draw, label)
    # The split goes by the hypothesis, so that none is in two splits, not even with another
    # premise.
    return (premise, hypothesis, label), repr(hypothesis)


@cache
def _pool(split: Split, seed: int) -> Pool[tuple[Meaning, Clause, Label]]:
    return Pool("entailment", split, seed, len(LABELS) * len(_FAMILIES), _make)


def entailment(n: int, lang: str, split: Split, seed: int = 0) -> list[Entailment]:
    """Return the first n examples of a split (train, dev, test), balanced over the labels; no
    hypothesis is in two splits.
    """
    found = []
    for number, (premise, hypothesis, label) in enumerate(_pool(split, seed).first(n)):
        words = realization(tokens(lang, premise)).words
        found.append(
            Entailment(
                number,
                words,
                realization(tokens(lang, Meaning("main", (hypothesis,)))).words,
                label,
            )
        )
    return found
