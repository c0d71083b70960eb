"""Rows of tasks without a Python object per row: the same rows, in memory and in a file."""

from __future__ import annotations

import numpy as np
import pytest

from raxalign.running import Sentence
from raxalign.tasks.classification.examples import Example, Examples, ExampleTable, training_parts
from raxalign.tasks.transfer import lazy_lists
from raxalign.tasks.transfer.lazy_lists import chained, compact_rows
from tests.methods.toy import toy_encoder

ROWS = [
    Example(f"haus rot {i}", f"house {i}" if i % 3 else "red", "ab"[i % 2], i + 1, f"n{i}", None)
    for i in range(40)
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return toy_encoder(tmp_path_factory.mktemp("encoder"))


def test_compact_rows_are_the_rows(encoder, monkeypatch):
    texts = [Sentence.of_text(row.first) for row in ROWS]
    others = [Sentence.of_text(row.second) for row in ROWS]
    rows = encoder.pieces(texts, "de", pairs=others, pair_lang="en")
    monkeypatch.setattr(lazy_lists, "_CHUNK", 7)
    compact = compact_rows(encoder, texts, "de", others, "en")
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


def test_no_rows_are_no_rows():
    assert list(chained([[], ExampleTable.of([])])) == list(ExampleTable.of([])) == []


def test_examples_are_read_back_from_their_table():
    many = Examples("x", ExampleTable.of(iter(ROWS)))
    assert (list(many.rows), list(many.first(3).rows), many.rows[-1]) == (ROWS, ROWS[:3], ROWS[-1])
    assert many.fingerprints().tolist() == Examples("x", ROWS).fingerprints().tolist()
    assert many.numbers(("b", "a")).tolist() == [1, 0] * 20
    assert many.numbers(("c",)).tolist() == [1, 2] * 20
    texts = many.texts("second", np.array([4, 2, 9]))
    assert (len(texts), texts[1].text) == (3, ROWS[2].second)
    assert [text.text for text in texts[1:]] == [ROWS[2].second, ROWS[9].second]
    single = ExampleTable.of(Example("a", None, "a", line) for line in range(20))
    assert (many.text_names, Examples("x", single).text_names) == (("first", "second"), ("first",))


def test_mixed_parts_are_those_of_the_examples():
    pivot = [Example(f"p {row.first}", f"h {row.second}", row.label, row.line) for row in ROWS]
    given = {lang: Examples(lang, ExampleTable.of(r)) for lang, r in (("en", pivot), ("de", ROWS))}
    parts = training_parts(given, "ab", "en", "sentence")
    assert [part.langs for part in parts] == [("en", "en"), ("de", "en"), ("en", "de")]
    for part, first, second in zip(parts, (pivot, ROWS, pivot), (pivot, pivot, ROWS), strict=True):
        assert [text.text for text in part.texts[0]] == [row.first for row in first]
        assert [text.text for text in part.texts[1]] == [row.second for row in second]
        assert part.numbers.tolist() == [0, 1] * 20
    assert [part.units.tolist() for part in parts[1:]] == [list(range(40, 80))] * 2
