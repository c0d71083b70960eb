"""Lines that are not translations of each other are recognised in any two languages, and real text
is not suspected.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from raxalign.corpora.base import SentencePair
from raxalign.corpora.text.parallel import GLANCE, Parallel


def doubts(source, target, first=None):
    seen = Parallel("xx", "en")
    numbered = enumerate(list(zip(source, target, strict=True))[:first])
    assert sum(1 for _ in seen.see(SentencePair(n, *sides) for n, sides in numbered)) > 0
    return list(seen.doubts())


def sentences(n, word):
    """Sentences of many lengths, in an order without a pattern."""
    return [f"{word} " * (1 + (i * 7919) % 23) + str(i) for i in range(n)]


@pytest.mark.parametrize("n", [40, 700, 2000])
@pytest.mark.parametrize(("ahead", "neighbour"), [(1, "next"), (-1, "previous")])
def test_a_file_that_is_shifted_by_a_line_is_recognised(n, ahead, neighbour):
    source, target = sentences(n, "wort"), sentences(n, "word")
    moved = (source[1:], target[:-1]) if ahead == 1 else (source[:-1], target[1:])
    (doubt,) = doubts(*moved)
    assert f"lines of xx are as long as the {neighbour} lines of en" in doubt
    assert doubts(source, target) == []


def test_a_line_that_is_lost_in_the_middle_is_placed():
    source, target = sentences(3000, "wort"), sentences(3001, "word")
    (doubt,) = doubts([*source[:1500], "wort", *source[1500:]], target)
    assert "seem to be shifted against each other before line 2,000: " in doubt


def test_text_that_is_the_same_on_both_sides_and_pairs_that_repeat_are_recognised():
    text = sentences(100, "word")
    assert doubts(text, text) == [
        "100 of 100 sentence pairs have one text on both sides. If both are of one language, name"
        " the text of the other"
    ]
    assert doubts(["ja"] * 1500, ["yes"] * 1500) == [
        "1,499 of 1,500 sentence pairs are repetitions of others, which training leaves out"
        " unless `overlap: keep` is set"
    ]


def test_few_pairs_and_lines_of_one_length_show_nothing():
    assert doubts(["a"] * 9, ["a"] * 9) == []
    assert doubts([f"{i:04}" for i in range(900)], [f"{i:06}" for i in range(900)]) == []


NTREX = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "zh", "ar")
TATOEBA = ("ar", "bg", "de", "es", "fr", "hi", "tr", "zh")
REAL = [
    *((f"ntrex/ntrex.{one}", f"ntrex/ntrex.{other}") for one, other in pairwise(NTREX)),
    *((f"tatoeba/{code}-en.{code}", f"tatoeba/{code}-en.en") for code in TATOEBA),
]


@pytest.mark.parametrize(("one", "other"), REAL)
def test_published_text_is_not_suspected_and_is_when_it_is_shifted(real_data, one, other):
    source, target = (
        (real_data / name).read_text(encoding="utf-8").rstrip("\n").split("\n")
        for name in (one, other)
    )
    assert doubts(source, target) == []
    for first in (None, GLANCE):
        assert len(doubts(source[1:], target[:-1], first)) == 1
        assert len(doubts(source[:-1], target[1:], first)) == 1
