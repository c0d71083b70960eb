from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from raxalign.errors import DataError
from raxalign.methods.base import Needs
from raxalign.methods.rows.sentences import read_bitexts
from raxalign.methods.tlm import Tlm
from raxalign.train.objective import Step
from tests.methods.contract import train
from tests.methods.toy import toy_encoder, toy_inputs, toy_places


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tlm")
    toy_inputs(folder, languages=("de", "fr"))
    return folder


def test_training_lowers_the_loss_and_counts_pairs_of_all_languages(root):
    options = {"epochs": 20, "warmup": 0, "batch_size": 16, "dropout": False}
    aligned = train("tlm", root, languages=("de", "fr"), **options)
    notes = aligned.notes
    assert aligned.weights_changed
    assert (notes["rows"], notes["steps"]) == (43, 60)
    assert (notes["de"], notes["fr"]) == tuple({"sentences": n, "read": n} for n in (24, 19))
    assert notes["last_loss"] < 0.8 * notes["first_loss"]


def test_pairs_are_turned_around_by_chance_of_the_step_or_keep_the_pivot_last(root):
    encoder, places = toy_encoder(root / "encoder"), toy_places(root)
    bitexts = read_bitexts(encoder, places.bitext, "en", 64)

    def firsts(step: int, **params: bool) -> list[int]:
        """The language of the first sentence of each row."""
        rows = Tlm(Tlm.Params(**params)).batch_of(bitexts, Step(step, 0, np.arange(24), seed=1))
        assert (
            rows.langs[rows.offsets[1:] - 1].tolist()
            == (1 - rows.langs[rows.offsets[:-1]]).tolist()
        )
        return rows.langs[rows.offsets[:-1]].tolist()

    assert set(firsts(0, random_order=False)) == {0}
    assert set(firsts(0, random_order=False, pivot_first=True)) == {1}
    turned = sum(sum(firsts(step)) for step in range(50))
    assert abs(turned - 600) < 4 * np.sqrt(24 * 50 / 4)
    assert firsts(7) == firsts(7)
    assert firsts(7) != firsts(8)


def test_an_order_that_is_both_drawn_and_fixed_is_refused():
    with pytest.raises(ValidationError, match="write `random_order: false` too"):
        Tlm.Params(pivot_first=True)
    assert "pivot_first" not in Tlm(Tlm.Params()).canonical()


def test_the_profile_fills_in_the_length_filter_and_is_no_part_of_the_identity(root):
    paper = Tlm(Tlm.Params(profile="paper")).canonical()
    names = ("min_pieces", "max_pieces", "learning_rate", "mask_share", "epochs")
    assert [paper[name] for name in names] == [10, 128, 3e-5, 0.15, 10]
    assert paper == Tlm(Tlm.Params(min_pieces=10, max_pieces=128)).canonical()
    assert Tlm(Tlm.Params(profile="paper", max_pieces=0)).canonical()["max_pieces"] == 0
    plain = Tlm(Tlm.Params()).canonical()
    assert (plain["min_pieces"], plain["max_pieces"]) == (1, 0)
    with pytest.raises(DataError, match="relax min_pieces"):
        train("tlm", root, profile="paper", min_pieces=100)


def test_it_reads_pairs_and_has_chance():
    method = Tlm(Tlm.Params(dropout=False))
    assert method.needs() == Needs(bitext=True, head=True, pieces=True)
    assert (method.has_chance(), method.effect().weights) == (True, True)
