"""Bitext of a corpus: its split, what is left out of training, and how long pairs may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.moses import Moses
from raxalign.corpora.text.bitext import (
    BitextOptions,
    PieceFilter,
    SplitCorpus,
    basic_tokens,
    normalize,
    write_text,
)
from raxalign.corpora.text.dataset import read_metadata, read_table
from raxalign.errors import DataError
from tests.corpora.places import placed

OPTIONS = BitextOptions(max_words=20)
AS_WRITTEN = {"src_ends": None, "tgt_ends": None}
WITHOUT_TEXT = dict.fromkeys(("src_text", "src_starts", "tgt_text", "tgt_starts")) | AS_WRITTEN
START = BitextOptions(training_from="start", shortage="use-all")
SOURCE = ["a", "bbb", "c" * 6, "dd", "ee", "ff", "gg gg", "test"]
TARGET = ["a", "bb", "c" * 6, "d", "ee", "fff", "ggg", "test"]


def lines(n: int, word: str) -> list[str]:
    return [f"{word} {i}" for i in range(n)]


def train(made, folder, sentences, split=(2, 3), options=OPTIONS):
    source = SplitCorpus(*made, "de", "en", split)
    notes = source.write_training(sentences, options, folder)
    return read_table(folder / "data"), notes


def hold_out(made, folder, split=(2, 3), options=OPTIONS):
    notes = SplitCorpus(*made, "de", "en", split).write_heldout(options, folder)
    return read_table(folder / "data"), read_table(folder / "dev"), notes


def ids(table) -> list[int]:
    return table.column("id").to_pylist()


def counted(**counts):
    """Counts of training pairs, 0 where none is given."""
    names = ("read", "blank", "overlapping", "repeated", "overlong", "kept")
    return dict.fromkeys(names, 0) | counts


def test_the_last_lines_are_test_and_those_before_are_dev(moses, tmp_path):
    made = moses(lines(10, "Zeile"), lines(10, "line"))
    test, dev, notes = hold_out(made, tmp_path)
    assert ids(test) == [8, 9]
    assert ids(dev) == [5, 6, 7]
    src = {"src": ["Zeile", "8"], "src_text": "Zeile 8", "src_starts": [0, 6]}
    tgt = {"tgt": ["line", "8"], "tgt_text": "line 8", "tgt_starts": [0, 5]}
    assert test.to_pylist()[0] == {"id": 8, **src, **tgt, **AS_WRITTEN}
    counts = {"lines": 3, "blank": 0, "kept": 3}
    assert notes["counts"] == {"test": {"lines": 2, "blank": 0, "kept": 2}, "dev": counts}
    assert notes["words"]["de"].startswith("Moses (sacremoses")
    langs = {"lang_pair": "de-en", "lang": "de", "pivot": "en"}
    told = {**langs, "corpus": "moses", "split": "dev", "counts": counts}
    assert read_metadata(tmp_path / "dev") == told


def test_training_runs_backwards_from_dev_or_from_the_start_and_a_shortage_is_told(moses, tmp_path):
    made = moses(lines(10, "Zeile"), lines(10, "line"))
    table, notes = train(made, tmp_path / "back", 4)
    assert ids(table) == [4, 3, 2, 1]
    assert notes["counts"] == {"training": counted(read=4, kept=4), "corpus_lines": 10}
    start = replace(OPTIONS, training_from="start")
    table, notes = train(made, tmp_path / "some", 4, options=start)
    assert ids(table) == [0, 1, 2, 3]
    assert notes["counts"] == {"training": counted(read=4, kept=4), "corpus_lines": 10}
    told = r"corpus\.de: de-en: 6 training pairs were asked for, there are 5.*at most 5 sentences"
    for options, found in ((OPTIONS, [4, 3, 2, 1, 0]), (start, [0, 1, 2, 3, 4])):
        with pytest.raises(DataError, match=rf"{told}.*use-all"):
            train(made, tmp_path / "short", 6, options=options)
        whole = replace(options, shortage="use-all")
        assert ids(train(made, tmp_path / "all", 9, options=whole)[0]) == found


def test_training_from_the_start_of_a_long_corpus_drops_what_is_held_out(moses, tmp_path):
    source = [f"Satz {i}" for i in range(4000)]
    source[1] = source[-1]  # the last line, which is in the test set
    source[3] = source[2]
    made = moses(source, [f"sentence {i if i != 3 else 2}" for i in range(4000)])
    start = replace(OPTIONS, training_from="start")
    table, notes = train(made, tmp_path / "5", 5, options=start)
    assert ids(table) == [0, 2, 4, 5, 6]
    assert notes["counts"]["training"]["overlapping"] == 1
    assert notes["counts"]["training"]["repeated"] == 1
    more, _ = train(made, tmp_path / "2000", 2000, options=start)
    assert more.slice(0, 5).to_pylist() == table.to_pylist()


def test_smaller_sizes_are_prefixes(moses, tmp_path):
    source = [f"Satz {i % 1000}" if i % 7 else "" for i in range(3000)]
    made = moses(source, [f"sentence {i % 1000} {i % 2}" for i in range(3000)])
    tables = {n: train(made, tmp_path / str(n), n, (100, 100))[0] for n in (10, 200, 800)}
    assert tables[800].num_rows == 800
    for n in (10, 200):
        assert tables[n].to_pylist() == tables[800].slice(0, n).to_pylist()


def test_what_is_far_before_dev_is_found(moses, tmp_path):
    blank = 12_000
    source = lines(50, "Zeile") + [""] * blank + lines(5, "Ende")
    made = moses(source, lines(50 + blank + 5, "line"))
    table, notes = train(made, tmp_path, 40)
    assert ids(table) == list(range(49, 9, -1))
    assert notes["counts"]["training"]["blank"] == blank


def test_no_training_pair_shares_a_side_with_dev_or_test(moses, tmp_path):
    source = ["eins", "ZWEI!", "drei", "vier", "fünf", "Zwei", "sechs", "sieben"]
    target = ["one", "other", "Six .", "four", "five", "two", "six", "seven"]
    table, notes = train(moses(source, target), tmp_path, 3, split=(1, 2))
    assert ids(table) == [4, 3, 0]
    assert notes["counts"]["training"]["overlapping"] == 2


def test_no_training_pair_has_a_pivot_side_that_is_held_out_for_another_language(moses, tmp_path):
    target = ["One!", "Two .", "blank", "three", "..."]
    french = moses(["un", "deux", "", "trois", "..."], target, "french")
    hold_out(french, tmp_path / "fr", split=(3, 1))
    target = ["one", "Two", "zwei", "three", "?!", "five"]
    made = moses(["eins", "zwei", "two", "drei", "vier", "fünf"], target)
    source = SplitCorpus(*made, "de", "en", (1, 0))
    notes = source.write_training(3, OPTIONS, tmp_path / "de", [tmp_path / "fr"])
    # "one" is training text in French too
    assert ids(read_table(tmp_path / "de/data")) == [4, 2, 0]
    assert notes["counts"]["training"] == counted(read=5, overlapping_elsewhere=2, kept=3)
    keep = replace(OPTIONS, overlap="keep")
    kept = source.write_training(5, keep, tmp_path / "kept", [tmp_path / "fr"])
    assert kept["counts"]["training"]["kept"] == 5


def test_repeated_pairs_are_dropped_and_the_nearest_to_dev_stays(moses, tmp_path):
    target = ["Hello", "Hi", "hello", "Yes", "test"]
    made = moses(["Hallo", "Hallo", "hallo !", "Ja", "Test"], target)
    table, notes = train(made, tmp_path, 4, (1, 0), replace(OPTIONS, shortage="use-all"))
    assert ids(table) == [3, 2, 1]
    assert notes["counts"]["training"]["repeated"] == 1
    table, notes = train(made, tmp_path / "kept", 4, (1, 0), replace(OPTIONS, overlap="keep"))
    assert ids(table) == [3, 2, 1, 0]
    assert notes["counts"]["training"] == counted(read=4, kept=4)


def test_blank_and_overlong_sides_are_dropped_and_counted(moses, tmp_path):
    source = ["eins", "  ", "\u00ad\u200b", "w " * 21, "w " * 20, "zwei", "", "drei"]
    target = ["one", "x", "x", "long", "just right", "two", "x", "three"]
    made = moses(source, target)
    table, notes = train(made, tmp_path, 2, split=(1, 2))
    assert ids(table) == [4, 0]
    assert notes["counts"]["training"] == counted(read=5, blank=2, overlong=1, kept=2)
    test, dev, notes = hold_out(made, tmp_path / "heldout", split=(1, 2))
    assert (ids(test), ids(dev)) == ([7], [5])
    assert notes["counts"]["dev"] == {"lines": 2, "blank": 1, "kept": 1}


@pytest.mark.parametrize(("lang", "word"), [("de", "wort "), ("th", "ก")])
def test_no_held_out_sentence_is_dropped_for_its_length(moses, tmp_path, lang, word):
    made = moses([word * n for n in (100, 400, 1)], ["one", "two", "three"])
    source = SplitCorpus(*made, lang, "en", (2, 1))
    notes = source.write_heldout(replace(OPTIONS, max_basic_tokens=3), tmp_path / "heldout")
    kept = {part: counts["kept"] for part, counts in notes["counts"].items()}
    assert kept == {"test": 2, "dev": 1}


@pytest.mark.parametrize(
    ("lang", "word", "segmented", "longest"),
    [
        ("de", "wort ", False, 20),
        ("th", "ก", False, 80),
        ("bo", "བོད་", False, 80),
        ("zh", "字 ", True, 20),
    ],
)
def test_four_characters_of_a_script_without_spaces_count_as_a_word(
    moses, tmp_path, lang, word, segmented, longest
):
    corpus, inputs = moses([word * longest, word * (longest + 1), "a"], ["x", "y", "z"])
    corpus = Moses(corpus.params.model_copy(update={"pretokenized": segmented}))
    source = SplitCorpus(corpus, inputs, lang, "en", (1, 0))
    notes = source.write_training(2, replace(OPTIONS, shortage="use-all"), tmp_path)
    assert notes["counts"]["training"]["overlong"] == 1
    assert notes["counts"]["training"]["kept"] == 1


def test_a_corpus_with_nothing_for_a_part_is_refused(moses, tmp_path):
    short = moses(lines(4, "Zeile"), lines(4, "line"), "short")
    with pytest.raises(DataError, match=r"has 4 lines, and 2 for test and 3 for dev.*`split`"):
        hold_out(short, tmp_path)
    with pytest.raises(DataError, match="has 4 lines"):
        train(short, tmp_path, 1)
    for shortage in ("refuse", "use-all"):
        with pytest.raises(DataError, match="nothing is left to train on"):
            train(short, tmp_path, 1, (2, 2), replace(OPTIONS, shortage=shortage))
    with pytest.raises(DataError, match="no sentence pair of the test side is left"):
        hold_out(moses(["a", "b", "c", "", ""], lines(5, "line")), tmp_path)


class Golden(Corpus):
    """Knows its words and links; `bad` is yielded first."""

    VERSION = 1
    licence = "CC0"
    bad: SentencePair | None = None

    def sources(self, lang, pivot):
        return {}

    def read(self, lang, pivot, inputs) -> Iterator[SentencePair]:
        if self.bad:
            yield self.bad
        for i in range(8):
            words = (("ja", f"{i}."), ("yes", f"{i}."))
            yield SentencePair(i, f"ja {i}.", f"yes {i}.", *words, ((0, 0), (1, 1)))


def golden(tmp_path, bad=None):
    corpus = Golden(Golden.Params())
    corpus.bad = bad
    return corpus, CorpusInputs({}, tmp_path)


def test_words_and_gold_links_of_the_corpus_are_kept(tmp_path):
    made = golden(tmp_path)
    table, notes = train(made, tmp_path, 2)
    row = {"id": 2, "src": ["ja", "2."], "tgt": ["yes", "2."]}
    links = {"src_links": [0, 1], "tgt_links": [0, 1]}
    assert table.to_pylist()[0] == {**row, **links, **WITHOUT_TEXT}
    assert notes["words"]["de"] == "the words of the corpus"
    assert hold_out(made, tmp_path)[0].column("tgt_links").to_pylist() == [[0, 1], [0, 1]]


def test_given_words_take_no_tokeniser_and_that_is_recorded(tmp_path):
    for code, text in (("zh", "我们 是 学生 。"), ("en", "we aren't students .")):
        (tmp_path / f"corpus.{code}").write_text(f"{text}\n" * 3, encoding="utf-8")
    for name, params in (("given", {"pretokenized": True}), ("made", {})):
        corpus = Moses(Moses.Params(path=str(tmp_path / "corpus"), **params))
        source = SplitCorpus(*placed(corpus, tmp_path, "zh"), "zh", "en", (1, 1))
        notes = source.write_heldout(OPTIONS, tmp_path / name)
        (row,) = read_table(tmp_path / name / "dev").to_pylist()
        own = {part: read_metadata(tmp_path / name / part).get("words") for part in ("data", "dev")}
        if params:
            words = {"src": ["我们", "是", "学生", "。"], "tgt": ["we", "aren't", "students", "."]}
            assert row == {"id": 1, **words, **WITHOUT_TEXT}
            assert own == {"data": "own", "dev": "own"}
            assert notes["words"] == dict.fromkeys(("zh", "en"), "the words of the corpus")
        else:
            assert (len(row["src"]), row["tgt"]) == (6, ["we", "aren", "'t", "students", "."])
            assert own == {"data": None, "dev": None}


@pytest.mark.parametrize(
    ("word", "link", "told"),
    [
        *(("a", link, "pair 99: link .* out of range") for link in ((0, 1), (1, 0), (-1, 0))),
        *((word, (0, 0), "pair 99: a word") for word in ("", "a b", "a\tb")),
    ],
)
def test_gold_links_out_of_range_and_words_with_blanks_are_refused(tmp_path, word, link, told):
    bad = SentencePair(99, "a", "b", (word,), ("b",), (link,))
    with pytest.raises(DataError, match=told):
        train(golden(tmp_path, bad), tmp_path, 4)


def test_text_is_in_order_and_without_repetition(moses, tmp_path):
    train(moses(["a", "b", "a", "c", "t"], ["x", "y", "z", "y", "t"]), tmp_path / "1", 4, (1, 0))
    train(moses(["d", "e", "t"], ["x", "w", "t"], "other"), tmp_path / "2", 2, (1, 0))
    notes = write_text([tmp_path / "1/data"], "src", tmp_path / "src")
    assert read_table(tmp_path / "src/data").column("words").to_pylist() == [["c"], ["a"], ["b"]]
    assert notes == {"counts": {"read": 4, "repeated": 1, "kept": 3}}
    write_text([tmp_path / "1/data", tmp_path / "2/data"], "tgt", tmp_path / "tgt")
    words = read_table(tmp_path / "tgt/data").column("words").to_pylist()
    assert words == [["y"], ["z"], ["x"], ["w"]]
    assert read_metadata(tmp_path / "tgt/data")["side"] == "tgt"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Hello, World!", "hello world", True),
        ("Straße", "STRASSE", True),
        ("ﬁn", "fin", True),
        ("e\u0301t\u00e9", "ÉTÉ", True),
        ("你好。", "你 好", True),
        ("12,5", "125", True),
        *(("कि", "का", False), ("?", "!", False), ("zu", "zü", False), ("1", "2", False)),
    ],
)
def test_sides_are_compared_without_case_space_and_punctuation(one, other, same):
    assert (normalize(one) == normalize(other)) is same


def letters(words, lang):
    """Each letter is a piece."""
    return sum(map(len, words))


def test_the_first_pairs_that_have_the_pieces_are_taken_and_the_others_counted(moses, tmp_path):
    """Or the last ones, where training runs backwards."""
    pieces = PieceFilter(letters, min_pieces=2, max_pieces=7)
    made, options = moses(SOURCE, TARGET), replace(START, pieces=pieces)
    # 0 and 3 have one piece on a side, 2 has twelve in all
    backwards = BitextOptions(pieces=PieceFilter(letters, min_pieces=3))
    for asked, chosen, taken, counts in (
        (2, options, [1, 4], (2, 1, 2)),
        (9, options, [1, 4, 5, 6], (2, 1, 4)),
        (2, backwards, [6, 2], (3, 0, 2)),
    ):
        table, notes = train(made, tmp_path, asked, (1, 0), chosen)
        found = notes["counts"]["training"]
        assert ids(table) == taken
        assert tuple(found[name] for name in ("few_pieces", "many_pieces", "kept")) == counts


def test_basic_tokens_are_words_punctuation_marks_and_chinese_characters():
    texts = {"": 0, "Three mice": 2, "Don't go -- now!": 8, "東京 2020.": 4, "ศูนย์กลาง": 1}
    assert {text: basic_tokens(text) for text in texts} == texts


@pytest.mark.slow
def test_basic_tokens_are_those_of_bert_s_own_tokeniser():
    from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

    tokenizer = BasicTokenizer(do_lower_case=False)
    for text in ("Don't go -- 東京!", "l'été à 3,5 %", "¿Qué?\u00a0Sí…", "a_b (c/d) €5", "ไทย ไทย"):
        assert basic_tokens(text) == len(tokenizer.tokenize(text))


def test_sides_of_more_basic_tokens_are_over_long_in_training_and_stay_in_tests(moses, tmp_path):
    made = moses(["x", "y y", *["x . . ."] * 3, "x ..."], ["x"] * 6)
    options = replace(START, overlap="keep", max_basic_tokens=3)
    table, notes = train(made, tmp_path / "training", 5, (1, 0), options)
    assert ids(table) == [0, 1]
    assert notes["counts"]["training"]["overlong"] == 3
    notes = hold_out(made, tmp_path / "heldout", (2, 1), options)[2]
    assert notes["counts"]["test"] == {"lines": 2, "blank": 0, "kept": 2}
