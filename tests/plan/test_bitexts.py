"""The sentence pairs of local files are read to their end before a grid needs them."""

from __future__ import annotations

import pytest

from raxalign.config.grid import load
from raxalign.plan.bitexts import read_bitexts
from raxalign.plan.expand import expand

GRID = """
name: short
encoder: {{kind: scratch}}
languages: {{each: [de, fr]}}
corpus: {{source: {source}, split: {{test: 2, dev: 1}}}}
sentences: [2, 3]
methods: {{rotation: {{}}}}
tasks: {{sentence_retrieval: {{}}}}
"""


@pytest.fixture
def found(tmp_path):
    def found_(source):
        (tmp_path / "grid.yaml").write_text(GRID.format(source=source), encoding="utf-8")
        return list(read_bitexts(expand(load(tmp_path / "grid.yaml"), allow_missing=True)))

    return found_


def test_each_language_is_read_once_and_a_bad_line_is_named(found, tmp_path):
    for lang, text in (("de", "x\n" * 9), ("fr", "x\n" * 7)):
        (tmp_path / f"{lang}-en.{lang}").write_text(text)
        (tmp_path / f"{lang}-en.en").write_text("y\n" * 9)
    german, french = found("moses, path: '{lang}-{pivot}'")
    assert (german.path.name, german.rows, german.faults) == ("de-en.de", 9, ())
    (fault,) = french.faults
    assert str(fault).startswith(f"{tmp_path}/fr-en.fr:8: {tmp_path}/fr-en.fr has 7 lines")


def test_a_delimiter_that_was_forgotten_is_found(found, tmp_path):
    (tmp_path / "pairs").write_text("a ||| b\n" * 9)
    assert [str(fault) for entry in found("tsv, path: pairs") for fault in entry.faults] == [
        f"{tmp_path}/pairs:1: there is no column 1: a line has 1 (columns count from 0). Columns"
        " are divided by '\\t'; `delimiter` sets this"
    ] * 2


def test_files_that_are_not_there_and_corpora_without_files_are_passed_over(found):
    assert found("moses, path: '{lang}-{pivot}'") == []
    assert found("phrasebook, size: 300") == []
