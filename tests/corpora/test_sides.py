"""Sides of a bitext that are swapped are recognised, and others are not."""

import os
from itertools import islice
from pathlib import Path

import pytest

from raxalign.corpora.text.sides import GLANCE, crossed, swapped, vocabularies

ENGLISH = ["The old man is in the garden and it is not a good day for the queen of the land."] * 9
RUSSIAN = ["Старик сегодня в саду, и это не самый лучший день для королевы этой страны."] * 9
SWAHILI = ["Mzee yuko bustanini na leo si siku njema kwa malkia wa nchi hii hata kidogo."] * 9


def pairs(source, target):
    return list(zip(source, target, strict=True))


def test_letters_of_the_other_script_show_it():
    assert swapped(pairs(ENGLISH, RUSSIAN), "ru", "en") == (
        "100% of the letters of ru are Latn, the script of en, and 100% of those of en are Cyrl"
    )
    assert swapped(pairs(RUSSIAN, ENGLISH), "ru", "en") is None


def test_frequent_words_show_it_in_one_script():
    why = swapped(pairs(ENGLISH, SWAHILI), "sw", "en")
    assert why is not None
    assert why.endswith(
        "of the words of sw are among the 25 most frequent ones of en, and 0% of those of en"
    )
    assert swapped(pairs(SWAHILI, ENGLISH), "sw", "en") is None


def test_two_sides_of_one_language_and_little_text_show_nothing():
    assert swapped(pairs(ENGLISH, ENGLISH), "sw", "en") is None
    assert swapped(pairs(ENGLISH[:2], SWAHILI[:2]), "sw", "en") is None
    assert swapped([], "ru", "en") is None


def test_languages_that_nothing_is_known_of_show_nothing():
    assert swapped(pairs(ENGLISH, SWAHILI), "sw", "tr") is None


@pytest.mark.parametrize("lang", ["de", "fr", "es", "tr"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_the_sides_of_a_dictionary_are_told_by_the_words_of_other_text(lang, part):
    if "RAXALIGN_TEST_DATA" not in os.environ:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    data = Path(os.environ["RAXALIGN_TEST_DATA"])
    text = [
        (data / "ntrex" / f"ntrex.{code}").read_text(encoding="utf-8").splitlines()[:1000]
        for code in (lang, "en")
    ]
    known = vocabularies(pairs(*text))
    lines = (data / "dictionaries" / f"{lang}-en.{part}.txt").read_text(encoding="utf-8")
    entries = [tuple(line.split()) for line in lines.splitlines()]
    exchanged = [entry[::-1] for entry in entries]
    assert crossed(entries, (lang, "en"), known) is None
    assert crossed(exchanged, (lang, "en"), known) is not None
    assert crossed(exchanged[:20], (lang, "en"), known) is None  # too few to show anything


@pytest.mark.parametrize("lang", ["de", "fr", "es", "tr", "zh", "bg", "ar", "hi"])
def test_published_text_is_told_by_both_orders(lang):
    if "RAXALIGN_TEST_DATA" not in os.environ:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    prefix = Path(os.environ["RAXALIGN_TEST_DATA"]) / "tatoeba" / f"{lang}-en"
    own, english = (
        list(islice(Path(f"{prefix}.{code}").read_text(encoding="utf-8").split("\n"), GLANCE))
        for code in (lang, "en")
    )
    assert swapped(pairs(own, english), lang, "en") is None
    assert swapped(pairs(english, own), lang, "en") is not None
