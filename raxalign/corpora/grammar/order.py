"""The order of a clause's members: verb-second and verb-final German, clitics, dropped pronouns,
inverted experiencers.
"""

from __future__ import annotations

from raxalign.corpora.grammar import lexicon
from raxalign.corpora.grammar.clauses import (
    LIKENESS,
    OBJECT,
    PREDICATE,
    RECIPIENT,
    SUBJECT,
    VERB,
    Clause,
    at,
    place,
    times,
    word,
)
from raxalign.corpora.grammar.lexicon import Adjective, Verb
from raxalign.corpora.grammar.phrases import gender
from raxalign.corpora.grammar.terms import ARTICLE, NP, PREPOSITION, Token
from raxalign.corpora.grammar.verb_groups import verb_group

_CLITICS = {
    "es": {"he": "lo", "she": "la"},
    "fr": {"he": "le", "she": "la"},
    "bg": {"he": "го", "she": "я"},
    "el": {"he": "τον", "she": "την"},
    "en": {"he": "him", "she": "her"},
    "de": {"he": "ihn", "she": "sie"},
}


def predicate(lang: str, key: str, subject: NP, compared: bool = False) -> list[Token]:
    """Return the adjective after "to be", in agreement, in the positive or the comparative."""
    adjective = lexicon.adjectives()[key].lang[lang]
    assert isinstance(adjective, Adjective)
    index = (gender(lang, subject) == "f") + 2 * subject.is_plural
    if lang in ("en", "de"):
        form = adjective.forms[0]
        if compared and adjective.comparative == "more":
            return [word("more", PREDICATE + 1, "ADV"), word(form, PREDICATE, "ADJ")]
        return [word(adjective.comparative if compared else form, PREDICATE, "ADJ")]
    if lang in ("es", "fr"):
        more = [word("más" if lang == "es" else "plus", PREDICATE + 1, "ADV")] if compared else []
        return [*more, word(adjective.forms[index], PREDICATE, "ADJ")]
    column = "mfn".index(gender(lang, subject))
    if lang == "bg":
        form = adjective.forms[3 if subject.is_plural else column]
        return [word("по-" + form if compared else form, PREDICATE, "ADJ")]
    form = adjective.forms[(0, 2, 3)[column] + (0 if not subject.is_plural else 4)]
    return [
        *([word("πιο", PREDICATE + 1, "ADV")] if compared else []),
        word(form, PREDICATE, "ADJ"),
    ]


def _than(lang: str, np: NP) -> list[Token]:
    if lang in ("bg", "el"):
        return at(lang, np, OBJECT, "acc", "от" if lang == "bg" else "από")
    form = {"en": "than", "de": "als", "es": "que", "fr": "que"}[lang]
    return [word(form, OBJECT + PREPOSITION, "ADP"), *at(lang, np, OBJECT)]


def _likeness(lang: str, np: NP) -> list[Token]:
    """A comparison ("like a dog"), not a liking."""
    form = {"en": "like", "de": "wie", "es": "como", "fr": "comme", "bg": "като", "el": "σαν"}[lang]
    words = at(lang, np, LIKENESS)
    if lang in ("bg", "el"):
        words = [token for token in words if token[1] != (LIKENESS + ARTICLE,)]
    return [word(form, LIKENESS + 10, "ADP"), *words]


def _object(lang: str, clause: Clause) -> list[Token]:
    """The object unless it is a clitic; with its preposition where the verb or Spanish asks for
    one.
    """
    np = clause.object
    if np is None:
        return []
    verb = lexicon.verbs()[clause.verb].lang[lang]
    assert isinstance(verb, Verb)
    if np.sort == "pronoun":
        return [word(_CLITICS[lang][np.key], OBJECT, "PRON")] if lang in ("en", "de") else []
    preposition = verb.preposition or ("a" if lang == "es" and np.is_animate else "")
    return at(lang, np, OBJECT, verb.case, preposition)


def _clitic(lang: str, clause: Clause, following: str) -> list[Token]:
    np = clause.object
    if np is None or np.sort != "pronoun" or lang in ("en", "de"):
        return []
    form = _CLITICS[lang][np.key]
    if lang == "fr" and lexicon.starts_with_vowel(following):
        form = "l'"
    return [word(form, OBJECT, "PRON")]


def _recipient(lang: str, clause: Clause) -> list[Token]:
    if clause.recipient is None:
        return []
    return at(
        lang,
        clause.recipient,
        RECIPIENT,
        "dat",
        {"en": "to", "de": "", "es": "a", "fr": "à", "bg": "на", "el": "σε"}[lang],
    )


def _doubled(lang: str, clause: Clause) -> list[Token]:
    """Spanish announces the recipient by a clitic: le dio el libro al médico."""
    if lang != "es" or clause.recipient is None:
        return []
    return [word("les" if clause.recipient.is_plural else "le", RECIPIENT + 3, "PRON")]


def _adjuncts(lang: str, clause: Clause) -> list[Token]:
    return place(lang, clause.place, clause.place_as) if clause.place else []


def _time(lang: str, clause: Clause) -> list[Token]:
    return list(times()[clause.time][1][lang]) if clause.time else []


def _predicate(lang: str, clause: Clause) -> list[Token]:
    if not clause.predicate:
        return []
    words = predicate(lang, clause.predicate, clause.subject, clause.than is not None)
    return words + (_than(lang, clause.than) if clause.than else [])


