"""The word tables: hand-written forms of nouns, verbs, adjectives and names in six languages, read
once from the text files in this folder.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

LANGS = ("en", "de", "es", "fr", "bg", "el")
_VOWELS = "aeiouyàâéèêëîïôœûùáíóúh"


class Noun(NamedTuple):
    """A noun in one language: gender (m, f, n), singular and plural forms by role, and the
    preposition of place.

    `forms` are: nominative, oblique (accusative; in Bulgarian the short definite form), plural
    nominative, plural oblique, definite singular and definite plural (Bulgarian only), and the form
    after numerals.
    """

    gender: str
    nominative: str
    oblique: str
    plural: str
    plural_oblique: str
    definite: str
    definite_plural: str
    counted: str
    place: str
    aspirated: bool


class Adjective(NamedTuple):
    """An adjective in one language: forms by (gender, plural), stem for German and Greek, copula
    for Spanish, and its place in French.
    """

    forms: tuple[str, ...]
    comparative: str
    copula: str
    before: bool
    before_vowel: str


class Verb(NamedTuple):
    """A verb in one language: its forms in the order of the table, separable prefix, auxiliary and
    the government of its object.
    """

    forms: tuple[str, ...]
    prefix: str
    is_auxiliary_be: bool
    preposition: str
    case: str
    particle: str


class Entry(NamedTuple):
    """What is common to the languages: classes, the opposite's key or an empty string, and the
    entries by language.
    """

    key: str
    classes: frozenset[str]
    opposite: str
    lang: dict[str, Noun | Adjective | Verb]


def rows(name: str) -> list[list[str]]:
    """Return the cells of a table of this folder, without comments."""
    text = files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.split(" | ")]
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]


def starts_with_vowel(word: str) -> bool:
    """Return whether French elides before the word (h is mute unless the noun says otherwise)."""
    return word[0].lower() in _VOWELS


def english_plural(word: str) -> str:
    """Return the regular plural, which is the regular third person too."""
    if word.endswith(("s", "sh", "ch", "x", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def _latin_plural(lang: str, word: str) -> str:
    if lang == "en":
        return word + "s"
    if lang == "fr":
        return word if word[-1] in "sxz" else word + ("x" if word.endswith("eau") else "s")
    if word[-1] in "aeiouáéó":
        return word + "s"
    return word[:-1] + "ces" if word[-1] == "z" else word + "es"


def _bulgarian(cell: str, person: bool, place: str) -> Noun:
    gender, singular, *rest = cell.split()
    plural = rest[-1]
    definite_plural = plural + ("та" if plural[-1] in "ая" else "те")
    if gender == "m":
        short = rest[0]
        full = short[:-1] + ("ът" if short[-1] == "а" else "ят")
        return Noun(
            gender,
            singular,
            short,
            plural,
            plural,
            full,
            definite_plural,
            plural if person else short,
            place,
            False,
        )
    definite = singular + ("та" if gender == "f" else "то")
    return Noun(
        gender, singular, definite, plural, plural, definite, definite_plural, plural, place, False
    )


def _greek(cell: str, place: str) -> Noun:
    gender, singular, plural, *rest = cell.split()
    oblique, plural_oblique = singular, plural
    if gender == "m":
        oblique = singular[:-1]
        if plural.endswith(("οι", "οί")):
            plural_oblique = plural[:-2] + ("ούς" if plural.endswith("οί") else "ους")
    return Noun(
        gender,
        singular,
        oblique,
        plural,
        rest[0] if rest else plural_oblique,
        "",
        "",
        plural,
        place,
        False,
    )


def _noun(lang: str, cell: str, person: bool, place: str) -> Noun:
    if lang == "bg":
        return _bulgarian(cell, person, place)
    if lang == "el":
        return _greek(cell, place)
    gender, *forms = ("n " + cell if lang == "en" else cell).split()
    aspirated = forms[0].startswith("*")
    singular = forms[0].lstrip("*")
    plural = forms[1] if len(forms) > 1 else _latin_plural(lang, singular)
    oblique = forms[2] if lang == "de" and len(forms) > 2 else singular
    dative_plural = plural if lang != "de" or plural[-1] in "ns" else plural + "n"
    return Noun(gender, singular, oblique, plural, dative_plural, "", "", plural, place, aspirated)


def _greek_adjective(masculine: str) -> tuple[str, ...]:
    """Nominative and accusative forms: m, m accusative, f, n, plural m, plural m accusative, plural
    f, plural n.
    """
    if masculine.endswith("ύς"):
        stem = masculine[:-2]
        return tuple(stem + end for end in ("ύς", "ύ", "ιά", "ύ", "ιοί", "ιούς", "ιές", "ιά"))
    stem, accent = masculine[:-2], masculine[-2] == "ό"
    # After a vowel the feminine has alpha: νέος, νέα.
    after_vowel = stem[-1] in "αειουηωέίόύή"
    if accent:
        return tuple(
            stem + end
            for end in ("ός", "ό", "ά" if after_vowel else "ή", "ό", "οί", "ούς", "ές", "ά")
        )
    return tuple(
        stem + end for end in ("ος", "ο", "α" if after_vowel else "η", "ο", "οι", "ους", "ες", "α")
    )


def _adjective(lang: str, cell: str) -> Adjective:
    parts = cell.split()
    if lang == "en":
        comparative = parts[1] if len(parts) > 1 else ""
        return Adjective((parts[0],), comparative.replace("+", "more"), "", True, "")
    if lang == "de":
        base, _, stem = parts[0].partition("/")
        return Adjective((base, stem or base), parts[1].replace("-", ""), "", True, "")
    if lang == "es":
        m = parts[0]
        f = m[:-1] + "a" if m[-1] == "o" else m
        return Adjective((m, f, _spanish_plural(m), _spanish_plural(f)), "", parts[1], False, "")
    if lang == "fr":
        m, f, *rest = parts
        plural = m if m[-1] in "sx" else m + ("x" if m.endswith("eau") or m == "mou" else "s")
        return Adjective(
            (m, f, "mous" if m == "mou" else plural, f + "s"),
            "",
            "",
            "<" in rest,
            rest[1] if len(rest) > 1 else "",
        )
    if lang == "bg":
        return Adjective(tuple(parts), "", "", True, "")
    return Adjective(_greek_adjective(parts[0]), "", "", True, "")


def _spanish_plural(word: str) -> str:
    if word == "joven":
        return "jóvenes"
    if word[-1] in "aeiou":
        return word + "s"
    return (word[:-1] + "ces") if word[-1] == "z" else word + "es"


def _verb(cell: str) -> Verb:
    words = cell.split()
    forms = [word for word in words if word[0] not in "@~"]
    government = [word[1:] for word in words if word[0] == "@"]
    is_be = any(word[0] == "~" for word in words)
    prefix, bar, infinitive = forms[0].partition("|")
    if bar:
        forms[0] = infinitive
    particle = forms[0].partition("_")[2]
    plain = tuple(form.partition("_")[0] for form in forms)
    case = "dat" if government == ["dat"] else "acc"
    return Verb(
        plain,
        prefix if bar else "",
        is_be,
        "" if government in ([], ["dat"]) else government[0],
        case,
        particle,
    )


@cache
def nouns() -> dict[str, Entry]:
    """Return all nouns by key."""
    table = {}
    for key, classes, where, *cells in rows("nouns"):
        kinds = frozenset(classes.split(","))
        places = (
            dict(zip(("en", "de", "fr", "bg"), where.split("/"), strict=True))
            if where != "-"
            else {}
        )
        places |= {"es": "en", "el": "σε"} if places else {}
        forms = {
            lang: _noun(lang, cell, "person" in kinds, places.get(lang, ""))
            for lang, cell in zip(LANGS, cells, strict=True)
        }
        table[key] = Entry(key, kinds, "", dict(forms))
    return table


@cache
def adjectives() -> dict[str, Entry]:
    """Return all adjectives by key."""
    table = {}
    for key, classes, opposite, *cells in rows("adjectives"):
        forms = {lang: _adjective(lang, cell) for lang, cell in zip(LANGS, cells, strict=True)}
        table[key] = Entry(key, frozenset(classes.split(",")), opposite.strip("-"), dict(forms))
    return table


@cache
def verbs() -> dict[str, Entry]:
    """Return all verbs by key; their classes are those of the objects that they take."""
    table = {}
    for key, objects, opposite, *cells in rows("verbs"):
        forms = {lang: _verb(cell) for lang, cell in zip(LANGS, cells, strict=True)}
        table[key] = Entry(
            key, frozenset(objects.split(",")) - {"-"}, opposite.strip("-"), dict(forms)
        )
    return table


@cache
def names(sort: str) -> list[dict[str, str]]:
    """Return the names of a sort (male, female, surname, city), each by language; Greek cities
    begin with their gender.
    """
    return [dict(zip(LANGS, cells, strict=True)) for kind, *cells in rows("names") if kind == sort]


def admits(entry: Entry, noun: str) -> bool:
    """Return whether an adjective or a verb fits a noun: by its key or one of its classes."""
    return noun in entry.classes or bool(entry.classes & nouns()[noun].classes)
