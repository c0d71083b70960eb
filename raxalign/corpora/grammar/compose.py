"""Sentences out of clauses: subordination, coordination, relative clauses, questions and
punctuation in six languages.
"""

from __future__ import annotations

from typing import NamedTuple

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import (
    CONJUNCTION,
    PLACE,
    STRIDE,
    SUBJECT,
    VERB,
    Clause,
    at,
    moved,
    place,
    word,
)
from raxalign.corpora.grammar.order import clause_words
from raxalign.corpora.grammar.phrases import gender
from raxalign.corpora.grammar.terms import NP, Token

# Whole tens: an end mark or a comma is not part of another word.
STOP, COMMA, SECOND_COMMA, QUESTION_WORD = 350, 360, 370, 290


class Meaning(NamedTuple):
    """A sentence before any language: how its clauses hang together, and the clauses.

    `kind` is main, that, because, when, if, but, and, relative, question, who, where, what or
    exist.
    """

    kind: str
    clauses: tuple[Clause, ...]


_CONJUNCTIONS = {
    "that": {"en": "that", "de": "dass", "es": "que", "fr": "que", "bg": "че", "el": "ότι"},
    "because": {
        "en": "because",
        "de": "weil",
        "es": "porque",
        "fr": "parce que",
        "bg": "защото",
        "el": "επειδή",
    },
    "when": {
        "en": "when",
        "de": "als",
        "es": "cuando",
        "fr": "quand",
        "bg": "когато",
        "el": "όταν",
    },
    "if": {"en": "if", "de": "wenn", "es": "si", "fr": "si", "bg": "ако", "el": "αν"},
    "but": {"en": "but", "de": "aber", "es": "pero", "fr": "mais", "bg": "но", "el": "αλλά"},
    "and": {"en": "and", "de": "und", "es": "y", "fr": "et", "bg": "и", "el": "και"},
}
_QUESTION_WORDS = {
    "who": {"en": "who", "de": "wer", "es": "quién", "fr": "qui", "bg": "кой", "el": "ποιος"},
    "what": {"en": "what", "de": "was", "es": "qué", "fr": "qu'", "bg": "какво", "el": "τι"},
    "where": {"en": "where", "de": "wo", "es": "dónde", "fr": "où", "bg": "къде", "el": "πού"},
}


def _comma(offset: int) -> Token:
    return word(",", offset, "PUNCT")


def _conjunction(lang: str, kind: str, following: str) -> list[Token]:
    """The conjunction's words, elided in French before a vowel, "y" to "e" in Spanish before i."""
    form = _CONJUNCTIONS[kind][lang]
    tag = "CCONJ" if kind in ("but", "and") else "SCONJ"
    if lang == "es" and form == "y" and following.lower().startswith(("i", "hi")):
        form = "e"
    if lang == "fr" and form.endswith("que") and lexicon.starts_with_vowel(following):
        form = form[:-1] + "'"
    elif lang == "fr" and form == "si" and following in ("il", "ils"):
        form = "s'"
    return [
        word(part, CONJUNCTION + 1 if part == "parce" else CONJUNCTION, tag)
        for part in form.split()
    ]


def _joined(lang: str, meaning: Meaning) -> list[Token]:
    """Two clauses, the second after the conjunction."""
    first, second = meaning.clauses
    order = "main" if meaning.kind in ("but", "and") else "sub"
    later = clause_words(lang, second, order)
    comma = meaning.kind == "but" or (lang in ("de", "bg") and meaning.kind != "and")
    return [
        *clause_words(lang, first),
        *([_comma(COMMA)] if comma else []),
        *_conjunction(lang, meaning.kind, later[0][0]),
        *moved(later, STRIDE),
    ]


def _fronted(lang: str, meaning: Meaning) -> list[Token]:
    """A clause of time or condition before the main clause."""
    condition, main = meaning.clauses
    words = clause_words(lang, condition, "sub")
    return [
        *_conjunction(lang, meaning.kind, words[0][0]),
        *words,
        _comma(COMMA),
        *moved(clause_words(lang, main, "first"), STRIDE),
    ]


