from __future__ import annotations

import gzip

import pytest
from pydantic import ValidationError

from raxalign.config.sources import LocalFile
from raxalign.corpora.base import CorpusInputs, SentencePair
from raxalign.corpora.tsv import Tsv
from raxalign.errors import DataError


def opened(lang="de", **params):
    corpus = Tsv(Tsv.Params(**params))
    places = {name: str(source.path) for name, source in corpus.sources(lang, "en").items()}
    return corpus, CorpusInputs(places, None)


def read(tmp_path, content: str, **params):
    (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8", newline="")
    corpus, inputs = opened(path=str(tmp_path / "pairs.tsv"), **params)
    return list(corpus.read("de", "en", inputs))


def test_columns_are_taken_by_number(tmp_path):
    content = "7\tHello\tHallo\n8\tYes\tJa\n"
    assert read(tmp_path, content, source_column=2, target_column=1) == [
        SentencePair(0, "Hallo", "Hello"),
        SentencePair(1, "Ja", "Yes"),
    ]


def test_columns_are_taken_by_name_and_names_may_hold_languages(tmp_path):
    content = "en_text\tde_text\r\nHello\tHallo\r\n"
    params = {"header": True, "source_column": "{lang}_text", "target_column": "{pivot}_text"}
    assert read(tmp_path, content, **params) == [SentencePair(0, "Hallo", "Hello")]


def test_a_header_is_skipped_for_numbers_too(tmp_path):
    assert read(tmp_path, "de\ten\nHallo\tHello\n", header=True) == [
        SentencePair(0, "Hallo", "Hello")
    ]


def test_quotation_marks_are_text(tmp_path):
    assert read(tmp_path, '"a\tb"\n"\t"\n') == [
        SentencePair(0, '"a', 'b"'),
        SentencePair(1, '"', '"'),
    ]


def test_another_delimiter(tmp_path):
    assert read(tmp_path, "a|b\n", delimiter="|") == [SentencePair(0, "a", "b")]
    assert read(tmp_path, "a\tb\n", delimiter="\t") == [SentencePair(0, "a", "b")]


def test_a_delimiter_of_several_characters_has_blanks_around_it(tmp_path):
    assert read(tmp_path, "guten Tag ||| good day\na || b |||\n", delimiter="|||") == [
        SentencePair(0, "guten Tag", "good day"),
        SentencePair(1, "a || b", ""),
    ]
    with pytest.raises(DataError, match=r":2: 3 columns?, the first line has 2"):
        read(tmp_path, "a ||| b\na ||| b ||| c\n", delimiter="|||")
    with pytest.raises(DataError, match=r"a line has 1 .*divided by ','; `delimiter`"):
        read(tmp_path, "a ||| b\n", delimiter=",")


def test_pretokenized_columns_are_words_in_languages_without_spaces_too(tmp_path):
    (pair,) = read(tmp_path, "我们 是 学生\twe are students .\n", pretokenized=True)
    assert pair.source_words == ("我们", "是", "学生")
    assert pair.target_words == ("we", "are", "students", ".")


def test_words_of_white_space_that_is_no_blank_keep_their_numbers_at_the_ends_of_a_column(tmp_path):
    (pair,) = read(tmp_path, "\u3000 犬 \u00a0 ||| a dog\n", delimiter="|||", pretokenized=True)
    assert (pair.source_words, pair.target_words) == (("\u3000", "犬", "\u00a0"), ("a", "dog"))


def test_columns_and_paths_take_other_codes(tmp_path):
    (tmp_path / "nld.tsv").write_text("eng\tnld\nyes\tja\n", encoding="utf-8")
    columns = {"header": True, "source_column": "{lang}", "target_column": "{pivot}"}
    codes = {"nl": "nld", "en": "eng"}
    corpus, inputs = opened("nl", path=f"{tmp_path}/{{lang}}.tsv", codes=codes, **columns)
    assert list(corpus.read("nl", "en", inputs)) == [SentencePair(0, "ja", "yes")]


def test_parts_each_have_their_header_and_ids_run_on(tmp_path):
    parts = ("train", "dev", "test")
    for part in parts:
        text = f"de\ten\n{part} 1\tA\n{part} 2\tB\n"
        (tmp_path / f"{part}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    paths = {part: str(tmp_path / f"{part}.tsv") for part in parts}
    corpus, inputs = opened(path=paths, header=True)
    found = [(pair.id, pair.source) for pair in corpus.read("de", "en", inputs)]
    assert found == list(enumerate(f"{part} {n}" for part in parts for n in (1, 2)))
    assert corpus.part_sizes("de", "en", inputs) == (2, 2)
    assert corpus.n_pairs("de", "en", 9) == 2


@pytest.mark.parametrize(("header", "line"), [(False, 2), (True, 2)])
@pytest.mark.parametrize("row", ["a", "a\tb\tc", ""])
def test_another_number_of_columns_is_named_by_line(tmp_path, header, line, row):
    with pytest.raises(
        DataError, match=rf"pairs\.tsv:{line}: . columns?, the first line has 2. .*`delimiter`"
    ):
        read(tmp_path, f"x\ty\n{row}\nx\ty\n", header=header)


def test_a_column_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DataError, match=r":1: there is no column 2: a line has 2"):
        read(tmp_path, "a\tb\n", target_column=2)
    with pytest.raises(DataError, match=r":1: there is no column 'fr'; there are: de, en"):
        read(tmp_path, "de\ten\na\tb\n", header=True, target_column="fr")


@pytest.mark.parametrize(("content", "header"), [("", False), ("", True), ("de\ten\n", True)])
def test_an_empty_file_is_refused(tmp_path, content, header):
    with pytest.raises(DataError, match="empty"):
        read(tmp_path, content, header=header)


def test_names_without_a_header_are_refused():
    with pytest.raises(ValidationError, match="header: true"):
        Tsv.Params(path="x", source_column="de")
    with pytest.raises(ValidationError, match="count from 0"):
        Tsv.Params(path="x", source_column=-1)


def test_the_path_may_hold_languages(tmp_path):
    corpus = Tsv(Tsv.Params(path=f"{tmp_path}/{{lang}}-{{pivot}}.tsv"))
    assert corpus.sources("de", "en") == {"file": LocalFile(tmp_path / "de-en.tsv")}


def test_a_missing_file_is_told(tmp_path):
    corpus = Tsv(Tsv.Params(path="x"))
    with pytest.raises(DataError, match="no such file"):
        list(corpus.read("de", "en", CorpusInputs({"file": str(tmp_path / "no.tsv")}, tmp_path)))
