from __future__ import annotations

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.finetune import Finetune
from tests.methods.contract import train, weights
from tests.methods.toy import toy_encoder, toy_rows


def pivot_words(aligned: AlignedEncoder) -> torch.Tensor:
    return aligned.words(toy_rows(24)["tgt"], "en", pooling="last").vectors_NLH  # type: ignore[arg-type]


@pytest.mark.parametrize("profile", ["paper", "released", "sane"])
def test_training_lowers_the_loss(tmp_path, profile):
    aligned = train(
        "finetune", tmp_path, warmup=0, profile=profile, dropout=False, batch_size=24, epochs=30
    )
    assert aligned.weights_changed
    assert aligned.notes["last_loss"] < 0.5 * aligned.notes["first_loss"]


@pytest.mark.slow
def test_a_heavy_regulariser_holds_the_pivot_and_without_one_it_drifts(tmp_path):
    start = pivot_words(AlignedEncoder(toy_encoder(tmp_path / "encoder")))
    options = {"dropout": False, "align_target": "live", "batch_size": 24, "epochs": 60}
    options |= {"learning_rate": 1e-4, "warmup": 0}
    held, free = (
        pivot_words(train("finetune", tmp_path, **{"lambda": value}, **options)) - start
        for value in (1e4, 0.0)
    )
    assert held.abs().max() < 0.1 * free.abs().max()


def test_without_dropout_in_file_order_there_is_no_chance(tmp_path):
    method = Finetune(Finetune.Params(dropout=False, shuffle=False))
    assert not method.has_chance()
    assert Finetune(Finetune.Params()).has_chance()
    options = {"epochs": 4, "dropout": False, "shuffle": False}
    first, other = (weights(train("finetune", tmp_path, seed=seed, **options)) for seed in (3, 4))
    assert torch.equal(first, other)


def test_languages_together_train_one_model(tmp_path):
    aligned = train("finetune", tmp_path, warmup=0, languages=("de", "nl"), batch_size=8, epochs=1)
    assert (aligned.notes["steps"], aligned.notes["nl"]["sentences"]) == (3, 19)


def test_what_is_given_overrides_the_profile_and_identity_is_resolved():
    def canonical(**params):
        return Finetune(Finetune.Params(**params)).canonical()

    paper, released = canonical(profile="paper"), canonical(profile="released", align_target="live")
    names = ("batch_size", "align_target", "reduction", "special_pairs", "lambda")
    assert [paper[name] for name in names] == [2, "live", "sum", False, 1.0]
    names = ("batch_size", "align_target", "part", "shuffle")
    assert [released[name] for name in names] == [8, "live", 4, False]
    assert canonical(batch_size=8) == canonical()
    assert canonical(reduction="sum", part=4) == canonical(reduction="sum")
    assert None not in paper.values()
    assert canonical(profile="released") == canonical(part=4, shuffle=False)
