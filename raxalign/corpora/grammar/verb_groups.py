"""The verb of a clause in six languages: tense, negation, modals, and the links of its parts."""

from __future__ import annotations

from typing import NamedTuple

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import MODAL, MODALS, NEGATION, VERB, Clause, word
from raxalign.corpora.grammar.lexicon import Adjective, Verb
from raxalign.corpora.grammar.phrases import gender
from raxalign.corpora.grammar.terms import Token


def _verb(lang: str, key: str) -> Verb:
    verb = lexicon.verbs()[key].lang[lang]
    assert isinstance(verb, Verb)
    return verb


class Group(NamedTuple):
    """A verb's words: those before the finite one, the finite one, and those after it (German: at
    the clause's end).
    """

    before: list[Token]
    finite: list[Token]
    after: list[Token]


_BE = {
    "en": {"pres": ("is", "are"), "past": ("was", "were")},
    "de": {"pres": ("ist", "sind"), "past": ("war", "waren")},
    "ser": {"pres": ("es", "son"), "past": ("era", "eran")},
    "estar": {"pres": ("está", "están"), "past": ("estaba", "estaban")},
    "fr": {"pres": ("est", "sont"), "past": ("était", "étaient")},
    "bg": {"pres": ("е", "са"), "past": ("беше", "бяха")},
    "el": {"pres": ("είναι", "είναι"), "past": ("ήταν", "ήταν")},
}
_MODAL_FORMS = {
    "en": {
        "want": ("wants", "want"),
        "can": ("can", "can"),
        "must": ("must", "must"),
        "fut": ("will", "will"),
    },
    "de": {
        "want": ("will", "wollen"),
        "can": ("kann", "können"),
        "must": ("muss", "müssen"),
        "fut": ("wird", "werden"),
    },
    "es": {
        "want": ("quiere", "quieren"),
        "can": ("puede", "pueden"),
        "must": ("debe", "deben"),
        "fut": ("va", "van"),
    },
    "fr": {
        "want": ("veut", "veulent"),
        "can": ("peut", "peuvent"),
        "must": ("doit", "doivent"),
        "fut": ("va", "vont"),
    },
    "bg": {
        "want": ("иска", "искат"),
        "can": ("може", "могат"),
        "must": ("трябва", "трябва"),
        "fut": ("ще", "ще"),
    },
    "el": {
        "want": ("θέλει", "θέλουν"),
        "can": ("μπορεί", "μπορούν"),
        "must": ("πρέπει", "πρέπει"),
        "fut": ("θα", "θα"),
    },
}


def modal(lang: str, tense: str, plural: bool) -> Token:
    """Return the modal or the auxiliary of the future."""
    return word(_MODAL_FORMS[lang][tense][plural], MODAL, "VERB" if tense == "want" else "AUX")


def copula(lang: str, clause: Clause, plural: bool) -> Token:
    """Return the form of "to be"; Spanish chooses by the adjective, and estar for places."""
    name = lang
    if lang == "es":
        name = "estar"
        if clause.predicate:
            adjective = lexicon.adjectives()[clause.predicate].lang["es"]
            assert isinstance(adjective, Adjective)
            name = "estar" if adjective.copula == "e" else "ser"
    return word(_BE[name][clause.tense][plural], VERB, "AUX")


def verb_group(lang: str, clause: Clause, plural: bool) -> Group:
    """Return the words of the verb and of the negation, without clitics."""
    no = clause.negated
    if clause.verb == "be":
        finite = [copula(lang, clause, plural)]
        if lang in ("en", "de"):
            return Group(
                [],
                finite,
                [word("not" if lang == "en" else "nicht", NEGATION, "PART")] if no else [],
            )
        if lang == "fr":
            return (
                Group(
                    [word("n'" if finite[0][0][0] in "eé" else "ne", NEGATION + 1, "PART")],
                    finite,
                    [word("pas", NEGATION, "PART")],
                )
                if no
                else Group([], finite, [])
            )
        return Group(
            [word({"es": "no", "bg": "не", "el": "δεν"}[lang], NEGATION, "PART")] if no else [],
            finite,
            [],
        )
    return _GROUPS[lang](clause, _verb(lang, clause.verb), plural)


