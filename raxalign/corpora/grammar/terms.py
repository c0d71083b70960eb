"""Noun phrases before any language, the shape of their words, and the meaning of offsets.

A word is a tuple (form, offsets, part of speech, entity). Offsets name what the word expresses
inside its phrase; two words of two languages are linked when they share one. A part (an offset that
is not a multiple of ten) falls back on its whole (the ten) where the other language has no such
part: the article "the" on the Bulgarian noun that carries it as a suffix.
"""

from __future__ import annotations

from typing import NamedTuple

from raxalign.corpora.grammar import lexicon

NOUN, ARTICLE, PREPOSITION, ADJECTIVE, QUANTITY, OWNER, SURNAME = 0, 1, 5, 10, 20, 30, 40
Token = tuple[str, tuple[int, ...], str, str]
COUNTS = {
    "en": {"2": "two", "3": "three", "4": "four", "5": "five"},
    "de": {"2": "zwei", "3": "drei", "4": "vier", "5": "fünf"},
    "es": {"2": "dos", "3": "tres", "4": "cuatro", "5": "cinco"},
    "fr": {"2": "deux", "3": "trois", "4": "quatre", "5": "cinq"},
    "bg": {"2": "две", "3": "три", "4": "четири", "5": "пет"},
}
OWNERS = ("his", "her", "their")


class NP(NamedTuple):
    """A noun phrase before any language: `sort` is noun, male, female, city, org or pronoun (key
    he, she, they).

    `det` is def, indef, this, some, 2 to 5, or the owner (his, her, their), which is always the
    clause's subject. `surname` is -1 for none.
    """

    sort: str
    key: str
    det: str = "def"
    plural: bool = False
    adjective: str = ""
    surname: int = -1

    @property
    def is_plural(self) -> bool:
        """Whether verbs agree in the plural."""
        return self.plural or self.key == "they"

    @property
    def is_animate(self) -> bool:
        """Whether Spanish marks it as an object with "a"."""
        return self.sort in ("male", "female") or (
            self.sort == "noun" and bool(lexicon.nouns()[self.key].classes & {"person", "kin"})
        )


def determined(np: NP) -> tuple[tuple[int, ...], str]:
    """Return what a determiner before the noun expresses, and its part of speech."""
    if np.det in ("def", "indef"):
        return (ARTICLE,), "DET"
    if np.det in OWNERS:
        return (OWNER,), "DET"
    return (QUANTITY,), "NUM" if np.det.isdigit() else "DET"
