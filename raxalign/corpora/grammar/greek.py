"""Greek noun phrases: articles by gender and case, contraction with prepositions, clitic owners and
their accents.
"""

from __future__ import annotations

import re

from raxalign.corpora.grammar.lexicon import Adjective, Noun
from raxalign.corpora.grammar.terms import (
    ADJECTIVE,
    ARTICLE,
    NOUN,
    NP,
    OWNER,
    OWNERS,
    PREPOSITION,
    QUANTITY,
    Token,
    determined,
)

_NU = (
    "α",
    "ε",
    "η",
    "ι",
    "ο",
    "υ",
    "ω",
    "ά",
    "έ",
    "ή",
    "ί",
    "ό",
    "ύ",
    "ώ",
    "κ",
    "π",
    "τ",
    "ξ",
    "ψ",
    "μπ",
    "ντ",
    "γκ",
    "τσ",
    "τζ",
)
_NUCLEI = re.compile("[αεου][ιί]|[αεηο][υύ]|[αάεέηήιίϊΐοόυύϋΰωώ]")


def greek_nu(article: str, following: str) -> str:
    """The feminine accusative article keeps its nu before vowels and stops only: την πόρτα, τη
    Μαρία.
    """
    return (
        article if not article.endswith("ην") or following.lower().startswith(_NU) else article[:-1]
    )


def _enclisis(word: str) -> str:
    """A word stressed on the third syllable from the end takes a second accent before a clitic: το
    αυτοκίνητό του.
    """
    nuclei = [match.group() for match in _NUCLEI.finditer(word)]
    if len(nuclei) < 3 or not set(nuclei[-3]) & set("άέήίόύώ"):
        return word
    last = max(index for index, letter in enumerate(word) if letter in "αεηιουω")
    return word[:last] + "άέήίόύώ"["αεηιουω".index(word[last])] + word[last + 1 :]


def greek_article(noun_gender: str, plural: bool, case: str) -> str:
    """Returns the definite article in the nominative or accusative."""
    if plural:
        return {"m": ("οι", "τους"), "f": ("οι", "τις"), "n": ("τα", "τα")}[noun_gender][
            case != "nom"
        ]
    return {"m": ("ο", "τον"), "f": ("η", "την"), "n": ("το", "το")}[noun_gender][case != "nom"]


def _greek_quantity(np: NP, noun_gender: str, case: str) -> str:
    accusative = case != "nom"
    if np.det == "indef":
        return {"m": ("ένας", "έναν"), "f": ("μια", "μια"), "n": ("ένα", "ένα")}[noun_gender][
            accusative
        ]
    if np.det == "this":
        singular = {"m": ("αυτός", "αυτόν"), "f": ("αυτή", "αυτή"), "n": ("αυτό", "αυτό")}
        plural = {"m": ("αυτοί", "αυτούς"), "f": ("αυτές", "αυτές"), "n": ("αυτά", "αυτά")}
        return (plural if np.plural else singular)[noun_gender][accusative]
    if np.det == "some":
        return {
            "m": ("μερικοί", "μερικούς"),
            "f": ("μερικές", "μερικές"),
            "n": ("μερικά", "μερικά"),
        }[noun_gender][accusative]
    neuter = noun_gender == "n"
    return {
        "2": "δύο",
        "3": "τρία" if neuter else "τρεις",
        "4": "τέσσερα" if neuter else "τέσσερις",
        "5": "πέντε",
    }[np.det]


def greek_phrase(
    np: NP, noun: Noun, adjective: Adjective | None, case: str, preposition: str
) -> tuple[Token, ...]:
    """Returns a Greek noun phrase with its article, in one case, after a preposition (empty:
    none).
    """
    singular = noun.nominative if case == "nom" else noun.oblique
    plural = noun.plural if case == "nom" else noun.plural_oblique
    head = plural if np.plural else singular
    if np.det in OWNERS:
        head = _enclisis(head)
    inner: list[Token] = [(head, (NOUN,), "NOUN", "")]
    if adjective:
        index = {"m": 1 if case != "nom" else 0, "f": 2, "n": 3}[noun.gender] + (
            4 if np.plural else 0
        )
        inner.insert(0, (adjective.forms[index], (ADJECTIVE,), "ADJ", ""))
    words: list[Token] = []
    offsets, tag = determined(np)
    if np.det not in ("def", *OWNERS):
        words.append((_greek_quantity(np, noun.gender, case), offsets, tag, ""))
    if np.det in ("def", "this", *OWNERS):
        part = {"def": ARTICLE, "this": QUANTITY + 1}.get(np.det, OWNER + 1)
        words.append(
            (greek_nu(greek_article(noun.gender, np.plural, case), inner[0][0]), (part,), "DET", "")
        )
    words = greek_prepositional(words, preposition)
    owner: list[Token] = (
        [({"his": "του", "her": "της", "their": "τους"}[np.det], (OWNER,), "PRON", "")]
        if np.det in OWNERS
        else []
    )
    return (*words, *inner, *owner)


def greek_prepositional(words: list[Token], preposition: str) -> list[Token]:
    """Puts a preposition before a noun phrase; σε joins with its article."""
    if not preposition:
        return words
    if preposition == "σε" and words[0][0][0] == "τ" and words[0][2] == "DET":
        article = words[0]
        return [("σ" + article[0], (PREPOSITION, *article[1]), "ADP", ""), *words[1:]]
    return [(preposition, (PREPOSITION,), "ADP", ""), *words]