def _english(clause: Clause, verb: Verb, plural: bool) -> Group:
    no = [word("not", NEGATION, "PART")] if clause.negated else []
    base = word(verb.forms[0], VERB, "VERB")
    particle = [word(verb.particle, VERB + 2, "ADP")] if verb.particle else []
    if clause.tense in ("fut", *MODALS):
        if clause.tense == "want":
            negation = [word("do" if plural else "does", MODAL + 1, "AUX"), *no] if no else []
            return Group(
                negation,
                [word("want", MODAL, "VERB") if no else modal("en", "want", plural)],
                [word("to", MODAL + 2, "PART"), base, *particle],
            )
        if no and clause.tense == "can":
            return Group([], [("cannot", (MODAL, NEGATION), "AUX", "")], [base, *particle])
        return Group([], [modal("en", clause.tense, plural)], [*no, base, *particle])
    if no:
        auxiliary = "did" if clause.tense == "past" else "do" if plural else "does"
        return Group([word(auxiliary, VERB + 1, "AUX"), *no], [base], particle)
    present = (
        verb.forms[0]
        if plural
        else {"have": "has"}.get(verb.forms[0]) or lexicon.english_plural(verb.forms[0])
    )
    return Group(
        [], [word(verb.forms[1] if clause.tense == "past" else present, VERB, "VERB")], particle
    )


def _german(clause: Clause, verb: Verb, plural: bool) -> Group:
    infinitive, third, participle = verb.forms
    if clause.tense in ("fut", *MODALS):
        return Group(
            [], [modal("de", clause.tense, plural)], [word(verb.prefix + infinitive, VERB, "VERB")]
        )
    if clause.tense == "past":
        auxiliary = (
            ("sind" if plural else "ist") if verb.is_auxiliary_be else "haben" if plural else "hat"
        )
        return Group([], [word(auxiliary, VERB + 1, "AUX")], [word(participle, VERB, "VERB")])
    return Group(
        [],
        [word(infinitive if plural else third, VERB, "VERB")],
        [word(verb.prefix, VERB + 2, "ADP")] if verb.prefix else [],
    )


def _spanish(clause: Clause, verb: Verb, plural: bool) -> Group:
    before = [word("no", NEGATION, "PART")] if clause.negated else []
    if clause.tense in ("fut", *MODALS):
        link = [word("a", MODAL + 2, "ADP")] if clause.tense == "fut" else []
        return Group(
            before, [modal("es", clause.tense, plural)], [*link, word(verb.forms[0], VERB, "VERB")]
        )
    return Group(
        before, [word(verb.forms[(3 if clause.tense == "past" else 1) + plural], VERB, "VERB")], []
    )


def _french(clause: Clause, verb: Verb, plural: bool) -> Group:
    after: list[Token] = []
    if clause.tense in ("fut", *MODALS):
        finite = modal("fr", clause.tense, plural)
        after = [word(verb.forms[0], VERB, "VERB")]
    elif clause.tense == "past":
        participle = verb.forms[3]
        if verb.is_auxiliary_be:
            participle += ("e" if gender("fr", clause.subject) == "f" else "") + (
                "s" if plural else ""
            )
        elif clause.object and clause.object.key == "she" and clause.object.sort == "pronoun":
            participle += "e"
        auxiliary = (
            ("sont" if plural else "est") if verb.is_auxiliary_be else "ont" if plural else "a"
        )
        finite = word(auxiliary, VERB + 1, "AUX")
        after = [word(participle, VERB, "VERB")]
    else:
        finite = word(verb.forms[1 + plural], VERB, "VERB")
    if not clause.negated:
        return Group([], [finite], after)
    ne = "n'" if lexicon.starts_with_vowel(finite[0]) else "ne"
    return Group(
        [word(ne, NEGATION + 1, "PART")], [finite], [word("pas", NEGATION, "PART"), *after]
    )


def _bulgarian(clause: Clause, verb: Verb, plural: bool) -> Group:
    before = [word("не", NEGATION, "PART")] if clause.negated else []
    perfective = word(verb.forms[4 + plural], VERB, "VERB")
    if clause.tense == "fut":
        if clause.negated:
            return Group(
                [("няма", (MODAL, NEGATION), "AUX", ""), word("да", MODAL + 2, "PART")],
                [perfective],
                [],
            )
        return Group([modal("bg", "fut", plural)], [perfective], [])
    if clause.tense in MODALS:
        return Group(
            before, [modal("bg", clause.tense, plural)], [word("да", MODAL + 2, "PART"), perfective]
        )
    return Group(
        before, [word(verb.forms[(2 if clause.tense == "past" else 0) + plural], VERB, "VERB")], []
    )


def _greek(clause: Clause, verb: Verb, plural: bool) -> Group:
    before = [word("δεν", NEGATION, "PART")] if clause.negated else []
    perfective = word(verb.forms[4 + plural], VERB, "VERB")
    if clause.tense == "fut":
        return Group([*before, modal("el", "fut", plural)], [perfective], [])
    if clause.tense in MODALS:
        return Group(
            before, [modal("el", clause.tense, plural)], [word("να", MODAL + 2, "PART"), perfective]
        )
    return Group(
        before, [word(verb.forms[(2 if clause.tense == "past" else 0) + plural], VERB, "VERB")], []
    )


_GROUPS = {
    "en": _english,
    "de": _german,
    "es": _spanish,
    "fr": _french,
    "bg": _bulgarian,
    "el": _greek,
}
