"""The sentence pairs of local files are read to their end before a grid needs them."""

from __future__ import annotations

import pytest

from raxalign.config.grid import load
from raxalign.corpora.phrasebook import Phrasebook
from raxalign.plan.checks.bitexts import other_lengths, read_bitexts, swapped_sides
from raxalign.plan.expansion.expand import expand

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
def plan(tmp_path):
    def plan_(source, more=""):
        (tmp_path / "grid.yaml").write_text(GRID.format(source=source) + more, encoding="utf-8")
        return expand(load(tmp_path / "grid.yaml"), allow_missing=True)

    return plan_


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


def write_phrases(folder, *, swap):
    for lang in ("de", "fr"):
        pairs = list(Phrasebook(Phrasebook.Params(size=40)).read(lang, "en", None))
        sides = ([pair.source for pair in pairs], [pair.target for pair in pairs])
        for code, text in zip((lang, "en"), sides[::-1] if lang in swap else sides, strict=True):
            (folder / f"{lang}-en.{code}").write_text("\n".join(text) + "\n", encoding="utf-8")


def test_sides_that_are_swapped_are_remarked_on_once_per_language(plan, tmp_path):
    write_phrases(tmp_path, swap=("fr",))
    (remark,) = swapped_sides(plan("moses, path: '{lang}-{pivot}'"))
    assert remark.startswith(f"{tmp_path}/fr-en.fr: the sides of fr-en seem to be swapped: ")
    write_phrases(tmp_path, swap=())
    assert list(swapped_sides(plan("moses, path: '{lang}-{pivot}'"))) == []


def test_a_corpus_that_cannot_be_read_has_no_remark(plan, tmp_path):
    write_phrases(tmp_path, swap=("fr",))
    (tmp_path / "fr-en.fr").write_bytes(b"\xff\n")
    assert list(swapped_sides(plan("moses, path: '{lang}-{pivot}'"))) == []


@pytest.mark.parametrize(("training_from", "fatal"), [("end", True), ("start", False)])
def test_links_of_another_length_than_the_text_say_both_lengths(
    plan, tmp_path, training_from, fatal
):
    write_phrases(tmp_path, swap=())
    for lang, n_lines in (("de", 38), ("fr", 40)):
        (tmp_path / f"links.{lang}").write_text("0-0\n" * n_lines)
    made = plan(
        f"moses, path: '{{lang}}-{{pivot}}', training_from: {training_from}",
        "pairs: {aligner: links, path: 'links.{lang}', words: any}\n",
    )
    sizes = {entry.path: entry.rows for entry in read_bitexts(made)}
    assert list(other_lengths(made, sizes)) == [
        (
            fatal,
            f"{tmp_path}/links.de: has 38 lines, and {tmp_path}/de-en.de 40. Line k has the links"
            " of sentence pair k, so both need equally many",
        )
    ]
