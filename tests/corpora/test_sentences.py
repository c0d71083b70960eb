from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.text import bitext as bitexts
from raxalign.corpora.text.bitext import (
    BitextOptions,
    SplitCorpus,
    write_text,
)
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.sentences import read_sentences, sentence_chunks
from raxalign.corpora.text.words import Sentence, clean, tokenize
from raxalign.errors import DataError
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.fast_align import FastAlign
from raxalign.pairing.build import LinkRecipe, WordPairs, slice_training

OPTIONS = BitextOptions(max_words=60, overlap="keep", shortage="use-all")
TEXTS = st.text(
    st.sampled_from("abÄé我在。, .'!?-12\u00a0\u200b\u00ad\u0301\t") | st.characters(codec="utf-8"),
    max_size=15,
).filter(lambda text: not set(text) & set("\n\r\0"))


class Listed(Corpus):
    """The sentence pairs that a test lists, the last of them as the test side."""

    VERSION = 1
    licence = "none"
    pairs: list[tuple[str, str]]
    given_words = False

    def sources(self, lang, pivot):
        return {}

    def read(self, lang, pivot, inputs) -> Iterator[SentencePair]:
        for i, (src, tgt) in enumerate([*self.pairs, ("Ende .", "The end .")]):
            words = (tuple(src.split()), tuple(tgt.split())) if self.given_words else (None, None)
            yield SentencePair(i, src, tgt, *words)


def bitext(folder, pairs, lang="zh", *, given_words=False):
    corpus = Listed(Listed.Params())
    corpus.pairs, corpus.given_words = [*pairs, ("Ja.", "Yes.")], given_words
    source = SplitCorpus(corpus, CorpusInputs({}, folder), lang, "en", (1, 0))
    notes = source.write_training(len(pairs) + 1, OPTIONS, folder / "training")
    source.write_heldout(OPTIONS, folder / "heldout")
    return folder / "training/data", notes


def both_sides(table):
    return list(zip(read_sentences(table, "src"), read_sentences(table, "tgt"), strict=True))


def texts(sentences):
    return [getattr(sentence, "text", None) for sentence in sentences]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8))
def test_text_and_words_survive_from_the_corpus_to_the_reader(pairs):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, _ = bitext(folder, pairs)
        recipe = LinkRecipe(FastAlign(FastAlign.Params()), "zh", "en")
        work = AlignerInputs((), None, {}, folder / "work", 1)
        recipe.build_training(data, work, folder / "pairs")
        heldout, run = folder / "heldout", folder / "run"
        recipe.build_heldout(heldout, data, work, run, keep_training=True)
        slice_training(folder / "run", folder / "sliced", 99)
        table = read_table(data)
        wanted = both_sides(table)
        raw = dict(enumerate([*pairs, ("Ja.", "Yes.")]))
        for id_, *sides in zip(table["id"].to_pylist(), *zip(*wanted, strict=True), strict=True):
            for lang, text, sentence in zip(("zh", "en"), raw[id_], sides, strict=True):
                assert list(sentence) == tokenize(lang)(text)
                if isinstance(sentence, Sentence):
                    assert sentence.text == text.strip()
                    assert (sentence.ends is None) == (clean(text) == text)
                else:
                    assert Sentence.within(sentence, clean(text)) is None
        for made in ("pairs", "sliced"):
            linked = WordPairs.read(folder / made / "data").table
            WordPairs(linked).check()
            assert both_sides(linked) == wanted
            assert list(map(texts, both_sides(linked))) == list(map(texts, wanted))
        write_text([data], "tgt", folder / "text")
        (chunk,) = sentence_chunks(read_table(folder / "text/data"), "words", 100)
        kept = {tuple(words) for words in chunk if isinstance(words, Sentence)}
        assert kept == {tuple(tgt) for _, tgt in wanted if isinstance(tgt, Sentence)}


def test_characters_stand_in_their_sentence_and_given_words_have_no_text(tmp_path):
    table = read_table(bitext(tmp_path, [("  我在New York。", "I'm in New  York.")])[0])
    ((src, tgt),) = both_sides(table.slice(1))
    assert (src, src.text) == (["我", "在", "New", "York", "。"], "我在New York。")
    assert src.starts == (0, 1, 2, 6, 10)
    assert (tgt.text, tgt.starts) == ("I'm in New  York.", (0, 1, 4, 7, 12, 16))
    data, notes = bitext(tmp_path / "given", [("我 在", "I am")], given_words=True)
    assert [texts(pair) for pair in both_sides(read_table(data))] == [[None, None]] * 2
    assert "without_text" not in notes["counts"]["training"]


def test_words_that_are_not_in_the_text_are_counted_and_have_no_text(tmp_path, monkeypatch):
    divide = {"de": lambda text: text.split(), "en": lambda text: text.replace("’", "'").split()}
    monkeypatch.setattr(bitexts, "tokenize", lambda lang, _: divide[lang])
    data, notes = bitext(tmp_path, [("So ist ’s .", "It ’s so ."), ("Nein .", "No .")], "de")
    assert [texts(pair) for pair in both_sides(read_table(data))] == [
        ["Ja.", "Yes."],
        ["Nein .", "No ."],
        ["So ist ’s .", None],
    ]
    assert notes["counts"]["training"]["without_text"] == 1
    assert read_metadata(data)["counts"]["without_text"] == 1


def test_a_dataset_without_text_is_read_as_words_and_starts_must_fit():
    assert read_sentences(pa.table({"words": [["a"], []]}), "words") == [["a"], []]
    (sentence,) = read_sentences(pa.table({"first": [" Yes,  sir."]}), "first")
    assert (sentence, sentence.text) == (["Yes,", "sir."], "Yes,  sir.")
    columns = {"words": [["a", "b"]], "words_text": ["a b"], "words_starts": [[0]]}
    with pytest.raises(DataError, match="words, row 0: 2 words have 1 starts in their text"):
        read_sentences(pa.table(columns), "words")


def test_repeated_sentences_keep_the_text_of_the_first(tmp_path):
    data, _ = bitext(tmp_path, [("b", "So!"), ("a", "So !")], "de")
    write_text([data], "tgt", tmp_path / "text")
    assert texts(read_sentences(read_table(tmp_path / "text/data"), "words")) == ["Yes.", "So !"]


def test_text_of_a_bitext_without_text_is_words(tmp_path):
    words = pa.list_(pa.string())
    schema = pa.schema({"id": pa.int64(), "src": words, "tgt": words})
    with DatasetWriter(tmp_path / "old", schema, {}) as writer:
        writer.write({"id": [0], "src": [["ja"]], "tgt": [["yes"]]})
    write_text([tmp_path / "old"], "src", tmp_path / "text")
    assert read_sentences(read_table(tmp_path / "text/data"), "words") == [["ja"]]
