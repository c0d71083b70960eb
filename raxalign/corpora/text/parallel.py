"""Whether sentence pairs are translations of each other, and which side is which language, as far
as a glance at lengths, sameness, scripts and words shows.
"""

from __future__ import annotations

import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from raxalign.corpora.base import SentencePair
from raxalign.corpora.phrasebook import LANGS, sentences
from raxalign.corpora.text.words import ESCAPED, ESCAPES, clean, is_escaped
from raxalign.languages import language, spelled

_WINDOW = 500  # neighbouring pairs whose lengths are compared at a time
_FEW = 30  # pairs that show nothing
_HALF, _NEARLY_ALL = 0.5, 0.9  # shares of pairs that are not as they should be
_CLEARLY = 6.0  # standard errors between two correlations: no real text of one in 1e8 windows
_SHARE = 0.05  # of the windows of a file: a few may be of pairs that are shifted in the original
_FREQUENT, _SENTENCES = 25, 120  # words of a profile, and sentences that are counted for it
_PLAIN = 0.08  # of real text in a language about a fifth are words of its profile
_TIMES = 2.0  # French has half as many of the words of Spanish as Spanish itself
_MOSTLY, _HARDLY = 0.6, 0.2  # shares of letters in a script
_LEAST = 50  # words, or letters, of a side: fewer show nothing
_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = """Latn LATIN; Cyrl CYRILLIC; Grek GREEK; Arab ARABIC; Hebr HEBREW; Deva DEVANAGARI;
Beng BENGALI; Taml TAMIL; Thai THAI; Armn ARMENIAN; Geor GEORGIAN; Ethi ETHIOPIC; Kore HANGUL;
Jpan HIRAGANA KATAKANA CJK; Hans CJK; Hant CJK"""
_SCRIPTS = {script: names for script, *names in map(str.split, _LETTERS.split(";"))}
"""How the Unicode names of a script's letters begin, for scripts that one word of them tells."""