def _relative(lang: str, meaning: Meaning) -> list[Token]:
    """The subject with a clause about it, then the predicate."""
    inner, main = meaning.clauses
    subject = main.subject
    which = gender(lang, subject)
    if lang == "de":
        form = "die" if subject.is_plural else {"m": "der", "f": "die", "n": "das"}[which]
    elif lang == "bg":
        form = "които" if subject.is_plural else {"m": "който", "f": "която", "n": "което"}[which]
    else:
        form = {"en": "who", "es": "que", "fr": "qui", "el": "που"}[lang]
    clause = moved(clause_words(lang, inner, "sub", subject=[word(form, SUBJECT, "PRON")]), STRIDE)
    commas = lang in ("de", "bg")
    whole = [
        *at(lang, subject, SUBJECT),
        *([_comma(COMMA)] if commas else []),
        *clause,
        *([_comma(SECOND_COMMA)] if commas else []),
    ]
    return clause_words(lang, main, "main", subject=whole)


def _exist(lang: str, clause: Clause) -> list[Token]:
    """That there is something somewhere."""
    plural = clause.subject.is_plural
    assert clause.place is not None
    where = place(lang, clause.place, "in")
    if lang == "de":
        return [
            *where,
            word("sind" if plural else "ist", VERB, "VERB"),
            *at("de", clause.subject, SUBJECT),
        ]
    forms = {
        "en": ("there is", "there are"),
        "es": ("hay", "hay"),
        "fr": ("il y a", "il y a"),
        "bg": ("има", "има"),
        "el": ("υπάρχει", "υπάρχουν"),
    }
    *dummies, finite = forms[lang][plural].split()
    subject = at(lang, clause.subject, SUBJECT, "acc" if lang == "bg" else "nom")
    return [
        *[word(form, VERB + 1, "PRON") for form in dummies],
        word(finite, VERB, "VERB"),
        *subject,
        *where,
    ]


def _question(lang: str, meaning: Meaning) -> list[Token]:
    clause = meaning.clauses[0]
    if meaning.kind == "who":
        return clause_words(
            lang, clause, "main", subject=[word(_QUESTION_WORDS["who"][lang], SUBJECT, "PRON")]
        )
    if meaning.kind == "what":
        clause = clause._replace(object=None)
    words = clause_words(lang, clause, "question")
    if lang == "fr":
        elided = "qu'" if lexicon.starts_with_vowel(words[0][0]) else "que"
        words = [word("est-ce", VERB + 3, "PART"), word(elided, VERB + 3, "PART"), *words]
    if meaning.kind in ("where", "what"):
        tag = "ADV" if meaning.kind == "where" else "PRON"
        words = [
            word(_QUESTION_WORDS[meaning.kind][lang], QUESTION_WORD, tag),
            *[token for token in words if token[0] != "ли"],
        ]
    return words


def tokens(lang: str, meaning: Meaning) -> list[Token]:
    """Return the words of a sentence in a language, the first one capitalised, with its end
    mark.
    """
    kind = meaning.kind
    asked = kind in ("question", "who", "where", "what")
    if asked:
        words = _question(lang, meaning)
    elif kind == "main":
        words = clause_words(lang, meaning.clauses[0])
    elif kind == "exist":
        words = _exist(lang, meaning.clauses[0])
    elif kind == "relative":
        words = _relative(lang, meaning)
    else:
        words = _fronted(lang, meaning) if kind in ("when", "if") else _joined(lang, meaning)
    form, offsets, tag, entity = words[0]
    words = [(form[0].upper() + form[1:], offsets, tag, entity), *words[1:]]
    if not asked:
        words.append(word(".", STOP, "PUNCT"))
        return words
    if lang == "es":
        words.insert(0, word("¿", STOP + 5, "PUNCT"))
    words.append(word(";" if lang == "el" else "?", STOP, "PUNCT"))
    return words


__all__ = ["NP", "PLACE", "Meaning", "tokens"]
