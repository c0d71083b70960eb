"""Training sentences of taggers that were divided into pieces before: the same rows, notes and
weights.
"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from raxalign.caveats import collecting
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.ner import Ner
from raxalign.tasks.tagging.divided_sentences import read_sentences, write_sentences
from raxalign.tasks.tagging.sentences import Sentences, Tagged
from raxalign.tasks.transfer.compact_rows import compact_rows
from raxalign.tasks.transfer.divided_rows import ChosenTexts, DividedRows
from raxalign.train.runtime import Runtime
from tests.tiny import tiny_bert

WORDS = ["anna", "came", "to", "ro", "##me", "from", "york", "."]
ROWS = [
    Tagged(("anna", "came", "to", "rome", "."), ("B-PER", "O", "O", "B-LOC", "O"), 1),
    Tagged(("to", "york."), ("O", "B-LOC"), 7, Sentence(("to", "york."), "to york.", (0, 3))),
    Tagged(("xyzzy",), ("O",), 9),
    Tagged(("rome",) * 12, ("B-LOC",) * 12, 11),
]
GIVEN = Sentences("train.conll", ROWS)
TAGGERS = {
    "linear": {"tagger": "linear"},
    "bilstm_crf": {"tagger": "bilstm_crf", "hidden": 4, "lstm_layers": 1},
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return TransformerEncoder.from_folder(
        tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=16)
    )


@pytest.fixture
def made(encoder, tmp_path):
    write_sentences(GIVEN, "en", encoder.tokenizer, 1, tmp_path)
    return tmp_path


def test_rows_of_divided_sentences_are_those_of_their_words(encoder, made):
    with collecting() as read:
        expected = compact_rows(encoder, GIVEN.words(), "en")
    with collecting() as mapped:
        found = DividedRows(encoder, [ChosenTexts(read_sentences(made, "en", None).texts, None)])
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        for name in ("ids", "words", "lasts"):
            assert getattr(own, name).tolist() == getattr(other, name).tolist()
        assert (own.first, own.n_words, own.languages) == (
            other.first,
            other.n_words,
            other.languages,
        )
    assert read.unknown["en"] > 0
    assert (mapped.pieces, mapped.unknown) == (read.pieces, read.unknown)


def test_divided_sentences_have_the_tags_and_fingerprints_of_the_sentences(made):
    found = read_sentences(made, "en", None)
    assert (len(found), found.n_words(), found.source) == (4, GIVEN.n_words(), "train.conll")
    assert read_sentences(made, "en", "other.conll").source == "other.conll"
    assert found.tags() == {"O", "B-PER", "B-LOC"}
    labels = ["O", "B-LOC", "I-LOC", "B-PER"]
    numbers = [row.tolist() for row in found.numbers(labels)]
    assert numbers == [row.tolist() for row in GIVEN.numbers(labels)]
    assert numbers[:2] == [[3, 0, 0, 1, 0], [0, 1]]
    assert found.fingerprints().tolist() == GIVEN.fingerprints().tolist()
    assert not list(made.glob("texts-*"))


def test_sentences_of_another_language_are_refused(made):
    with pytest.raises(DataError, match="words: does not have the pieces of texts in de"):
        read_sentences(made, "de", None)


@pytest.mark.parametrize("tagger", TAGGERS)
def test_a_training_on_divided_sentences_ends_with_the_same_weights_and_notes(
    encoder, tmp_path, tagger
):
    lines = ("\n".join(map("\t".join, zip(row.words, row.tags, strict=True))) for row in ROWS)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.en").write_text("\n\n".join(lines) if name == "train" else "anna O\n")
    data = {"train": f"{tmp_path}/train.{{pivot}}", "dev": f"{tmp_path}/dev.{{lang}}"}
    options = {"epochs": 2, "batch_size": 2, "max_length": 12, **TAGGERS[tagger]}
    ner = Ner(Ner.Params(data=data, **options))
    rows = tmp_path / "rows"
    rows.mkdir()
    ner.write_rows("en", TaskInputs("en"), encoder.tokenizer, 1, rows)
    found = []
    for inputs in (TaskInputs("en"), TaskInputs("en", rows={"en": rows})):
        folder = tmp_path / f"trained-{len(found)}"
        folder.mkdir()
        with collecting() as caveats:
            notes = ner.train(AlignedEncoder(encoder), ("en",), inputs, Runtime(), folder)
        tensors = {path.name: load_file(path) for path in folder.glob("*.safetensors")}
        found.append((tensors, notes, caveats.notes()))
    (plain, *notes), (divided, *others) = found
    assert others == notes
    assert notes[0]["words_left_out"] > 0
    assert plain.keys() == divided.keys()
    for name, tensors in plain.items():
        assert tensors.keys() == divided[name].keys()
        assert all(torch.equal(tensor, divided[name][key]) for key, tensor in tensors.items())


def test_only_the_sentences_that_are_trained_on_are_divided_before(tmp_path):
    data = {"train": f"{tmp_path}/train.{{pivot}}", "dev": f"{tmp_path}/dev.{{lang}}"}
    ner = Ner(Ner.Params(data=data, selection="target-dev", max_train=7))
    prepared = ner.prepares("en", "en")
    assert prepared is not None
    assert set(prepared.sources) == {"train"}
    assert prepared.options["max_train"] == 7
    assert ner.prepares("de", "en") is None