@dataclass
class Parallel:
    """What was seen of the sentence pairs of a bitext, in the order of the file.

    A file that has lost a line pairs each sentence with the neighbour of its translation. Lengths
    show it in any two languages: those of translations go together, those of neighbours do not.
    """

    GLANCE: ClassVar = 1000
    """Sentence pairs that are looked at where a file is not read to its end."""
    SIDES_GLANCE: ClassVar = 200
    """Sentence pairs that are looked at for which side is which."""

    lang: str
    pivot: str
    _n: int = 0
    _equal: int = 0
    _escaped: int = 0
    _different: set[int] = field(default_factory=set)
    _lengths: list[tuple[float, float]] = field(default_factory=list)
    _windows: list[int] = field(default_factory=list)
    _evidence: dict[int, tuple[int, float, float]] = field(default_factory=dict)

    def see(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield sentence pairs, and take account of each."""
        for pair in pairs:
            self._n += 1
            self._different.add(hash((pair.source, pair.target)))
            self._equal += pair.source == pair.target
            self._escaped += is_escaped(pair.source) or is_escaped(pair.target)
            if pair.source and pair.target:
                self._lengths.append((math.log(len(pair.source)), math.log(len(pair.target))))
            if len(self._lengths) == _WINDOW:
                self._compare(pair.id + 1)
            yield pair

    def doubts(self) -> Iterator[str]:
        """Yield a sentence per reason to doubt what was seen."""
        if len(self._lengths) >= _FEW:
            self._compare(self._n)
        if self._escaped > ESCAPES * self._n:
            yield (
                f"{self._escaped:,} of {self._n:,} sentence pairs ({self._escaped / self._n:.1%})"
                f" have {ESCAPED}, which are read as they stand. Write the text without them"
            )
        repeated = self._n - len(self._different)
        if self._n >= _FEW and self._equal > _HALF * self._n:
            yield (
                f"{self._equal:,} of {self._n:,} sentence pairs have one text on both sides. If"
                f" both are of one language, name the text of the other"
            )
        if self._n >= _FEW and repeated > _NEARLY_ALL * self._n:
            yield (
                f"{repeated:,} of {self._n:,} sentence pairs are repetitions of others, which"
                " training leaves out unless `overlap: keep` is set"
            )
        for offset, (line, there, here) in self._evidence.items():
            if self._windows.count(offset) >= _SHARE * len(self._windows):
                yield (
                    f"the sides of {self.lang}-{self.pivot} seem to be shifted against each other"
                    f" before line {line:,}: lines of {self.lang} are as long as the"
                    f" {'next' if offset > 0 else 'previous'} lines of {self.pivot} (correlation"
                    f" {there:.2f}), and not as those of the same number ({here:.2f}). Look for a"
                    " line that is missing or there twice"
                )

    def _compare(self, line: int) -> None:
        """Compare the lengths of the sides at the same place, and one line apart."""
        source, target = (list(side) for side in zip(*self._lengths, strict=True))
        here = _correlation(source, target)
        apart = {
            1: _correlation(source[:-1], target[1:]),
            -1: _correlation(source[1:], target[:-1]),
        }
        offset = max(apart, key=lambda way: apart[way])
        error = math.sqrt(2 / (len(source) - 3))
        shifted = math.atanh(apart[offset]) - math.atanh(here) > _CLEARLY * error
        self._windows.append(offset if shifted else 0)
        if shifted:
            self._evidence.setdefault(offset, (line, apart[offset], here))
        self._lengths.clear()


def _correlation(one: list[float], other: list[float]) -> float:
    """Return the correlation of two lists, 0 where one has a single value; never quite 1."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return 0.0
    return max(-0.999, min(0.999, statistics.correlation(one, other)))


def swapped(
    pairs: Iterable[tuple[str, str]],
    lang: str,
    pivot: str,
    text: Callable[[], Sequence[tuple[str, str]]] = tuple,
) -> str | None:
    """Return why the two sides of translations, the first in `lang`, seem to be swapped; None where
    they do not.

    Letters of another script show it, and the most frequent words of a language that the phrasebook
    speaks; or else the words of `text`, which gives sentence pairs of the same languages.
    """
    found = list(pairs)
    source, target = [own for own, _ in found], [other for _, other in found]
    why = (
        _by_script(source, target, lang, pivot)
        or _by_words(pivot, target, source, lang)
        or _by_words(lang, source, target, pivot)
    )
    if why is None and (known := text()):
        why = crossed(found, (lang, pivot), vocabularies(known))
    return why


def _by_script(source: Sequence[str], target: Sequence[str], lang: str, pivot: str) -> str | None:
    """Compare the scripts of the two languages, where they have different ones."""
    scripts = [language(code).script for code in (lang, pivot)]
    named = [_SCRIPTS.get(script) for script in scripts]
    if named[0] is None or named[1] is None or set(named[0]) & set(named[1]):
        return None
    letters = [_letters(side) for side in (source, target)]
    if min(count.total() for count in letters) < _LEAST:
        return None
    crossed = _share(letters[0], named[1]), _share(letters[1], named[0])
    straight = _share(letters[0], named[0]), _share(letters[1], named[1])
    if min(crossed) < _MOSTLY or max(straight) > _HARDLY:
        return None
    return (
        f"{crossed[0]:.0%} of the letters of {lang} are {scripts[1]}, the script of {pivot}, and"
        f" {crossed[1]:.0%} of those of {pivot} are {scripts[0]}"
    )


def _by_words(code: str, own: Sequence[str], other: Sequence[str], beside: str) -> str | None:
    """Look for the frequent words of a language in its own side and in that of `beside`."""
    spoken = spelled(code, LANGS)
    sides = [_words(side) for side in (own, other)]
    if spoken is None or min(map(len, sides)) < _LEAST:
        return None
    shares = [_share_of(side, _profile(spoken)) for side in sides]
    if shares[1] < max(_PLAIN, _TIMES * shares[0]):
        return None
    return (
        f"{shares[1]:.0%} of the words of {beside} are among the {_FREQUENT} most frequent ones of"
        f" {code}, and {shares[0]:.0%} of those of {code}"
    )


def vocabularies(pairs: Iterable[tuple[str, str]]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the different words of the two sides of a bitext, lower-cased."""
    first, second = zip(*pairs, strict=True)
    return frozenset(_words(first)), frozenset(_words(second))


def crossed(
    pairs: Iterable[tuple[str, str]],
    langs: tuple[str, str],
    known: tuple[Container[str], Container[str]],
) -> str | None:
    """Return why the two sides of translations seem to be swapped, by the lower-cased words of
    texts in the two languages (`known`); None where they do not.
    """
    different = [(own, other) for own, other in pairs if own != other]
    sides = [_words(side) for side in zip(*different, strict=True)] if different else [[], []]
    if min(map(len, sides)) < _LEAST:
        return None
    (own, apart), (apart_too, own_too) = (
        [_share_of(side, words) for words in known] for side in sides
    )
    if min(apart, apart_too) < max(_PLAIN, _TIMES * max(own, own_too)):
        return None
    return (
        f"of the words of {langs[0]} {apart:.0%} are in the text of {langs[1]} and {own:.0%} in"
        f" that of {langs[0]}, of the words of {langs[1]} {apart_too:.0%} and {own_too:.0%}"
    )


def _share_of(words: Sequence[str], known: Container[str]) -> float:
    return sum(word in known for word in words) / len(words)


def _words(side: Iterable[str]) -> list[str]:
    return _WORD.findall(clean("\n".join(side)).lower())


def _letters(side: Sequence[str]) -> Counter[str]:
    """Count letters by the first word of their Unicode names."""
    letters = (char for text in side for char in text if char.isalpha())
    return Counter(unicodedata.name(char, "").partition(" ")[0] for char in letters)


def _share(letters: Counter[str], names: Sequence[str]) -> float:
    return sum(letters[name] for name in names) / letters.total()


@cache
def _profile(code: str) -> frozenset[str]:
    """Return the most frequent words of the first sentences of the phrasebook."""
    counts = Counter(
        word.lower()
        for (own,) in sentences((code,), _SENTENCES)
        for word in own.words
        if word.isalpha()
    )
    return frozenset(word for word, _ in counts.most_common(_FREQUENT))
