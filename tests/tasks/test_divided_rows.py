"""Training rows that were divided into pieces before: the same rows, counts, notes and weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raxalign.caveats import collecting
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.divided_examples import read_examples, write_examples
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.spooled import column, labels
from raxalign.tasks.transfer.divided_rows import ChosenTexts, DividedRows, DividedTexts
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder
from tests.tasks.word_nli import WORDS, at, task, write, write_all
from tests.tiny import tiny_bert

TEXTS = [("rot haus", "red"), ("xyzzy", "red house hund 7"), ("  ", "dog"), ("rotes haus rot", "")]
ROWS = [Example(a, b, "xy"[i % 2], 3 * i + 1, f"n{i}", None) for i, (a, b) in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return toy_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def made(encoder, tmp_path):
    write_examples(Examples("a.tsv", ROWS, 2), "de", encoder.tokenizer, 1, tmp_path)
    return tmp_path


def same(row, other):
    arrays = ("ids", "words", "lasts")
    assert [getattr(row, name).tolist() for name in arrays] == [
        getattr(other, name).tolist() for name in arrays
    ]
    assert (row.first, row.n_words, row.languages) == (other.first, other.n_words, other.languages)
    assert row.ids.dtype == other.ids.dtype


@pytest.mark.parametrize("max_positions", [64, 6])
@pytest.mark.parametrize("chosen", [None, [0, 1, 2, 3], [3, 1]])
def test_rows_of_divided_texts_are_those_of_the_texts(
    encoder, made, monkeypatch, max_positions, chosen
):
    monkeypatch.setattr(encoder, "max_positions", max_positions)
    numbers = None if chosen is None else np.array(chosen)
    rows = [ROWS[i] for i in chosen or range(4)]
    first, second = (
        [Sentence.of_text(text) for text in texts]
        for texts in ([row.first for row in rows], [row.second for row in rows])
    )
    with collecting() as read:
        expected = encoder.pieces(first, "de", pairs=second, pair_lang="de")
        single = encoder.pieces(first, "de")
    sides = [
        ChosenTexts(DividedTexts.mapped(made / name, "de"), numbers) for name in ("first", "second")
    ]
    with collecting() as mapped:
        found = DividedRows(encoder, sides)
        alone = DividedRows(encoder, sides[:1])
    assert len(found) == len(alone) == len(expected)
    for i, row in enumerate(expected):
        same(found[i], row)
        same(alone[i - len(rows)], single[i])
    assert [row.n_words for row in found[1:3]] == [row.n_words for row in expected[1:3]]
    assert mapped.notes() == read.notes()
    assert (mapped.pieces, mapped.unknown) == (read.pieces, read.unknown)
    with pytest.raises(IndexError):
        found[len(rows)]


def test_examples_are_read_back_without_their_texts(encoder, made):
    given, read = Examples("a.tsv", ROWS, 2), read_examples(made, "de", None)
    assert (len(read), read.unlabelled, read.source) == (4, 2, "a.tsv")
    assert read_examples(made, "de", "b.tsv").source == "b.tsv"
    assert read.fingerprints().tolist() == given.fingerprints().tolist()
    assert labels(read.rows) == ["x", "y", "x", "y"]
    assert column(read.rows, "line").to_pylist() == [1, 4, 7, 10]
    assert column(read.rows, "id").to_pylist() == ["n0", "n1", "n2", "n3"]
    assert not list(made.glob("texts-*"))


def test_examples_of_one_text_have_no_second_pieces(encoder, tmp_path):
    rows = [Example(row.first, None, row.label, row.line) for row in ROWS]
    counts = write_examples(Examples("a.tsv", rows), "de", encoder.tokenizer, 1, tmp_path)
    assert list(counts) == ["first"]
    divided = read_examples(tmp_path, "de", None).divided
    assert divided is not None
    assert divided.seconds is None


def test_pieces_of_another_language_are_refused(made):
    with pytest.raises(DataError, match="first: does not have the pieces of texts in fr"):
        read_examples(made, "fr", None)


@pytest.mark.parametrize("switching", ["none", "sentence"])
def test_a_training_on_divided_rows_ends_with_the_same_weights_and_notes(tmp_path, switching):
    torch.set_num_threads(1)
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path / "tiny", WORDS[:-2], positions=32))
    files = write_all(tmp_path / "files")
    files["train"] = files["train"].replace("{pivot}", "{lang}")
    for k, lang in enumerate(("en", "de")):
        write(at(files["train"], lang), lang, 24, k)
    xnli = task(
        files, setting="translate-train", code_switching=switching, epochs=1, selection="last"
    )
    rows = {}
    for lang in ("en", "de"):
        rows[lang] = tmp_path / f"rows-{lang}"
        rows[lang].mkdir()
        xnli.write_rows(lang, TaskInputs("en"), encoder.tokenizer, 1, rows[lang])
    found = []
    for inputs in (TaskInputs("en"), TaskInputs("en", rows=rows)):
        folder = tmp_path / f"trained-{len(found)}"
        folder.mkdir()
        with collecting() as caveats:
            notes = xnli.train(AlignedEncoder(encoder), ("en", "de"), inputs, Runtime(), folder)
        tensors = {path.name: load_file(path) for path in folder.glob("*.safetensors")}
        found.append((tensors, notes, caveats.notes()))
    (plain, notes, caveats), (divided, *others) = found
    assert others == [notes, caveats]
    assert caveats["unknown"]["de"] > 0
    assert plain.keys() == divided.keys()
    for name, tensors in plain.items():
        assert tensors.keys() == divided[name].keys()
        assert all(torch.equal(tensor, divided[name][key]) for key, tensor in tensors.items())
