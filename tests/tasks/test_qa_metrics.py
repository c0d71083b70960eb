"""Answers compared by MLQA's and by SQuAD's rules, against values worked out by hand."""

from __future__ import annotations

import pytest

from raxalign.tasks.spans.metrics import best, exact_match, f1, normalized


@pytest.mark.parametrize(
    ("lang", "text", "tokens"),
    [
        ("en", "The  U.S. Army's an-swer, a “quote”!", ["us", "armys", "answer", "quote"]),
        ("en", "theatre another", ["theatre", "another"]),
        ("de", "Die Straße des 17. Juni", ["straße", "17", "juni"]),
        ("de", "the a el", ["the", "a", "el"]),
        ("es", "¿Los niños y una niña?", ["niños", "y", "niña"]),
        ("es", "del él", ["del", "él"]),
        ("vi", "những con mèo của tôi", ["con", "mèo", "tôi"]),
        ("hi", "एक घर।", ["एक", "घर"]),
        ("ar", "البيت الكبير، بيت", ["بيت", "كبير", "بيت"]),
        ("fr", "le $100 d'or", ["le", "100", "dor"]),
        ("el", "Το «σπίτι»", ["το", "σπίτι"]),
        (
            "zh",
            "《三国演义》的1494年 Liu Bei，the A",
            ["三", "国", "演", "义", "的", "1494", "年", "liu", "beithe", "a"],
        ),
        ("th", "ปี 2000", ["ป", "ี", "2000"]),
        ("en", "the, a!", []),
    ],
)
def test_tokens_of_an_answer(lang, text, tokens):
    assert normalized(text, lang) == tokens


@pytest.mark.parametrize(
    ("lang", "text", "tokens"),
    [
        ("en", "The  U.S. Army's an-swer, a $quote!", ["us", "armys", "answer", "quote"]),
        ("en", "a “quote” – the end…", ["“quote”", "–", "end…"]),  # ASCII's punctuation alone
        ("de", "Die Straße des 17. Juni", ["die", "straße", "des", "17", "juni"]),
        ("de", "An the a 1", ["1"]),  # English articles go in every language
        ("es", "¿Los niños y una niña?", ["¿los", "niños", "y", "una", "niña"]),
        ("ar", "البيت الكبير، بيت", ["البيت", "الكبير،", "بيت"]),
        (
            "zh",
            "《三国演义》的1494年 Liu Bei，the A",
            ["《三国演义》的1494年", "liu", "bei，"],
        ),  # an article ends where a word does, at any comma
        ("th", "ปี 2000", ["ปี", "2000"]),
        ("en", "the, a!", []),
    ],
)
def test_tokens_of_an_answer_by_squads_rules(lang, text, tokens):
    assert normalized(text, lang, "squad") == tokens


def test_f1_and_exact_match_by_squads_rules():
    assert f1("der große Hund", "ein Hund", "de", "squad") == pytest.approx(
        2 / 5, abs=1e-12
    )  # Hund, of three and of two words
    assert f1("三驾马车公司", "三驾马车设计集团", "zh", "squad") == 0  # a word each, and others
    assert f1("1494 年", "1494 年。", "zh", "squad") == pytest.approx(1 / 2, abs=1e-12)
    assert f1("the red house", "a house", "en", "squad") == pytest.approx(2 / 3, abs=1e-12)
    assert exact_match("2000 年", "2000年", "zh", "squad") == 0
    assert exact_match("The U.S.", "us", "ru", "squad") == 1
    assert exact_match("el perro", "perro", "es", "squad") == 0
    assert best(f1, "2000年", ["2000 年", "2000年，"], "zh", "squad") == 0
    assert best(exact_match, "«дом»", ["дом", "«дом»"], "ru", "squad") == 1


def test_f1_by_hand():
    assert f1("der große Hund", "ein Hund", "de") == pytest.approx(
        2 / 3, abs=1e-12
    )  # (große, Hund) and (Hund)
    assert f1("el perro el gato", "gato", "es") == pytest.approx(2 / 3, abs=1e-12)
    assert f1("三驾马车公司", "三驾马车设计集团", "zh") == pytest.approx(
        2 * 4 / (6 + 8), abs=1e-12
    )  # four characters are shared
    assert f1("x x y", "x y y", "en") == pytest.approx(
        2 * 2 / 6, abs=1e-12
    )  # bags: one x and one y
    assert f1("x", "y", "en") == 0
    assert f1("the", "the", "en") == 0  # no token is left to share


def test_exact_match_is_about_tokens_in_their_order():
    assert exact_match("The answer.", "answer", "en") == 1
    assert exact_match("b a", "a b", "fr") == 0
    assert exact_match("The answer", "answer", "de") == 0
    assert exact_match("2000 年", "2000年。", "zh") == 1


def test_of_several_gold_answers_each_metric_takes_its_best():
    golds = ["a red house", "red barn"]
    assert best(f1, "the red house", golds, "en") == 1
    assert best(f1, "red barn door", golds, "en") == pytest.approx(0.8, abs=1e-12)
    assert best(exact_match, "red barn door", golds, "en") == 0
