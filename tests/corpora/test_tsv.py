"""Tables as corpora, and the reading of a file to its end, with all its faults."""

import gzip

import pytest

from raxalign.catalog import catalog
from raxalign.corpora.base import Corpus, SentencePair
from raxalign.corpora.readers import lines
from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.readers.inspection import (
    KEPT,
    Refusals,
    Translations,
    read_through,
    refuse,
)
from raxalign.corpora.tsv import Tsv
from raxalign.errors import DataError
from raxalign.options.sources import LocalFile, RemoteData
from tests.corpora.places import placed

OTHER = r"pairs\.tsv:2: . columns?, the first line has 2. .*`delimiter`"


def opened(lang="de", **params):
    return placed(Tsv(Tsv.Params(**params)), lang=lang)


def read(tmp_path, content, **params):
    (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8", newline="")
    corpus, inputs = opened(path=str(tmp_path / "pairs.tsv"), **params)
    return list(corpus.read("de", "en", inputs))


@pytest.mark.parametrize(
    ("content", "params", "found"),
    [
        ("Hallo\tHello\t7\r\n", {}, ("Hallo", "Hello")),
        ('"a\tb"\n', {}, ('"a', 'b"')),
        ('"\t"\n', {}, ('"', '"')),
        ("a|b\n", {"delimiter": "|"}, ("a", "b")),
        ("a\tb\n", {"delimiter": "\t"}, ("a", "b")),
        ("guten Tag ||| good day\n", {"delimiter": "|||"}, ("guten Tag", "good day")),
        ("a || b |||\n", {"delimiter": "|||"}, ("a || b", "")),
    ],
)
def test_the_first_two_columns_are_taken_as_the_delimiter_divides_them(
    tmp_path, content, params, found
):
    assert read(tmp_path, content, **params) == [SentencePair(0, *found)]


def test_pretokenized_columns_are_words_in_languages_without_spaces_too(tmp_path):
    """White space that is not a blank keeps its number at the ends of a column."""
    text = "\u3000 我们 是 \u00a0 ||| we are .\n"
    (pair,) = read(tmp_path, text, delimiter="|||", pretokenized=True)
    assert pair.source_words == ("\u3000", "我们", "是", "\u00a0")
    assert pair.target_words == ("we", "are", ".")


def test_paths_take_other_codes(tmp_path):
    (tmp_path / "nld-eng.tsv").write_text("ja\tyes\n", encoding="utf-8")
    codes = {"nl": "nld", "en": "eng"}
    corpus, inputs = opened("nl", path=f"{tmp_path}/{{lang}}-{{pivot}}.tsv", codes=codes)
    assert list(corpus.read("nl", "en", inputs)) == [SentencePair(0, "ja", "yes")]


def test_ids_run_on_through_the_parts(tmp_path):
    parts = ("train", "dev", "test")
    for part in parts:
        text = f"{part} 1\tA\n{part} 2\tB\n"
        (tmp_path / f"{part}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    paths = {part: str(tmp_path / f"{part}.tsv") for part in parts}
    corpus, inputs = opened(path=paths)
    found = [(pair.id, pair.source) for pair in corpus.read("de", "en", inputs)]
    assert found == list(enumerate(f"{part} {n}" for part in parts for n in (1, 2)))
    assert corpus.part_sizes("de", "en", inputs) == (2, 2)
    assert corpus.n_pairs("de", "en", 9) == 2


@pytest.mark.parametrize(
    ("content", "params", "told"),
    [
        *((f"x\ty\n{row}\nx\ty\n", {}, OTHER) for row in ("a", "a\tb\tc", "")),
        ("a ||| b\na ||| b ||| c\n", {"delimiter": "|||"}, ":2: 3 columns?, the first line has 2"),
        ("a ||| b\n", {"delimiter": ","}, "a line has 1 column, .*divided by ',' .`delimiter`"),
        ("", {}, "empty"),
    ],
)
def test_columns_that_are_not_there_are_named_by_line(tmp_path, content, params, told):
    with pytest.raises(DataError, match=told):
        read(tmp_path, content, **params)


def test_a_missing_file_is_refused(tmp_path):
    corpus, inputs = opened(path=f"{tmp_path}/{{lang}}-{{pivot}}.tsv")
    with pytest.raises(DataError, match=r"de-en\.tsv: .*no such file"):
        list(corpus.read("de", "en", inputs))


def test_reported_and_raised_faults_are_collected_in_order_as_far_as_they_can_be_shown(tmp_path):
    def read(report):
        for line in range(KEPT + 6):
            report(DataError("f", "x", line=line))
        raise DataError("f", "two", line=KEPT + 6)

    found = read_through(tmp_path, read)
    assert [fault.line for fault in found.faults] == list(range(KEPT))
    assert (found.rows, found.more) == (0, 7)
    found = read_through(tmp_path, lambda _: len(tmp_path.read_bytes()))
    assert str(found.faults[0]) == f"{tmp_path}: cannot be read (Is a directory)"
    assert read_through(tmp_path, lambda _: 5).rows == 5


def test_every_corpus_has_a_licence():
    for kind in catalog("corpora").values():
        assert issubclass(kind, Corpus)
        assert kind.licence


def test_a_reader_stops_at_the_first_fault_unless_it_is_asked_to_go_on():
    refused = Refusals(refuse)
    with pytest.raises(DataError):
        refused(DataError("f", "x"))
    assert refused.count == 0
    kept = []
    refused = Refusals(kept.append)
    refused(DataError("f", "x"))
    assert refused.count == len(kept) == 1


def test_dictionaries_are_read_and_remote_ones_are_not(tmp_path):
    (tmp_path / "good").write_text("Haus house\nja yes\n", encoding="utf-8")
    (tmp_path / "bad").write_text("Haus the house\n", encoding="utf-8")
    sources = {
        "de": {"dictionary": LocalFile(tmp_path / "good")},
        "fr": {"dictionary": LocalFile(tmp_path / "bad")},
        "es": {"dictionary": RemoteData("hub:x")},
        "el": {"teacher": LocalFile(tmp_path / "good")},
        "bg": {},
    }
    good, bad = DictionaryFile.inspected(sources, "en", swap=False)
    assert (good.rows, good.faults) == (2, ())
    assert good.translations == Translations("de", "en", [("Haus", "house"), ("ja", "yes")])
    assert "bad:1: 3 words" in str(bad.faults[0])


def test_a_line_without_an_end_is_refused_with_file_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LONGEST", 3 << 20)
    (tmp_path / "a").write_bytes(b"one\ntwo\n" + b"x" * (5 << 20))
    with (tmp_path / "a").open("rb") as stream, pytest.raises(DataError, match="a:3: the line is"):
        list(lines.read_lines(stream, tmp_path / "a"))
