"""Bulgarian noun phrases: the article is a suffix of the first word, masculine nouns have a form
after numbers, and prepositions double before like sounds.
"""

from __future__ import annotations

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.lexicon import Adjective, Noun
from raxalign.corpora.grammar.terms import (
    ADJECTIVE,
    ARTICLE,
    COUNTS,
    NOUN,
    NP,
    OWNER,
    OWNERS,
    PREPOSITION,
    QUANTITY,
    Token,
)


def bulgarian_preposition(preposition: str, following: str) -> str:
    """Return the preposition with its doubled form before like sounds: във Виена, със собака."""
    if preposition == "в" and following[0].lower() in "вф":
        return "във"
    return "със" if preposition == "с" and following[0].lower() in "сз" else preposition


def _first(np: NP, noun: Noun, adjective: Adjective, case: str) -> Token:
    """The adjective, which carries the article where there is one."""
    form = adjective.forms[3 if np.plural else "mfn".index(noun.gender)]
    if np.det not in ("def", *OWNERS):
        return form, (ADJECTIVE,), "ADJ", ""
    suffix = "те" if np.plural else {"m": "", "f": "та", "n": "то"}[noun.gender]
    if not suffix:
        return (
            adjective.forms[3] + ("ят" if case == "nom" else "я"),
            (ADJECTIVE, ARTICLE),
            "ADJ",
            "",
        )
    return form + suffix, (ADJECTIVE, ARTICLE), "ADJ", ""


def _determiner(np: NP, noun: Noun, case: str) -> list[Token]:
    """The word before the others; none where the article is a suffix, or an owner follows."""
    index = 3 if np.plural else "mfn".index(noun.gender)
    words: list[Token] = []
    if np.det == "indef" and case == "nom":
        words.append((("един", "една", "едно", "едни")[index], (ARTICLE,), "DET", ""))
    elif np.det == "this":
        words.append((("този", "тази", "това", "тези")[index], (QUANTITY,), "DET", ""))
    elif np.det == "some":
        words.append(("няколко", (QUANTITY,), "DET", ""))
    elif np.det.isdigit():
        words.append((_count(np, noun), (QUANTITY,), "NUM", ""))
    return words


def _head(np: NP, noun: Noun, case: str, carries: bool) -> str:
    """The form of the noun, which may carry the article."""
    if not np.plural:
        return (noun.definite if case == "nom" else noun.oblique) if carries else noun.nominative
    if carries:
        return noun.definite_plural
    return noun.counted if np.det == "some" or np.det.isdigit() else noun.plural


def bulgarian_phrase(
    np: NP, noun: Noun, adjective: Adjective | None, case: str, preposition: str
) -> tuple[Token, ...]:
    """Return the words of a phrase: the first of adjective and noun carries the article."""
    definite = np.det in ("def", *OWNERS)
    kin = "kin" in lexicon.nouns()[np.key].classes
    words = _determiner(np, noun, case)
    if adjective:
        words.append(_first(np, noun, adjective, case))
    carries = definite and not adjective and not (np.det in OWNERS and kin)
    head = _head(np, noun, case, carries)
    owner: list[Token] = [("си", (OWNER,), "PRON", "")] if np.det in OWNERS else []
    head_token: Token = (
        head,
        (NOUN, ARTICLE) if carries and np.det == "def" else (NOUN,),
        "NOUN",
        "",
    )
    words += [*owner, head_token] if adjective else [head_token, *owner]
    if preposition:
        words.insert(
            0, (bulgarian_preposition(preposition, words[0][0]), (PREPOSITION,), "ADP", "")
        )
    return tuple(words)


def _count(np: NP, noun: Noun) -> str:
    if "person" in lexicon.nouns()[np.key].classes and noun.gender == "m":
        return {"2": "двама", "3": "трима", "4": "четирима", "5": "петима"}[np.det]
    return "два" if np.det == "2" and noun.gender == "m" else COUNTS["bg"][np.det]
