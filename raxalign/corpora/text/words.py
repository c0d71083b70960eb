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
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from importlib.metadata import version
from itertools import groupby
from typing import Any, Literal

from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.languages import WITHOUT_SEGMENTER, language, no_segmenter
from raxalign.running import THAI_AM, UNSPACED, Sentence, unspaced_letter

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
        raise RaxalignError(f"segmentation: words: {no_segmenter(lang)}; {WITHOUT_SEGMENTER}")
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
