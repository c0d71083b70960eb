"""Noun phrases: agreement, case, order and the words' links. Bulgarian and Greek have files of
their own.
"""

from __future__ import annotations

from functools import cache

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.bulgarian import bulgarian_phrase, bulgarian_preposition
from raxalign.corpora.grammar.greek import (
    greek_article,
    greek_nu,
    greek_phrase,
    greek_prepositional,
)
from raxalign.corpora.grammar.lexicon import Adjective, Noun
from raxalign.corpora.grammar.terms import (
    ADJECTIVE,
    ARTICLE,
    COUNTS,
    NOUN,
    NP,
    OWNERS,
    PREPOSITION,
    SURNAME,
    Token,
    determined,
)


@cache
def phrase(lang: str, np: NP, case: str = "nom", preposition: str = "") -> tuple[Token, ...]:
    """Return the words of a phrase in a case (nom, acc, dat), after a preposition of the language
    (uncontracted) or none.
    """
    if np.sort == "pronoun":
        return ((_PRONOUNS[lang][np.key], (NOUN,), "PRON", ""),) if lang in _PRONOUNS else ()
    if np.sort != "noun":
        return _name(lang, np, case, preposition)
    noun = lexicon.nouns()[np.key].lang[lang]
    adjective = lexicon.adjectives()[np.adjective].lang[lang] if np.adjective else None
    assert isinstance(noun, Noun)
    assert adjective is None or isinstance(adjective, Adjective)
    return _MAKERS[lang](np, noun, adjective, case, preposition)


def gender(lang: str, np: NP) -> str:
    """Return the grammatical gender (m, f, n) of a phrase in a language."""
    if np.sort == "noun":
        noun = lexicon.nouns()[np.key].lang[lang]
        assert isinstance(noun, Noun)
        return noun.gender
    if np.sort in ("city", "org"):
        return "n" if np.sort == "city" else "f"
    return "f" if np.sort == "female" or np.key == "she" else "m"


_PRONOUNS = {
    "en": {"he": "he", "she": "she", "they": "they"},
    "de": {"he": "er", "she": "sie", "they": "sie"},
    "fr": {"he": "il", "she": "elle", "they": "ils"},
}


def _english(
    np: NP, noun: Noun, adjective: Adjective | None, _case: str, preposition: str
) -> tuple[Token, ...]:
    head = noun.plural if np.plural else noun.nominative
    inner: list[Token] = [(adjective.forms[0], (ADJECTIVE,), "ADJ", "")] if adjective else []
    inner.append((head, (NOUN,), "NOUN", ""))
    det = {
        "def": "the",
        "indef": "an" if inner[0][0][0] in "aeiou" else "a",
        "this": "these" if np.plural else "this",
        "some": "some",
    }.get(np.det)
    offsets, tag = determined(np)
    before: list[Token] = [(preposition, (PREPOSITION,), "ADP", "")] if preposition else []
    return (*before, (det or COUNTS["en"].get(np.det, np.det), offsets, tag, ""), *inner)


_DE_DEF = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
}
_DE_EIN = {"nom": ("", "e", "", "e"), "acc": ("en", "e", "", "e"), "dat": ("em", "er", "em", "en")}
_DE_CONTRACTED = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


def _german_determiner(np: NP, case: str, column: int) -> str:
    article = _DE_DEF[case][column]
    if np.det == "def":
        return article
    if np.det == "this":
        return "dies" + {"der": "er", "die": "e", "das": "es", "den": "en", "dem": "em"}[article]
    if np.det == "some":
        return "einigen" if case == "dat" else "einige"
    if np.det.isdigit():
        return COUNTS["de"][np.det]
    return {"indef": "ein", "his": "sein", "her": "ihr", "their": "ihr"}[np.det] + _DE_EIN[case][
        column
    ]


def _german_ending(np: NP, case: str, column: int) -> str:
    if np.plural:
        strong = np.det == "some" or np.det.isdigit()
        return "e" if strong and case != "dat" else "en"
    weak = np.det in ("def", "this")
    if case == "dat" or (case == "acc" and column == 0):
        return "en"
    if weak or column == 1:
        return "e"
    return "er" if column == 0 else "es"


def _german(
    np: NP, noun: Noun, adjective: Adjective | None, case: str, preposition: str
) -> tuple[Token, ...]:
    column = 3 if np.plural else "mfn".index(noun.gender)
    head = (
        (noun.plural_oblique if case == "dat" else noun.plural)
        if np.plural
        else (noun.nominative if case == "nom" else noun.oblique)
    )
    offsets, tag = determined(np)
    det: Token = (_german_determiner(np, case, column), offsets, tag, "")
    words: list[Token] = [det]
    if preposition:
        contracted = _DE_CONTRACTED.get((preposition, det[0])) if np.det == "def" else None
        words = (
            [(contracted, (PREPOSITION, ARTICLE), "ADP", "")]
            if contracted
            else [(preposition, (PREPOSITION,), "ADP", ""), det]
        )
    if adjective:
        words.append(
            (adjective.forms[1] + _german_ending(np, case, column), (ADJECTIVE,), "ADJ", "")
        )
    return (*words, (head, (NOUN,), "NOUN", ""))


