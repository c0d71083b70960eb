"""Lines that are not translations of each other, and sides that are swapped, are recognised, and
real text is not suspected.
"""

import pytest

from raxalign.corpora.base import SentencePair
from raxalign.corpora.text.parallel import (
    Parallel,
    crossed,
    swapped,
    vocabularies,
)


def doubts(source, target, first=None):
    seen = Parallel("xx", "en")
    numbered = enumerate(list(zip(source, target, strict=True))[:first])
    assert sum(1 for _ in seen.see(SentencePair(n, *sides) for n, sides in numbered)) > 0
    return list(seen.doubts())


def sentences(n, word):
    """Sentences of many lengths, in an order without a pattern."""
    return [f"{word} " * (1 + (i * 7919) % 23) + str(i) for i in range(n)]


@pytest.mark.parametrize("n", [40, 700, 2000])
def test_a_file_that_is_shifted_by_a_line_is_recognised(n):
    source, target = sentences(n, "wort"), sentences(n, "word")
    assert doubts(source, target) == []
    moved = {"next": (source[1:], target[:-1]), "previous": (source[:-1], target[1:])}
    for neighbour, sides in moved.items():
        (doubt,) = doubts(*sides)
        assert f"lines of xx are as long as the {neighbour} lines of en" in doubt


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


ENGLISH = ["The old man is in the garden and it is not a good day for the queen of the land."] * 9
RUSSIAN = ["Старик сегодня в саду, и это не самый лучший день для королевы этой страны."] * 9
SWAHILI = ["Mzee yuko bustanini na leo si siku njema kwa malkia wa nchi hii hata kidogo."] * 9


def pairs(source, target):
    return list(zip(source, target, strict=True))


def test_letters_of_the_other_script_or_frequent_words_show_sides_that_are_swapped():
    assert swapped(pairs(ENGLISH, RUSSIAN), "ru", "en") == (
        "100% of the letters of ru are Latn, the script of en, and 100% of those of en are Cyrl"
    )
    why = swapped(pairs(ENGLISH, SWAHILI), "sw", "en")
    assert why.endswith(
        "of the words of sw are among the 25 most frequent ones of en, and 0% of those of en"
    )
    for right, lang, pivot in (
        (pairs(RUSSIAN, ENGLISH), "ru", "en"),
        (pairs(SWAHILI, ENGLISH), "sw", "en"),
        (pairs(ENGLISH, ENGLISH), "sw", "en"),
        (pairs(ENGLISH[:2], SWAHILI[:2]), "sw", "en"),
        ([], "ru", "en"),
        (pairs(ENGLISH, SWAHILI), "sw", "tr"),  # neither is in the phrasebook
    ):
        assert swapped(right, lang, pivot) is None


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["ar", "bg", "de", "es", "fr", "hi", "tr", "zh"])
@pytest.mark.parametrize("place", ["ntrex/ntrex.{side}", "tatoeba/{lang}-en.{side}"])
def test_published_text_is_not_suspected_and_is_when_it_is_shifted_or_swapped(
    real_data, lang, place
):
    files = (real_data / place.format(lang=lang, side=side) for side in (lang, "en"))
    own, english = (file.read_text("utf-8").rstrip("\n").split("\n") for file in files)
    assert doubts(own, english) == []
    for first in (None, Parallel.GLANCE):
        assert len(doubts(own[1:], english[:-1], first)) == 1
        assert len(doubts(own[:-1], english[1:], first)) == 1
    own, english = own[: Parallel.SIDES_GLANCE], english[: Parallel.SIDES_GLANCE]
    assert swapped(pairs(own, english), lang, "en") is None
    assert swapped(pairs(english, own), lang, "en") is not None


@pytest.mark.parametrize("lang", ["de", "fr", "es", "tr"])
def test_the_sides_of_a_dictionary_are_told_by_the_words_of_other_text(real_data, lang):
    files = (real_data / "ntrex" / f"ntrex.{code}" for code in (lang, "en"))
    text = [file.read_text(encoding="utf-8").splitlines()[:1000] for file in files]
    lines = (real_data / "dictionaries" / f"{lang}-en.train.txt").read_text(encoding="utf-8")
    entries = [tuple(line.split()) for line in lines.splitlines()]
    known, exchanged = vocabularies(pairs(*text)), [entry[::-1] for entry in entries]
    assert crossed(entries, (lang, "en"), known) is None
    assert crossed(exchanged, (lang, "en"), known) is not None
    assert crossed(exchanged[:20], (lang, "en"), known) is None  # too few to show anything


def test_marks_that_moses_has_escaped_are_recognised():
    text = sentences(100, "word")
    for mark in ("&apos;s", "&#91;", "well @-@ known", "&amp;quot;"):
        (doubt,) = doubts([f"{text[0]} {mark}", text[1], *text[2:]][:50], text[50:])[:1]
        assert doubt.startswith("1 of 50 sentence pairs (2.0%) have marks that Moses")
    assert doubts([f"{text[0]} R&D @-@5 & co;", *text[1:50]], text[50:]) == []
