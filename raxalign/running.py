"""Sentences as words that stand in a running text, which is what an encoder was trained on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from operator import add
from typing import Literal

from raxalign.languages import language

UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x31FF),  # radicals, kana, Bopomofo (Hangul jamo are left out below)
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9FF),  # Javanese, Burmese
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x1AFF0, 0x1B16F),
    (0x20000, 0x3347F),
)
"""The first and the last character of each block of scripts that are written without spaces."""
THAI_AM = "\u0e33\u0eb3"
"""Vowels that stand after their consonant and belong to it (UAX 29)."""
Spacing = Literal["language", "blanks"]
"""What divides given words in the text that an encoder reads: as their language, or a blank."""
_HANGUL_JAMO = range(0x3131, 0x318F)
_NOT_BLANK = re.compile(r"\S+")


class Sentence(list[str]):
    """The words of a sentence together with the running text that they stand in.

    Word i is ``text[starts[i]:starts[i] + len(self[i])]``, or is written as ``text[starts[i]:
    ends[i]]`` where there are `ends`: the text is as it was published, and a word may be composed
    and without joiners. A slice of it is a plain list of words.

    >>> sentence = Sentence.of_text("Three mice, now.")
    >>> list(sentence), sentence.starts
    (['Three', 'mice,', 'now.'], (0, 6, 12))
    """

    __slots__ = ("ends", "starts", "text")

    def __init__(
        self,
        words: Iterable[str],
        text: str,
        starts: Sequence[int],
        ends: Sequence[int] | None = None,
    ) -> None:
        super().__init__(words)
        self.text, self.starts = text, tuple(starts)
        self.ends = None if ends is None else tuple(ends)

    def __reduce__(self) -> tuple[object, ...]:
        return Sentence, (list(self), self.text, self.starts, self.ends)

    def spans(self) -> list[tuple[int, int]]:
        """Return the first character and the end of each word in the text."""
        ends = self.ends or map(add, self.starts, map(len, self))
        return list(zip(self.starts, ends, strict=True))

    @classmethod
    def of_text(cls, text: str) -> Sentence:
        """Return a text with the words that white space divides it into; the text loses the white
        space at its ends, which tokenizers may make pieces of.
        """
        text = text.strip()
        found = list(_NOT_BLANK.finditer(text))
        return cls([word.group() for word in found], text, [word.start() for word in found])

    @classmethod
    def within(cls, words: Sequence[str], text: str) -> Sentence | None:
        """Return words at the places where they follow each other in a text; None where a word is
        missing or something other than white space is left between two of them.

        >>> Sentence.within(["do", "n't"], "I don't") is None
        True
        >>> Sentence.within(["do", "n't"], " don't ").starts
        (1, 3)
        """
        starts, end = [], 0
        for word in words:
            start = text.find(word, end)
            if start < 0 or text[end:start].strip():
                return None
            starts.append(start)
            end = start + len(word)
        return None if text[end:].strip() else cls(words, text, starts)

    @classmethod
    def joined(cls, words: Sequence[str], lang: str | None) -> Sentence:
        """Return words in a text made of them: joined by blanks, and in languages written without
        spaces by nothing, but for neighbours that both end in letters or digits of spaced scripts.

        >>> Sentence.joined(["我", "在", "New", "York", "。"], "zh").text
        '我在New York。'
        >>> Sentence.joined(["four", "mice", "."], "en").starts
        (0, 5, 10)
        """
        spaced = lang is None or language(lang).spaced
        if spaced:
            starts = accumulate((len(word) + 1 for word in words), initial=0)
            return cls(words, " ".join(words), tuple(starts)[: len(words)])
        places, parts, end = [], [], 0
        for i, word in enumerate(words):
            if i and _divided(words[i - 1], word):
                parts.append(" ")
                end += 1
            places.append(end)
            parts.append(word)
            end += len(word)
        return cls(words, "".join(parts), places)


def in_text(words: Sequence[str], lang: str | None) -> Sentence:
    """Return the sentence itself where it has its text, else its words joined."""
    return words if isinstance(words, Sentence) else Sentence.joined(words, lang)


def spaced_out(sentences: Iterable[Sequence[str]], spacing: Spacing) -> list[Sequence[str]]:
    """Return sentences in a text that has the spacing: with ``blanks`` each word is read by itself,
    whatever its language.

    >>> [sentence] = spaced_out([["我", "在"]], "blanks")
    >>> sentence.text
    '我 在'
    """
    if spacing == "language":
        return list(sentences)
    return [_with_blanks(words) for words in sentences]


def _with_blanks(words: Sequence[str]) -> Sentence:
    """Return words in a text in which a blank stands between any two; words of a running text are
    written as they are there.
    """
    written = words
    if isinstance(words, Sentence):
        written = [words.text[a:b] for a, b in words.spans()]
    joined = Sentence.joined(written, None)
    return Sentence(words, joined.text, joined.starts, [end for _, end in joined.spans()])


@cache
def unspaced_letter(char: str) -> bool:
    """Return whether a character is a letter of a script that is written without spaces."""
    return (
        unicodedata.category(char)[0] == "L"
        and char not in THAI_AM
        and ord(char) not in _HANGUL_JAMO
        and any(first <= ord(char) <= last for first, last in UNSPACED)
    )


def _divided(left: str, right: str) -> bool:
    """Whether a blank stands between two words of a text that is written without spaces."""
    return all(char.isalnum() and not unspaced_letter(char) for char in (left[-1:], right[:1]))
