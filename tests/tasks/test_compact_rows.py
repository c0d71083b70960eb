"""Rows of tasks without a Python object per row: the same rows, in memory and in a file."""

from __future__ import annotations

import numpy as np
import pytest

from raxalign.running import Sentence
from raxalign.tasks.classification import spooled
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.mixing import training_parts
from raxalign.tasks.classification.spooled import SpooledExamples, Texts, has_seconds, kept
from raxalign.tasks.transfer import compact_rows
from raxalign.tasks.transfer.compact_rows import Chained, CompactRows
from tests.methods.toy import toy_encoder

ROWS = [
    Example(f"haus rot {i}", f"house {i}" if i % 3 else "red", "ab"[i % 2], i + 1, f"n{i}", None)
    for i in range(40)
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return toy_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(params=["in memory", "in a file"])
def place(request, monkeypatch):
    if request.param == "in a file":
        monkeypatch.setattr(compact_rows, "_IN_MEMORY", 100)
    return request.param


def test_compact_rows_are_the_rows(encoder, place):
    texts = [Sentence.of_text(row.first) for row in ROWS]
    others = [Sentence.of_text(row.second) for row in ROWS]
    rows = encoder.pieces(texts, "de", pairs=others, pair_lang="en")
    compact = CompactRows(rows[start : start + 7] for start in range(0, len(rows), 7))
    assert len(compact) == len(rows)
    assert compact[-1].ids.tolist() == rows[-1].ids.tolist()
    for own, row in zip(compact, rows, strict=True):
        for name in ("ids", "words", "lasts"):
            found, expected = getattr(own, name), getattr(row, name)
            assert (found.tolist(), found.dtype) == (expected.tolist(), np.int64)
        assert (own.first, own.n_words, own.languages) == (row.first, row.n_words, row.languages)
    assert [row.n_words for row in compact[3:5]] == [row.n_words for row in rows[3:5]]
    with pytest.raises(IndexError):
        compact[len(rows)]


def test_no_rows_are_no_rows(place):
    assert (len(CompactRows([])), list(Chained([[], CompactRows([])]))) == (0, [])


def test_many_examples_are_read_back_from_their_file(monkeypatch):
    monkeypatch.setattr(spooled, "_IN_MEMORY", 10)
    monkeypatch.setattr(spooled, "_CHUNK", 8)
    many = kept(iter(ROWS))
    assert isinstance(many, SpooledExamples)
    assert isinstance(kept(ROWS[:10]), list)
    assert (list(many), list(many[:3]), many[-1]) == (ROWS, ROWS[:3], ROWS[-1])
    given, read = Examples("x", ROWS), Examples("x", many)
    assert read.fingerprints().tolist() == given.fingerprints().tolist()
    assert read.numbers(("b", "a")).tolist() == given.numbers(("b", "a")).tolist()
    assert read.first(5).words() == given.first(5).words()
    assert has_seconds(many)
    single = kept([Example("a", None, "a", line) for line in range(20)])
    assert not has_seconds(single)


def test_mixed_parts_of_many_examples_are_those_of_a_list(monkeypatch):
    pivot = [Example(f"p {row.first}", f"h {row.second}", row.label, row.line) for row in ROWS]

    def parts():
        given = {"en": Examples("en", kept(pivot)), "de": Examples("de", kept(ROWS))}
        found = training_parts(given, "en", "sentence")
        return [
            (part.langs, list(part.firsts), list(part.seconds), part.labels, [*part.units])
            for part in found
        ]

    expected = parts()
    assert [part[0] for part in expected] == [("en", "en"), ("de", "en"), ("en", "de")]
    monkeypatch.setattr(spooled, "_IN_MEMORY", 10)
    monkeypatch.setattr(spooled, "_CHUNK", 8)
    assert parts() == expected


def test_texts_of_some_examples_are_sliced_and_indexed():
    texts = Texts(ROWS, np.array([4, 2, 9]), second=True)
    assert (len(texts), texts[1].text, [text.text for text in texts[1:]]) == (
        3,
        ROWS[2].second,
        [ROWS[2].second, ROWS[9].second],
    )
