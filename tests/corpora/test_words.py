import unicodedata
from functools import cache
from importlib.util import find_spec

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.text.words import (
    Sentence,
    clean,
    describe,
    divide_at_blanks,
    given_words,
    in_text,
    look_up_form,
    tokenize,
    within_text,
)
from raxalign.errors import DependencyError, RaxalignError

LANGUAGES = ["en", "fr", "de", "tr", "ru", "hi", "ar", "ko"]
FRAGMENTS = [*"aBz1éßЖ中가क्ा.,;:!?'`\"-()/@&€", *[" "] * 3, "\u00a0", "\u0301"]
FRAGMENTS += ["...", "Mr.", "No.", "z.B.", "U.S.", "l'", "n't", "'s", "5,300", "DOTMULTI"]


@pytest.mark.parametrize(
    ("lang", "text", "words"),
    [
        ("en", "Don't go, Mr. Smith.", ["Don", "'t", "go", ",", "Mr.", "Smith", "."]),
        (
            "en",
            "It costs $5,300 (or so)…",
            ["It", "costs", "$", "5,300", "(", "or", "so", ")", "…"],
        ),
        ("fr", "L'ami d'Anne.", ["L'", "ami", "d'", "Anne", "."]),
        ("de", 'Der 3. Mai & "mehr" ...', ["Der", "3.", "Mai", "&", '"', "mehr", '"', "..."]),
        ("hi", "यह घर है।", ["यह", "घर", "है", "।"]),
        ("de", "Donau\u00addampf\u200bschiff\ufeff", ["Donaudampf", "schiff"]),
        ("fr", "e\u0301te\u0301\u00a0!", ["été", "!"]),
        ("fa", "می\u200cروم", ["میروم"]),
        ("en", "a\u2028b\u3000c\x85d\te\x07f", ["a", "b", "c", "d", "ef"]),
        ("en", " \u200b\u00ad ", []),
        ("en", "&amp; | [x]", ["&", "amp", ";", "|", "[", "x", "]"]),
    ],
)
def test_words_with_spaces(lang, text, words):
    assert tokenize(lang)(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我在Berlin住了12.5年。", ["我", "在", "Berlin", "住", "了", "12.5", "年", "。"]),
        ("他说：“e-mail don't”……", ["他", "说", "：", "“", "e-mail", "don't", "”", "……"]),
        ("カタカナ、ひらがな", ["カ", "タ", "カ", "ナ", "、", "ひ", "ら", "が", "な"]),
        ("か\u3099", ["が"]),
        ("น้ำ ที่", ["น้ำ", "ที่"]),
        ("ខ្មែរ", ["ខ្មែ", "រ"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("ສະບາຍ", ["ສ", "ະ", "ບ", "າ", "ຍ"]),
        ("한국어 中", ["한국어", "中"]),
        ("naïve Ünïcode1a", ["naïve", "Ünïcode1a"]),
        ("𠀀𠀁", ["𠀀", "𠀁"]),
        ("\u200b \u3000", []),
    ],
)
def test_words_without_spaces(text, words):
    assert tokenize("zh")(text) == words


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["en", "fr", "hi", "zh", "th", "ko"]), st.text(max_size=60))
@example("zh", "\u200d")
@example("en", "\u0301a")
def test_no_word_is_empty_or_has_white_space(lang, text):
    words = tokenize(lang)(text)
    assert all(word.split() == [word] for word in words)
    assert all(
        unicodedata.category(word[0]) != "Cf"
        or word[0] in "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd"
        for word in words
        if len(word) > 1
    )


@cache
def moses(lang):
    """The tokeniser, which reads its tables for a tenth of a second."""
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LANGUAGES), st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
@example("en", "I saw No. 5 and No. x, 'a 'b' , ,x. (y.")
def test_fast_tokenisation_is_that_of_sacremoses(lang, text):
    assert tokenize(lang)(text) == moses(lang).tokenize(clean(text), escape=False)


@pytest.mark.parametrize(("lang", "library"), [("zh", "jieba"), ("th", "pythainlp")])
def test_a_missing_segmenter_says_how_to_install_it(lang, library):
    if find_spec(library):
        assert tokenize(lang, "words")("") == []
        return
    with pytest.raises(DependencyError, match=rf"{library}.*pip install 'raxalign\[segment\]'"):
        tokenize(lang, "words")


