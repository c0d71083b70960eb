"""Languages and their codes."""

import sys

import pytest

from raxalign import languages
from raxalign.errors import RaxalignError
from raxalign.languages import language, pair_of, remark, respelled, same_language


def test_languages_with_three_letters_have_their_scripts_and_spaces():
    rows = """Latn ast bar ceb lmo min nds pms scn sco war|Arab arz azb pnb|Beng bpy|Deva new"""
    for script, *codes in map(str.split, rows.split("|")):
        for code in codes:
            known = language(code)
            assert (known.script, known.spaced, known.segmenter) == (script, True, None), code


def test_short_codes_are_what_cldr_says_and_are_known_without_its_library(monkeypatch):
    codes = sorted(languages._SHORT_CODES)
    language.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "langcodes", None)
        short = [language(code) for code in codes]
        assert not same_language("de", "el")
    language.cache_clear()
    monkeypatch.setattr(languages, "_SHORT_CODES", {})
    assert [language(code) for code in codes] == short
    assert len(codes) > 150


@pytest.mark.parametrize(
    ("code", "tag", "script", "name"),
    [
        ("ha", "ha", "Latn", "Hausa"),
        ("hau", "ha", "Latn", "Hausa"),
        ("am", "am", "Ethi", "Amharic"),
        ("eng_Latn", "en", "Latn", "English"),
        ("zh-Hant", "zh-Hant", "Hant", "Chinese (Traditional)"),
        ("zh_Hans", "zh", "Hans", "Chinese"),
        ("zho-TW", "zh-TW", "Hant", "Chinese (Taiwan)"),
        ("zh_cn", "zh-CN", "Hans", "Chinese (China)"),
        ("sr-Latn", "sr-Latn", "Latn", "Serbian (Latin)"),
        ("pt-BR", "pt-BR", "Latn", "Portuguese (Brazil)"),
        ("iw", "he", "Hebr", "Hebrew"),
        ("in", "id", "Latn", "Indonesian"),
        ("arb_Arab", "ar", "Arab", "Arabic"),
        ("kor_Hang", "ko", "Kore", "Korean"),
        ("azb", "azb", "Arab", "South Azerbaijani"),
        ("pbt_Arab", "ps", "Arab", "Pashto"),
        ("tl", "fil", "Latn", "Tagalog"),
        ("xyz", "xyz", "Latn", "xyz"),
    ],
)
def test_a_code_is_read_as_cldr_reads_it(code, tag, script, name):
    known = language(code)
    assert (known.code, known.tag, known.script) == (code, tag, script)
    assert name in known.name


def test_the_script_says_whether_words_are_divided_by_spaces_and_by_which_segmenter():
    unspaced = "zh zh-Hant yue ja th lo km my shn bo dz jv-Java".split()  # noqa: SIM905
    assert not [code for code in unspaced if language(code).spaced]
    spaced = "ko am ar vi jv zh-Latn ja-Latn".split()  # noqa: SIM905
    assert [code for code in spaced if language(code).spaced] == spaced
    segmenters = dict.fromkeys(("zh", "zho_Hant"), "jieba")
    segmenters |= dict.fromkeys(("th", "tha_Thai"), "pythainlp")
    segmenters |= dict.fromkeys(("ja", "de", "zh-Latn"))
    assert {code: language(code).segmenter for code in segmenters} == segmenters


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("en", "eng_Latn", True),
        ("de", "deu", True),
        ("ar", "arb_Arab", True),
        ("zh", "zh-Hant", False),
        ("pt", "pt-BR", False),
        ("aka_Latn", "twi_Latn", False),
        ("no", "nob", False),
        ("avg", "avg", True),
        ("avg", "en", False),
    ],
)
def test_two_codes_are_one_language_by_language_script_and_region(one, other, same):
    assert same_language(one, other) is same


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("Turkish", "tr"),
        ("norsk", "no"),
        ("jp", "ja"),
        ("cz", "cs"),
        ("de_DE.UTF-8", "de_DE"),
        ("simple", "en-x-simple"),
        ("zh-classical", "lzh"),
    ],
)
def test_what_is_not_a_code_is_refused_with_the_code_that_was_meant(text, near):
    with pytest.raises(RaxalignError, match=f"unknown language '{text}'; did you mean {near}\\?"):
        language(text)


@pytest.mark.parametrize("text", ["", "d", "xx", "und", "mul", "avg", "x-foo", "de--fr", "{lang}"])
def test_what_names_no_language_is_refused(text):
    with pytest.raises(RaxalignError, match="unknown language"):
        language(text)


def test_well_formed_codes_of_unknown_languages_are_remarked_on():
    assert [remark(code) for code in ("ha", "eng_Latn", "zh-Hant")] == [None] * 3
    said = remark("qaa")
    assert said is not None
    assert "nothing is known about the language qaa" in said
    assert "Tibt" in (remark("xyz-Tibt") or "")


def test_labels_of_pairs_are_divided_and_respelled_by_the_languages_that_there_are():
    languages = ["zh-Hant", "en", "zh"]
    assert pair_of("zh-Hant-en", languages) == ("zh-Hant", "en")
    assert pair_of("en-zh-Hant", languages) == ("en", "zh-Hant")
    assert pair_of("zh-zh-Hant", languages) == ("zh", "zh-Hant")
    assert pair_of("zh-Hant", languages) is pair_of("avg", languages) is None
    assert respelled("zh-Hant-en", ["eng_Latn", "zho_Hant"]) == "zho_Hant-eng_Latn"
    assert respelled("fr-en", ["eng_Latn", "deu"]) == "fr-en"
