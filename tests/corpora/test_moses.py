from __future__ import annotations

import pytest

from raxalign.config.sources import LocalFile
from raxalign.corpora._lines import _BLOCK
from raxalign.corpora.base import SentencePair
from raxalign.corpora.moses import Moses
from raxalign.errors import DataError


def pairs(made):
    corpus, inputs = made
    return list(corpus.read("de", "en", inputs))


def texts(made):
    return [(pair.source, pair.target) for pair in pairs(made)]


def test_lines_are_paired_in_order(moses):
    assert pairs(moses(["Hallo", "", "Ja"], ["Hello", "No", ""])) == [
        SentencePair(0, "Hallo", "Hello"),
        SentencePair(1, "", "No"),
        SentencePair(2, "Ja", ""),
    ]


def test_the_prefix_may_hold_languages_and_dots(tmp_path):
    corpus = Moses(Moses.Params(path=f"{tmp_path}/v1.0/{{lang}}-{{pivot}}"))
    assert corpus.sources("de", "en") == {
        "source": LocalFile(tmp_path / "v1.0/de-en.de"),
        "target": LocalFile(tmp_path / "v1.0/de-en.en"),
    }


def test_the_path_is_no_part_of_the_identity():
    assert Moses.Params(path="a/b").identity() == {}


@pytest.mark.parametrize("separator", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_newlines_end_lines(moses, separator):
    assert texts(moses([f"a{separator}b", "c"], ["x", "y"])) == [(f"a{separator}b", "x"), ("c", "y")]


def test_a_byte_order_mark_and_carriage_returns_are_dropped(moses):
    assert texts(moses(b"\xef\xbb\xbfeins\r\nzwei\r\n", b"one\ntwo")) == [("eins", "one"), ("zwei", "two")]


def test_lines_are_whole_across_blocks(moses):
    lines = ["ä" * 700 + str(i) for i in range(3 * _BLOCK // 1400)]
    long = ["x" * (_BLOCK + 3), "y"]
    assert texts(moses(lines, lines)) == [(line, line) for line in lines]
    assert texts(moses(long, long)) == [(line, line) for line in long]


@pytest.mark.parametrize(("source", "target", "told"), [(3, 5, "3 lines.*5"), (5, 3, "5 lines.*3"), (0, 2, "0 lines.*2")])
def test_different_line_counts_are_told(moses, source, target, told):
    made = moses(["a"] * source, ["b"] * target)
    with pytest.raises(DataError, match=told) as error:
        pairs(made)
    assert error.value.line == min(source, target) + 1
    assert error.value.file.endswith(".de" if source < target else ".en")


@pytest.mark.parametrize("at", [0, 1, 150_000])
def test_invalid_utf8_is_named_by_file_and_line(moses, at):
    lines = [b"gut und sch\xc3\xb6n"] * 150_002
    lines[at] = b"sch\xf6n"
    made = moses(b"\n".join(lines), ["x"] * len(lines))
    with pytest.raises(DataError, match=rf"corpus\.de:{at + 1}: invalid UTF-8 \(byte 0xf6\)"):
        pairs(made)


def test_nul_bytes_are_named_by_file_and_line(moses):
    made = moses(["a", "b", "c"], b"x\ny\x00\nz\n")
    with pytest.raises(DataError, match=r"corpus\.en:2: has a NUL byte"):
        pairs(made)


def test_utf16_is_recognised(moses):
    made = moses("ä\n".encode("utf-16"), ["x"])
    with pytest.raises(DataError, match="UTF-16"):
        pairs(made)


def test_a_truncated_character_at_the_end_is_named(moses):
    made = moses(b"eins\nzwei \xc3", ["x", "y"])
    with pytest.raises(DataError, match=r"corpus\.de:2: invalid UTF-8"):
        pairs(made)


def test_an_empty_corpus_is_refused(moses):
    made = moses(b"", b"")
    with pytest.raises(DataError, match=r"empty"):
        pairs(made)


def test_a_missing_file_is_named_and_the_prefix_explained(moses, tmp_path):
    made = moses(["a"], ["b"])
    (tmp_path / "corpus.en").unlink()
    with pytest.raises(DataError, match=r"corpus\.en: there is no such file.*prefix.*corpus\.de and corpus\.en"):
        pairs(made)


def test_reading_is_a_stream(moses):
    corpus, inputs = moses(b"a\n" * 2_000_000 + b"\xff\n", b"b\n" * 2_000_001)
    assert next(iter(corpus.read("de", "en", inputs))) == SentencePair(0, "a", "b")
