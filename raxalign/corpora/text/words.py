"""Sentences to words: Moses tokenisation, and segmentation where a script does not divide words by
spaces.

Words are made of a copy of the text that is NFC and without format characters (soft hyphens,
joiners, direction marks, byte order marks) and control characters, in which a zero-width space is a
space; no word is empty or contains white space. Word aligners and dictionaries see these words. An
encoder reads the text as it was published, in which each word has its place.

Moses tokenisation by sacremoses, made fast: what it does to a sentence is put together from what
it does to short parts.

Moses leaves a word of letters and digits alone, and its rules look no further than to the
neighbouring character or, at a full stop, to the first character of the next word. So a sentence is
cut into runs of words that have other characters; a run is tokenised with a stand-in for the plain
word on either side, and remembered. The results are those of sacremoses on the whole sentence
(tested on real text).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from importlib.metadata import version
from itertools import accumulate, groupby
from operator import add
from typing import Any, Literal

from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.languages import language, no_segmenter

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


_REMEMBERED = 200_000
_OTHER = {"cjk": "und"}  # Chokwe: sacremoses takes the code for Chinese, Japanese and Korean
_MARKER = "MULTI"  # sacremoses marks runs of dots by it; a text that has it is not cut into runs


@cache
def moses_tokenizer(lang: str) -> Callable[[str], list[str]]:
    """Return the tokeniser of a language, by its ISO 639 code, for clean text (no control
    characters); nothing is escaped, hyphens are kept. Languages for which Moses has no list of
    abbreviations use the English one, as in Moses.
    """
    from sacremoses import MosesTokenizer

    return _Fast(MosesTokenizer(_OTHER.get(lang, lang)))


def has_rules(lang: str) -> bool:
    """Return whether Moses has a list of abbreviations for a language, by its ISO 639 code."""
    from sacremoses.corpus import NonbreakingPrefixes

    return lang in NonbreakingPrefixes().available_langs.values()


class _Fast:
    def __init__(self, moses: Any) -> None:
        self._moses = moses
        self._lower = frozenset(moses.IsLower)
        plain = re.compile(rf"[{moses.IsAlnum}]+").fullmatch
        self._is_plain = lru_cache(_REMEMBERED)(lambda word: plain(word) is not None)
        self._run = lru_cache(_REMEMBERED)(self._words_of_run)

    def __call__(self, text: str) -> list[str]:
        if _MARKER in text:
            return self._whole(text)
        words = text.split()
        out: list[str] = []
        end = 0
        for plain, group in groupby(words, self._is_plain):
            run = list(group)
            start, end = end, end + len(run)
            if not plain:
                run = self._run(" ".join(run), start > 0, self._stand_in(words[end : end + 1]))
            out += run
        return out

    def _stand_in(self, following: list[str]) -> str:
        """A plain word that begins like the next one, as far as the rule of full stops
        distinguishes words; empty where there is none.
        """
        if not following:
            return ""
        first = following[0][0]
        return "a" if first in self._lower else "1" if "0" <= first <= "9" else "A"

    def _words_of_run(self, run: str, after: bool, before: str) -> list[str]:
        words = self._whole(f"{'a ' if after else ''}{run}{' ' if before else ''}{before}")
        return words[int(after) : len(words) - bool(before)]

    def _whole(self, text: str) -> list[str]:
        words: list[str] = self._moses.tokenize(text, escape=False)
        return words


Segmentation = Literal["characters", "words"]
Tokenize = Callable[[str], list[str]]

_ESCAPED = re.compile(r"&(?:amp|apos|quot|lt|gt|#91|#93|#124|#39);|(?<!\S)@-@(?!\S)")
ESCAPED = "marks that Moses's tokeniser has escaped (&apos; &quot; &amp; &#91; @-@)"
"""What `is_escaped` finds, in messages."""
ESCAPES = 0.01
"""A larger share of such lines is remarked on: crawled text has some marks of HTML."""


def is_escaped(text: str) -> bool:
    """Return whether a text has a mark that Moses's tokeniser, or HTML, writes otherwise."""
    return ("&" in text or "@-@" in text) and _ESCAPED.search(text) is not None


