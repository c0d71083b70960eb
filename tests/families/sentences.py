"""The sample sentences as a corpus has them: words that stand in running text."""

from __future__ import annotations

from functools import cache

from raxalign.corpora.phrasebook import built_in_texts
from raxalign.corpora.text.words import Sentence, tokenize

TEXTS = built_in_texts()
__all__ = ["TEXTS", "all_texts", "sentences"]


@cache
def sentences(lang: str) -> tuple[Sentence, ...]:
    """The sentences of a language as a corpus has them: its words, in the running text."""
    divide = tokenize(lang)
    found = []
    for text in TEXTS[lang]:
        sentence = Sentence.within(divide(text), text)
        assert sentence is not None, f"the words of {text!r} are not those of its text"
        found.append(sentence)
    return tuple(found)


def all_texts() -> list[str]:
    """The texts of all languages, which vocabularies are trained on."""
    return [text for texts in TEXTS.values() for text in texts]
