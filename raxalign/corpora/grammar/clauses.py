"""Clauses before any language, and their members in six languages: phrases, times and places."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.lexicon import Noun
from raxalign.corpora.grammar.phrases import phrase
from raxalign.corpora.grammar.terms import NP, PREPOSITION, Token

# Where the offsets of a clause's members begin.
(
    SUBJECT,
    OBJECT,
    RECIPIENT,
    PLACE,
    VERB,
    NEGATION,
    MODAL,
    TIME,
    CONJUNCTION,
    PREDICATE,
    RELATIVE,
    LIKENESS,
    STRIDE,
) = (
    0,
    50,
    100,
    150,
    200,
    210,
    220,
    230,
    260,
    270,
    280,
    300,
    400,
)
MODALS = ("want", "can", "must")


class Clause(NamedTuple):
    """A clause before any language: `tense` is pres, past, fut or a modal (want, can, must).

    `place_as` is in, to or near; `fronted` puts the time first; `predicate` is an adjective (then
    `verb` is "be"), with `than` in a comparison; `like` is what the subject does it like.
    """

    subject: NP
    verb: str
    tense: str = "past"
    object: NP | None = None
    recipient: NP | None = None
    place: NP | None = None
    place_as: str = "in"
    time: str = ""
    fronted: bool = False
    negated: bool = False
    predicate: str = ""
    than: NP | None = None
    like: NP | None = None


def moved(tokens: tuple[Token, ...] | list[Token], by: int) -> list[Token]:
    """Return the tokens with their offsets moved by a number."""
    return [
        (form, tuple([offset + by for offset in offsets]), tag, entity)
        for form, offsets, tag, entity in tokens
    ]


@cache
def at(lang: str, np: NP, base: int, case: str = "nom", preposition: str = "") -> list[Token]:
    """Return a phrase with its offsets in the clause."""
    return moved(phrase(lang, np, case, preposition), base)


def word(form: str, offset: int, tag: str) -> Token:
    """Return a word that expresses one thing."""
    return form, (offset,), tag, ""


@cache
def times() -> dict[str, tuple[frozenset[str], dict[str, tuple[Token, ...]]]]:
    """Return the adjuncts of time: the tenses that they go with and their words by language."""
    table = {}
    for key, tenses, *cells in lexicon.rows("times"):
        by_lang = {}
        for lang, cell in zip(lexicon.LANGS, cells, strict=True):
            single = " " not in cell and "_" not in cell
            by_lang[lang] = tuple(
                _time_word(item, single and key not in ("monday", "friday"))
                for item in cell.split()
            )
        table[key] = (frozenset(tenses.split(",")), by_lang)
    return table


def _time_word(item: str, is_adverb: bool) -> Token:
    form, _, codes = item.partition("_")
    offsets = tuple(int(code) for code in codes.split(",")) if codes else (0,)
    tag = "ADV" if is_adverb else {0: "NOUN", 1: "DET", 5: "ADP", 10: "ADJ"}[offsets[0]]
    return form, tuple(TIME + offset for offset in offsets), tag, ""


_PLACES = {
    "to": {"en": "to", "de": "zu", "es": "a", "el": "σε"},
    "near": {"en": "near", "de": "bei", "es": "cerca", "fr": "près", "bg": "близо", "el": "κοντά"},
    "from": {"en": "from", "de": "aus", "es": "de", "fr": "de", "bg": "от", "el": "από"},
    "firm": {"en": "at", "de": "bei", "es": "en", "fr": "chez", "bg": "в", "el": "σε"},
    "city": {"en": "in", "de": "in", "es": "en", "fr": "à", "bg": "в", "el": "σε"},
    "to_city": {"en": "to", "de": "nach", "es": "a", "fr": "à", "bg": "в", "el": "σε"},
}


@cache
def place(lang: str, np: NP, sense: str) -> list[Token]:
    """Return the adjunct or complement of place: in it, to it, from it or near it."""
    if np.sort == "city" and sense in ("in", "to", "goal"):
        if sense == "goal" and lang == "es":
            return at(lang, np, PLACE, "dat", "a")
        return at(lang, np, PLACE, "dat", _PLACES["to_city" if sense == "to" else "city"][lang])
    if sense == "near":
        second = {"es": "de", "fr": "de", "bg": "до", "el": "σε"}.get(lang)
        if second:
            return [
                word(_PLACES["near"][lang], PLACE + PREPOSITION, "ADV"),
                *at(lang, np, PLACE, "dat", second),
            ]
        return at(lang, np, PLACE, "dat", _PLACES["near"][lang])
    preposition = _PLACES.get(sense, {}).get(lang)
    if sense == "goal" and lang == "es":
        preposition = "a"
    if preposition is None:
        noun = lexicon.nouns()[np.key].lang[lang]
        assert isinstance(noun, Noun)
        preposition = noun.place or "de"
        # In Bulgarian and French one goes "to" a place with the preposition of being there.
    return at(lang, np, PLACE, "dat", preposition)