def _spanish(
    np: NP, noun: Noun, adjective: Adjective | None, _case: str, preposition: str
) -> tuple[Token, ...]:
    index = (noun.gender == "f") + 2 * np.plural
    tables = {
        "def": ("el", "la", "los", "las"),
        "indef": ("un", "una", "unos", "unas"),
        "this": ("este", "esta", "estos", "estas"),
        "some": ("", "", "algunos", "algunas"),
    }
    det = (
        tables[np.det][index]
        if np.det in tables
        else "su"
        if np.det in OWNERS
        else COUNTS["es"][np.det]
    )
    offsets, tag = determined(np)
    words: list[Token] = [(det, offsets, tag, "")]
    if preposition and det == "el" and preposition in ("a", "de"):
        words = [("al" if preposition == "a" else "del", (PREPOSITION, ARTICLE), "ADP", "")]
    elif preposition:
        words.insert(0, (preposition, (PREPOSITION,), "ADP", ""))
    words.append((noun.plural if np.plural else noun.nominative, (NOUN,), "NOUN", ""))
    if adjective:
        words.append((adjective.forms[index], (ADJECTIVE,), "ADJ", ""))
    return tuple(words)


def _french_determiner(np: NP, feminine: bool, elided: bool) -> str:
    if np.plural:
        plural = {
            "def": "les",
            "this": "ces",
            "some": "quelques",
            "his": "ses",
            "her": "ses",
            "their": "leurs",
        }
        return plural.get(np.det) or COUNTS["fr"][np.det]
    if np.det == "def":
        return "l'" if elided else "la" if feminine else "le"
    if np.det == "indef":
        return "une" if feminine else "un"
    if np.det == "this":
        return "cette" if feminine else "cet" if elided else "ce"
    return "leur" if np.det == "their" else "sa" if feminine and not elided else "son"


def _french_inner(np: NP, noun: Noun, adjective: Adjective | None) -> tuple[list[Token], bool]:
    """Noun and adjective in their order, and whether an article before them is elided."""
    feminine = noun.gender == "f"
    head: Token = (noun.plural if np.plural else noun.nominative, (NOUN,), "NOUN", "")
    head_elides = lexicon.starts_with_vowel(head[0]) and not noun.aspirated
    inner = [head]
    if adjective:
        form = adjective.forms[feminine + 2 * np.plural]
        if (
            adjective.before
            and adjective.before_vowel
            and head_elides
            and not feminine
            and not np.plural
        ):
            form = adjective.before_vowel
        inner.insert(0 if adjective.before else 1, (form, (ADJECTIVE,), "ADJ", ""))
    elided = head_elides if inner[0] is head else lexicon.starts_with_vowel(inner[0][0])
    return inner, elided


def _french(
    np: NP, noun: Noun, adjective: Adjective | None, _case: str, preposition: str
) -> tuple[Token, ...]:
    inner, elided = _french_inner(np, noun, adjective)
    det = _french_determiner(np, noun.gender == "f", elided)
    offsets, tag = determined(np)
    words: list[Token] = [(det, offsets, tag, "")]
    contracted = {
        ("à", "le"): "au",
        ("à", "les"): "aux",
        ("de", "le"): "du",
        ("de", "les"): "des",
    }.get((preposition, det))
    if contracted:
        words = [(contracted, (PREPOSITION, ARTICLE), "ADP", "")]
    elif preposition:
        words.insert(
            0,
            (
                "d'" if preposition == "de" and lexicon.starts_with_vowel(det) else preposition,
                (PREPOSITION,),
                "ADP",
                "",
            ),
        )
    return (*words, *inner)


_MAKERS = {
    "en": _english,
    "de": _german,
    "es": _spanish,
    "fr": _french,
    "bg": bulgarian_phrase,
    "el": greek_phrase,
}


def _name(lang: str, np: NP, case: str, preposition: str) -> tuple[Token, ...]:
    """A person or a city; Greek sets the article before both."""
    name = lexicon.names(np.sort)[int(np.key)][lang]
    entity = {"city": "LOC", "org": "ORG"}.get(np.sort, "PER")
    words: list[Token] = []
    if lang == "el":
        sort = {"male": "m", "female": "f"}.get(np.sort) or name.partition(" ")[0]
        name = name.partition(" ")[2] or name
        name = name[:-1] if sort == "m" and case != "nom" else name
        article = greek_nu(greek_article("f" if sort == "pl" else sort, sort == "pl", case), name)
        words = greek_prepositional([(article, (ARTICLE,), "DET", "")], preposition)
    elif preposition:
        fitted = bulgarian_preposition(preposition, name) if lang == "bg" else preposition
        words = [
            (
                (
                    "d'"
                    if (lang, preposition) == ("fr", "de") and lexicon.starts_with_vowel(name)
                    else fitted
                ),
                (PREPOSITION,),
                "ADP",
                "",
            )
        ]
    first, _, rest = name.partition(" ")
    words.append((first, (NOUN,), "PROPN", entity))
    if rest:
        words.append((rest, (SURNAME,), "PROPN", entity))
    if np.surname >= 0:
        words.append((lexicon.names("surname")[np.surname][lang], (SURNAME,), "PROPN", entity))
    return tuple(words)