def test_words_of_a_language_without_a_segmenter_are_refused_with_what_to_do():
    for lang in ("ja", "km", "lo", "my"):
        with pytest.raises(RaxalignError) as error:
            tokenize(lang, "words")
        assert str(error.value) == (
            f"segmentation: words: there is no segmenter for {lang} (only for zh, th); divide its"
            " text into words yourself and set `pretokenized: true` for it under"
            " `corpus.by_language`, or set `segmentation: characters`"
        )
    with pytest.raises(RaxalignError, match="unknown language"):
        tokenize("german")
    assert describe("de").startswith("Moses (sacremoses ")
    assert describe("zh") == describe("ja", "characters") == "characters"


def test_segmenters_find_words_of_several_characters():
    pytest.importorskip("jieba")
    pytest.importorskip("pythainlp")
    assert tokenize("zh")("中国的大学") == ["中", "国", "的", "大", "学"]
    assert tokenize("zh", "words")("中国的大学") == ["中国", "的", "大学"]
    assert tokenize("th", "words")("ฉันรักภาษาไทย") == ["ฉัน", "รัก", "ภาษาไทย"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  don't\tstop it ! ", ["don't", "stop", "it", "!"]),
        ("我们 是 学生", ["我们", "是", "学生"]),
        ("10\u00a0000 e\u0301t\u00e9\u00ad", ["10000", "\u00e9t\u00e9"]),
        ("a \u200b \u3000 b", ["a", "\ufffd", "\ufffd", "b"]),
        ("a\nb\r\nc", ["a", "b", "c"]),
        (" \t ", []),
    ],
)
def test_given_words_keep_their_numbers_and_their_published_form(text, words):
    published = divide_at_blanks(text)
    found = given_words(published, "en")
    assert found == words
    assert in_text(found, "en").text == " ".join(published)
    assert [in_text(found, "en").text[a:b] for a, b in in_text(found, "en").spans()] == [*published]


COMPOSING = st.sampled_from(
    "abÄ我。, .'1\u00a0\u200b\u00ad\u200d\u0301\u0316\u1100\u1161\u11a8\u0958\u093c\u09c7\u09be\x1c"
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["en", "hi", "zh", "ko"]),
    st.text(COMPOSING | st.characters(codec="utf-8"), max_size=15),
)
def test_words_have_their_places_in_the_text_as_it_was_published(lang, text):
    found = within_text(tokenize(lang), text)
    assert found == tokenize(lang)(text)
    if isinstance(found, Sentence):
        assert found.text == text.strip()
        for word, (start, end) in zip(found, found.spans(), strict=True):
            assert found.text.startswith(word, start) or word in clean(found.text[start:end])


def test_published_forms_and_joiners_stay_in_the_text():
    sentence = within_text(tokenize("fa"), " می\u200cروم\ufeff، e\u0301te\u0301. ")
    assert sentence == ["میروم", "،", "été", "."]
    published = [sentence.text[a:b] for a, b in sentence.spans()]
    assert published == ["می\u200cروم", "،", "e\u0301te\u0301", "."]


@pytest.mark.parametrize(
    ("lang", "spellings"),
    [
        ("fr", ["été", "E\u0301te\u0301", "\ufeffét\u00adé", "ét\u200dé", "ét\u200cé\ufe0e"]),
        ("tr", ["izmir", "\u0130zmir", "I\u0307zmir", "i\u0307zmir", "\u0130ZM\u0130R"]),
        ("az", ["ısı", "ISI", "Isı"]),
        ("en", ["istanbul", "\u0130stanbul", "ISTANBUL"]),
        ("el", ["οδός", "ΟΔΌΣ", "οδόσ"]),
        ("lt", ["ìj\u00edį", "i\u0307\u0300j\u00edį\u0307", "Ìj\u00cdĮ"]),
        ("de", ["straße", "STRAẞE"]),
        ("hi", ["क्ष", "क्\u200dष"]),
    ],
)
def test_all_spellings_of_a_word_have_one_form_in_which_it_is_looked_up(lang, spellings):
    assert {look_up_form(word, lang) for word in spellings} == {spellings[0]}
    assert look_up_form(spellings[0], lang) == spellings[0]
    assert look_up_form("Stra\u00adße", None) == "Straße", "as it is written"
    assert look_up_form("\u200d", lang) == "\u200d", "what has nothing else keeps it"


@pytest.mark.parametrize("lang", ["de", "es", "fr", "zh", "tr"])
def test_words_of_real_dictionaries_keep_their_form(real_data, lang):
    """Composed and without joiners, they are the lower-cased ones; except for the I of Turkish."""
    entries = DictionaryFile.lines(real_data / "dictionaries" / f"{lang}-en.train.txt")
    words = {word for word, _ in entries if lang != "tr" or not {*"Iİ\u0307"} & {*word}}
    assert len(words) > 700
    assert [word for word in words if look_up_form(word, lang) != word.lower()] == []