def _german(clause: Clause, order: str, subject: list[Token]) -> list[Token]:
    """Main clauses have the finite verb second, questions and clauses after another first,
    subordinate ones last.
    """
    group = verb_group("de", clause, clause.subject.is_plural)
    is_be = clause.verb == "be"
    time, target = _time("de", clause), _object("de", clause)
    prepositional = bool(target) and target[0][1][0] == OBJECT + PREPOSITION
    pronoun = clause.object is not None and clause.object.sort == "pronoun"
    direction = clause.place is not None and (
        clause.place_as in ("to", "from", "goal") or is_be or clause.verb == "live"
    )
    no = [word("nicht", 210, "PART")] if clause.negated else []
    where = _adjuncts("de", clause)
    middle = [
        *(target if pronoun else []),
        *([] if clause.fronted else time),
        *_recipient("de", clause),
    ]
    middle += [] if pronoun or prepositional else target
    middle += [] if direction else where
    middle += (
        no
        + (target if prepositional else [])
        + (where if direction else [])
        + _predicate("de", clause)
    )
    middle += _likeness("de", clause.like) if clause.like and order != "sub" else []
    after = [] if is_be else group.after
    # A comparison with "wie" stands before a participle as well as after it; before is neutral.
    if order == "sub":
        middle += _likeness("de", clause.like) if clause.like else []
        if after and after[0][1] == (VERB + 2,):
            return [*subject, *middle, word(after[0][0] + group.finite[0][0], VERB, "VERB")]
        return [*subject, *middle, *after, *group.finite]
    if order in ("first", "question"):
        return [*group.finite, *subject, *middle, *after]
    if clause.fronted:
        return [*time, *group.finite, *subject, *middle, *after]
    return [*subject, *group.finite, *middle, *after]


def _experiencer(lang: str, clause: Clause) -> list[Token]:
    """Spanish and Greek turn liking round: what is liked is the subject, who likes it the indirect
    object.
    """
    liked = clause.object
    assert liked is not None
    verb = lexicon.verbs()[clause.verb].lang[lang]
    assert isinstance(verb, Verb)
    finite = word(
        verb.forms[(3 if clause.tense == "past" else 1) - (lang == "el") + liked.is_plural],
        VERB,
        "VERB",
    )
    no = [word("no" if lang == "es" else "δεν", 210, "PART")] if clause.negated else []
    if lang == "es":
        clitic = word("les" if clause.subject.is_plural else "le", SUBJECT + 3, "PRON")
        return [
            *at("es", clause.subject, SUBJECT, "dat", "a"),
            *no,
            clitic,
            finite,
            *at("es", liked, OBJECT),
        ]
    return [*at("el", clause.subject, SUBJECT, "acc", "σε"), *no, finite, *at("el", liked, OBJECT)]


def _svo(lang: str, clause: Clause, order: str, subject: list[Token]) -> list[Token]:
    group = verb_group(lang, clause, clause.subject.is_plural)
    before, finite, after = group
    if order == "question" and lang in ("es", "el", "bg"):
        verb = [*before, *finite, *([word("ли", VERB + 3, "PART")] if lang == "bg" else []), *after]
        words = [*verb, *subject]
    else:
        if lang == "fr":
            clitic = _clitic("fr", clause, finite[0][0])
            if before and clitic:
                before = [word("ne", 211, "PART")]
            verb = [*before, *clitic, *finite, *after]
        else:
            verb = [*before, *_clitic(lang, clause, ""), *_doubled(lang, clause), *finite, *after]
        words = [*subject, *verb]
    words += (
        _predicate(lang, clause)
        + _object(lang, clause)
        + _recipient(lang, clause)
        + _adjuncts(lang, clause)
    )
    words += _likeness(lang, clause.like) if clause.like else []
    return [*_time(lang, clause), *words] if clause.fronted else [*words, *_time(lang, clause)]


def _english_question(clause: Clause, subject: list[Token]) -> list[Token]:
    plural = clause.subject.is_plural
    if clause.verb == "be":
        return [
            *verb_group("en", clause, plural).finite,
            *subject,
            *_predicate("en", clause),
            *_adjuncts("en", clause),
            *_time("en", clause),
        ]
    if clause.tense not in ("past", "pres"):
        group = verb_group("en", clause, plural)
        verb, first = group.after, group.finite[0]
    else:
        group = verb_group("en", clause._replace(negated=True), plural)
        verb, first = [*group.finite, *group.after], group.before[0]
    return [
        first,
        *subject,
        *verb,
        *_object("en", clause),
        *_recipient("en", clause),
        *_adjuncts("en", clause),
        *_time("en", clause),
    ]


def clause_words(
    lang: str, clause: Clause, order: str = "main", subject: list[Token] | None = None
) -> list[Token]:
    """Return the words of a clause; `order` is main, sub, first (German, after another clause) or
    question; `subject` replaces the clause's own.
    """
    if clause.verb == "like.enjoy" and lang in ("es", "el"):
        return _experiencer(lang, clause)
    dropped = clause.subject.sort == "pronoun" and lang in ("es", "bg", "el")
    own = at(lang, clause.subject, SUBJECT) if subject is None else subject
    if lang == "de":
        return _german(clause, order, own)
    if lang == "en" and order == "question":
        return _english_question(clause, own)
    words = _svo(lang, clause, order, own)
    return _drop(words) if dropped and subject is None else words


def _drop(words: list[Token]) -> list[Token]:
    """Let the finite verb express the pronoun that its language leaves out."""
    for index, (form, offsets, tag, entity) in enumerate(words):
        if (
            tag in ("VERB", "AUX")
            and offsets[0] in (VERB, 220)
            and form not in ("ще", "θα", "трябва", "πρέπει", "няма")
        ):
            return [*words[:index], (form, (*offsets, SUBJECT), tag, entity), *words[index + 1 :]]
    raise AssertionError("a clause without a finite verb")
