"""Whether sentence pairs are translations of each other, as far as lengths and sameness show it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from raxalign.corpora.base import SentencePair

GLANCE = 1000
"""Sentence pairs that are looked at where a file is not read to its end."""
_WINDOW = 500  # neighbouring pairs whose lengths are compared at a time
_FEW = 30  # pairs that show nothing
_HALF, _NEARLY_ALL = 0.5, 0.9  # shares of pairs that are not as they should be
_CLEARLY = 6.0  # standard errors between two correlations: no real text of one in 1e8 windows
_SHARE = 0.05  # of the windows of a file: a few may be of pairs that are shifted in the original


@dataclass
class Parallel:
    """What was seen of the sentence pairs of a bitext, in the order of the file.

    A file that has lost a line pairs each sentence with the neighbour of its translation. Lengths
    show it in any two languages: those of translations go together, those of neighbours do not.
    """

    lang: str
    pivot: str
    _n: int = 0
    _equal: int = 0
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
            if pair.source and pair.target:
                self._lengths.append((math.log(len(pair.source)), math.log(len(pair.target))))
            if len(self._lengths) == _WINDOW:
                self._compare(pair.id + 1)
            yield pair

    def doubts(self) -> Iterator[str]:
        """Yield a sentence per reason to doubt what was seen."""
        if len(self._lengths) >= _FEW:
            self._compare(self._n)
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
