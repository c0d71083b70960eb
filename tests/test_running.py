"""Words in running text."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from raxalign.corpora.text.words import Sentence, in_text, spaced_out

WORDS = st.lists(st.text("abä。我在ก1.,'", min_size=1, max_size=4), max_size=8)


@given(WORDS, st.sampled_from(["en", "zh", "th", None]))
def test_every_word_stands_where_its_start_says(words, lang):
    sentence = Sentence.joined(words, lang)
    placed = zip(sentence.starts, words, strict=True)
    assert [sentence.text[s : s + len(w)] for s, w in placed] == words


@given(WORDS, st.sampled_from(["en", "zh"]))
def test_words_are_found_again_in_their_joined_text(words, lang):
    sentence = Sentence.joined(words, lang)
    found = Sentence.within(words, sentence.text)
    assert found.starts == sentence.starts


def test_scripts_without_spaces_are_joined_by_nothing_but_between_latin_words():
    words = ["我", "爱", "New", "York", "3", "天", "。"]
    assert Sentence.joined(words, "zh").text == "我爱New York 3天。"
    assert Sentence.joined(words, "en").text == " ".join(words)


def test_a_text_that_has_more_than_the_words_does_not_fit_them():
    assert Sentence.within(["mice"], "four mice") is None
    assert Sentence.within(["four"], "four mice") is None
    assert Sentence.within(["mice", "four"], "four mice") is None


def test_a_sentence_keeps_its_text_and_plain_words_are_joined():
    sentence = Sentence.of_text(" four  mice\n")
    assert in_text(sentence, "en") is sentence
    assert in_text(["four", "mice"], "en").text == "four mice"


def test_a_sentence_survives_pickling():
    sentence = pickle.loads(pickle.dumps(Sentence.of_text("a  b")))
    assert (list(sentence), sentence.text, sentence.starts) == (["a", "b"], "a  b", (0, 3))


def test_words_are_spaced_out_as_they_are_written():
    published = Sentence(["été", "là"], "e\u0301te\u0301là", [0, 5], [5, 7])
    spaced, plain, empty = spaced_out([published, ["我", "在"], []], "blanks")
    assert (spaced, spaced.text) == (["été", "là"], "e\u0301te\u0301 là")
    assert spaced.spans() == [(0, 5), (6, 8)]
    assert (plain.text, plain.starts, list(empty)) == ("我 在", (0, 2), [])
    assert spaced_out([published], "language") == [published]
