from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import Needs
from raxalign.methods.mlm import Mlm
from raxalign.methods.rows.sentences import single_rows
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs, toy_places, toy_rows


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm")
    toy_inputs(folder)
    return folder


def trained(root: Path, *, seed: int = 0, **params: object) -> AlignedEncoder:
    method = Mlm(
        Mlm.Params.model_validate({"learning_rate": 2e-3, "epochs": 2, "batch_size": 16, **params})
    )
    places = toy_places(root)
    places = (
        replace(places, pairs={}, bitext={})
        if method.needs().text
        else replace(places, pairs={}, text={})
    )
    return method.align(toy_encoder(root / "encoder"), places, Runtime(seed=seed))


def weights(aligned: AlignedEncoder) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in aligned.encoder.model.parameters()])  # type: ignore[attr-defined]


@pytest.mark.parametrize("data", ["text", "bitext"])
def test_training_lowers_the_loss_on_sentences_of_all_languages(root, data):
    aligned = trained(root, epochs=20, warmup=0.0, dropout=False, data=data)
    notes = aligned.notes
    assert aligned.weights_changed
    assert (notes["rows"], notes["steps"], notes["de"], notes["en"]) == (
        48,
        60,
        {"sentences": 24},
        {"sentences": 24},
    )
    assert notes["last_loss"] < 0.8 * notes["first_loss"]


def test_one_seed_gives_one_result_and_another_another(root):
    first, again, other = (weights(trained(root, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("data", ["text", "bitext"])
def test_it_reads_every_sentence_alone(root, data):
    encoder = toy_encoder(root / "encoder")
    places = toy_places(root)
    sentences = Mlm(Mlm.Params(data=data)).read(encoder, places, getattr(places, data))
    rows = single_rows(sentences, np.arange(len(sentences)))
    columns = toy_rows(24)
    expected = [
        row.ids.tolist() for row in encoder.pieces([*columns["src"], *columns["tgt"]], "de")
    ]
    assert [
        rows.ids[rows.offsets[r] : rows.offsets[r + 1]].tolist() for r in range(len(rows))
    ] == expected
    assert np.array_equal(sentences.langs_S, np.repeat([0, 1], 24))


def test_short_sentences_are_left_out_where_asked(root):
    notes = trained(root, min_pieces=5, epochs=1).notes
    assert 0 < notes["de"]["sentences"] < 24


def test_it_reads_text_or_pairs_and_has_chance():
    assert Mlm(Mlm.Params()).needs() == Needs(text=True, head=True, pieces=True)
    assert Mlm(Mlm.Params(data="bitext")).needs() == Needs(bitext=True, head=True, pieces=True)
    assert Mlm(Mlm.Params(dropout=False)).has_chance()
