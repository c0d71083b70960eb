"""Moses tokenisation by sacremoses, made fast: what it does to a sentence is put together from what
it does to short parts.

Moses leaves a word of letters and digits alone, and its rules look no further than to the
neighbouring character or, at a full stop, to the first character of the next word. So a sentence is
cut into runs of words that have other characters; a run is tokenised with a stand-in for the plain
word on either side, and remembered. The results are those of sacremoses on the whole sentence
(tested on real text).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

_REMEMBERED = 200_000
_HARD = ("", "")  # the parts of a word that goes the long way
_OTHER = {"cjk": "und"}  # Chokwe: sacremoses takes the code for Chinese, Japanese and Korean
_MARKER = (  # sacremoses marks runs of dots by this word; a text that has it goes the long way
    "MULTI"
)


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
        numeric = frozenset(moses.NUMERIC_ONLY_PREFIXES)
        self._kept_before_numbers, self._kept = (
            numeric,
            frozenset(moses.NONBREAKING_PREFIXES) - numeric,
        )
        mark = rf"[^{moses.IsAlnum}\s.'`,\-]"
        self._match = re.compile(rf"({mark}?)([{moses.IsAlnum}]+)({mark}|[,.])?").fullmatch
        self._known: dict[str, tuple[str, ...]] = {}
        self._runs: dict[tuple[str, bool, str], list[str]] = {}

    def __call__(self, text: str) -> list[str]:
        if _MARKER in text:
            return self._whole(text)
        words = text.split()
        known, learn = self._known, self._learn
        parts = [known.get(word) or learn(word) for word in words]
        out: list[str] = []
        start, n = 0, len(words)
        while start < n:
            if len(parts[start]) == 1:
                out.append(words[start])
                start += 1
                continue
            end = start + 1
            while end < n and len(parts[end]) > 1:
                end += 1
            if any(part is _HARD for part in parts[start:end]):
                out += self._run(
                    " ".join(words[start:end]),
                    start > 0,
                    self._stand_in(words[end]) if end < n else "",
                )
            else:
                for i in range(start, end):
                    out += (
                        self._stopped(parts[i], words[i + 1] if i + 1 < n else "")
                        if parts[i][-1] == "."
                        else parts[i]
                    )
            start = end
        return out

    def _learn(self, word: str) -> tuple[str, ...]:
        """The parts of a word that has at most a mark on either side; `_HARD` for others. One part:
        Moses leaves the word alone.
        """
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        match = self._match(word)
        self._known[word] = parts = (
            tuple(part for part in match.groups() if part) if match else _HARD
        )
        return parts

    def _stopped(self, parts: tuple[str, ...], following: str) -> tuple[str, ...]:
        """A word with a full stop, which stays with an abbreviation, and with any word that a small
        letter follows.
        """
        *before, word, stop = parts
        first = following[:1]
        stays = (
            word in self._kept
            or (first and first in self._lower)
            or (word in self._kept_before_numbers and _is_digit(first))
        )
        return (*before, word + stop) if stays else parts

    def _stand_in(self, word: str) -> str:
        """A plain word that begins like this one, as far as the rule of full stops distinguishes
        words.
        """
        if word[0] in self._lower:
            return "a"
        return "1" if _is_digit(word[0]) else "A"

    def _run(self, run: str, after: bool, before: str) -> list[str]:
        key = (run, after, before)
        found = self._runs.get(key)
        if found is None:
            if len(self._runs) >= _REMEMBERED:
                self._runs.clear()
            words = self._whole(f"{'a ' if after else ''}{run}{' ' if before else ''}{before}")
            found = self._runs[key] = words[int(after) : len(words) - bool(before)]
        return found

    def _whole(self, text: str) -> list[str]:
        words: list[str] = self._moses.tokenize(text, escape=False)
        return words


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"