FORMAT_CHARACTERS = (
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""The class of control and format characters, which words are without."""
_FORMAT = re.compile(FORMAT_CHARACTERS)
_BETWEEN_BLANKS = re.compile("[^ \t\r\n]+")
_STACKERS = "\u1039\u17d2\u1a60\u1b44\ua9c0"  # the next consonant is written below these
_TSHEG = re.compile(r"[\u0f0b\u0f0c]")
_UNSEEN = re.compile(
    f"{FORMAT_CHARACTERS}|[\u034f\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    "|(?<=[ij\u012f])\u0307"  # the dot that these letters have
)
_WITH_DOTLESS, _DOTLESS = ("az", "crh", "gag", "tr"), str.maketrans("I\u0130", "\u0131i")


def tokenize(lang: str, segmentation: Segmentation = "characters") -> Tokenize:
    """Return the function that divides a sentence of a language into words.

    Languages with spaces are tokenised by sacremoses as Moses does (nothing escaped, hyphens kept).
    For the others `characters` makes a word of each character (with its combining marks; runs of
    other letters and of digits stay whole) and of each Tibetan syllable, and `words` calls the
    language's segmenter: jieba for zh, PyThaiNLP (newmm) for th. Raises `RaxalignError` where the
    language has no segmenter, and `DependencyError` where the segmenter is not installed.
    """
    known = language(lang)
    if known.spaced:
        moses = moses_tokenizer(known.base)
        return lambda text: moses(clean(text))
    if segmentation == "characters":
        return split_syllables if known.script == "Tibt" else split_characters
    if known.segmenter is None:
        raise RaxalignError(f"segmentation: words: {'; '.join(no_segmenter(lang))}")
    return _segmenter(known.segmenter)


def within_text(divide: Tokenize, text: str) -> list[str]:
    r"""Divide a sentence into words that stand in its text, which loses nothing but the white space
    at its ends.

    The words are a plain list where one of them is not in the text: segmenters may change words.

    >>> sentence = within_text(tokenize("en"), " Now,  mice! ")
    >>> sentence, sentence.text, sentence.starts
    (['Now', ',', 'mice', '!'], 'Now,  mice!', (0, 3, 6, 10))
    >>> sentence = within_text(tokenize("fr"), "e\u0301te\u0301!")
    >>> sentence, sentence.spans()
    (['été', '!'], [(0, 5), (5, 6)])
    """
    words, cleaned = divide(text), clean(text)
    if cleaned == text or not words:
        found = Sentence.within(words, text.strip())
        return words if found is None else found
    found = Sentence.within(words, cleaned)
    return words if found is None else _as_published(found, text)


def given_words(words: Sequence[str], lang: str) -> list[str]:
    r"""Return the words of a text that was divided elsewhere as `clean` leaves them, without white
    space. They are a plain list where that changes none of them, and otherwise stand in the text
    that the given ones make.

    A word of which nothing is left is U+FFFD, so that the words after it keep their numbers.

    >>> given_words(["10\u00a0000", "\u200b", "!"], "en")
    ['10000', '\ufffd', '!']
    """
    line = " ".join(words)
    if clean(line) == line and line.split() == list(words):
        return list(words)
    cleaned = ["".join(clean(word).split()) or "\ufffd" for word in words]
    running = Sentence.joined(words, lang)
    starts, ends = zip(*running.spans(), strict=True)
    return Sentence(cleaned, running.text, starts, ends)


def _as_published(sentence: Sentence, text: str) -> Sentence:
    """Find the words of a cleaned text in the text itself, which loses white space at its ends."""
    origins: list[tuple[int, int]] = []
    end = 0
    for part in _composed(text):
        origins += [(end, end + len(part))] * len(clean(part))
        end += len(part)
    begin = len(text) - len(text.lstrip())
    spans = [(origins[first][0], origins[last - 1][1]) for first, last in sentence.spans()]
    starts, ends = ([place - begin for place in places] for places in zip(*spans, strict=True))
    return Sentence(sentence, text.strip(), starts, ends)


def _composed(text: str) -> list[str]:
    """Return the parts of a text that composition does not cross: characters with their marks, and
    syllables of Hangul.
    """
    nfc = partial(unicodedata.normalize, "NFC")
    parts: list[str] = []
    for char in text:
        last = parts[-1] if parts else " "
        if not last.isspace() and (
            unicodedata.category(char)[0] == "M" or nfc(last + char) != nfc(last) + nfc(char)
        ):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def divide_at_blanks(text: str) -> tuple[str, ...]:
    r"""Divide text that was tokenised elsewhere into its words: what is between blanks, tabs and
    line ends, as link files count it. White space of other kinds is part of a word.

    >>> divide_at_blanks("don't  stop\u00a0it \u200b !")
    ("don't", 'stop\xa0it', '\u200b', '!')
    """
    return tuple(_BETWEEN_BLANKS.findall(text))


def describe(lang: str, segmentation: Segmentation = "characters") -> str:
    """Return what `tokenize` uses for a language, for manifests: ``Moses (sacremoses 0.1.1)``."""
    known = language(lang)
    if known.spaced:
        own = "" if has_rules(known.base) else ", English abbreviations"
        return f"Moses (sacremoses {version('sacremoses')}{own})"
    if segmentation == "words" and known.segmenter is not None:
        return f"words ({known.segmenter} {version(known.segmenter)})"
    return "characters"


def clean(text: str) -> str:
    """NFC without control and format characters; zero-width spaces become spaces."""
    if text.isascii():
        return _FORMAT.sub("", text) if not text.isprintable() else text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return _FORMAT.sub("", text.replace("\u200b", " ")) if _FORMAT.search(text) else text


@lru_cache(_REMEMBERED)
def look_up_form(word: str, lang: str | None = None) -> str:
    r"""Return the one form by which words of texts, dictionaries and files of vectors are compared:
    NFC, without format characters and variation selectors; in the lower case of a language, or as
    it is written.

    >>> look_up_form("E\u0301te\u0301"), look_up_form("co\u00adop", "en")
    ('Été', 'coop')
    >>> look_up_form("I\u015fIK", "tr"), look_up_form("\u0130z", "tr"), look_up_form("ΟΔΟΣ", "el")
    ('ışık', 'iz', 'οδος')
    """
    form = unicodedata.normalize("NFC", word)
    if lang is not None:
        form = form.translate(_DOTLESS) if language(lang).base in _WITH_DOTLESS else form
        form = form.lower()
        if form.endswith("σ") and form[-2:-1].isalpha():
            form = f"{form[:-1]}ς"
    return unicodedata.normalize("NFC", _UNSEEN.sub("", form)) or word


def split_characters(text: str) -> list[str]:
    """Return a word for each character of a script without spaces; runs of other letters, numbers
    and repeated dots stay whole.

    >>> split_characters("我在Berlin住了12.5年……")
    ['我', '在', 'Berlin', '住', '了', '12.5', '年', '……']
    """
    return _character_pattern().findall(clean(text))


def split_syllables(text: str) -> list[str]:
    """Return the words of Tibetan text as `split_characters`, with the mark that ends a syllable
    (tsheg) at the end of its syllable.

    >>> split_syllables("བོད་ཡིག།")
    ['བོད་', 'ཡིག', '།']
    """
    out: list[str] = []
    for word in split_characters(text):
        if out and _TSHEG.fullmatch(word):
            out[-1] += word
        else:
            out.append(word)
    return out


@cache
def _character_pattern() -> re.Pattern[str]:
    marks = (
        character_class(
            lambda char: unicodedata.category(char)[0] == "M" or char in THAI_AM, 0x300, 0x1FFFF
        )
        + "\U000e0100-\U000e01ef"
    )
    pieces = [character_class(unspaced_letter, first, last) for first, last in UNSPACED]
    unspaced = "".join(pieces)
    letter = rf"(?:(?![{unspaced}])[^\W\d_][{marks}]*)"
    return re.compile(
        rf"[{unspaced}](?:[{marks}]|(?<=[{_STACKERS}])[{unspaced}])*"
        rf"|\d+(?:[.,:]\d+)*"
        rf"|{letter}(?:[-'’]?(?:{letter}|\d))*"
        r"|\.+|…+|·+|。+"
        rf"|\S[{marks}]*"
    )


def character_class(belongs: Callable[[str], bool], first: int, last: int) -> str:
    """Return the characters of a span that belong, as a regular expression has them in brackets."""
    parts, start = [], None
    for point in range(first, min(last, sys.maxunicode) + 2):
        inside = point <= last and belongs(chr(point))
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            parts.append(f"{chr(start)}-{chr(point - 1)}")
            start = None
    return "".join(parts)


def _segmenter(library: str) -> Tokenize:
    require(library, "segmentation: words (`characters` needs no library)")
    if library == "jieba":
        import jieba

        jieba.setLogLevel("WARNING")
        cut: Tokenize = jieba.lcut
    else:
        from pythainlp.tokenize import word_tokenize

        cut = partial(word_tokenize, engine="newmm")
    return lambda text: [word for piece in cut(clean(text)) for word in piece.split()]
