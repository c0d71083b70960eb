from __future__ import annotations

import numpy as np
import pytest

from raxalign.methods.base import Needs
from raxalign.methods.mlm import Mlm
from raxalign.methods.rows.sentences import single_rows
from tests.methods.contract import train
from tests.methods.toy import toy_encoder, toy_inputs, toy_places, toy_rows


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm")
    toy_inputs(folder)
    return folder


@pytest.mark.parametrize("data", ["text", "bitext"])
def test_training_lowers_the_loss_on_sentences_of_all_languages(root, data):
    options = {"epochs": 20, "warmup": 0, "batch_size": 16, "dropout": False}
    aligned = train("mlm", root, data=data, **options)
    notes = aligned.notes
    assert aligned.weights_changed
    assert (notes["rows"], notes["steps"]) == (48, 60)
    assert notes["de"] == notes["en"] == {"sentences": 24}
    assert notes["last_loss"] < 0.8 * notes["first_loss"]


@pytest.mark.parametrize("data", ["text", "bitext"])
def test_it_reads_every_sentence_alone(root, data):
    encoder = toy_encoder(root / "encoder")
    places = toy_places(root)
    texts = Mlm(Mlm.Params(data=data)).read(encoder, places, getattr(places, data))
    rows = single_rows(texts.sentences, texts.numbers_R)
    columns = toy_rows(24)
    expected = [
        row.ids.tolist() for row in encoder.pieces([*columns["src"], *columns["tgt"]], "de")
    ]
    assert [
        rows.ids[rows.offsets[r] : rows.offsets[r + 1]].tolist() for r in range(len(rows))
    ] == expected
    assert np.array_equal(texts.sentences.langs_S[texts.numbers_R], np.repeat([0, 1], 24))


def test_short_sentences_are_left_out_where_asked(root):
    notes = train("mlm", root, min_pieces=5, epochs=1).notes
    assert 0 < notes["de"]["sentences"] < 24


def test_it_reads_text_or_pairs_and_has_chance():
    assert Mlm(Mlm.Params()).needs() == Needs(text=True, head=True, pieces=True)
    assert Mlm(Mlm.Params(data="bitext")).needs() == Needs(bitext=True, head=True, pieces=True)
    assert Mlm(Mlm.Params(dropout=False)).has_chance()
