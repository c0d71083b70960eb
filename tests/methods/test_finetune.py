from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.finetune import Finetune
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows


def tuned(
    root: Path, *, seed: int = 0, languages: tuple[str, ...] = ("de",), **params: object
) -> AlignedEncoder:
    method = Finetune(
        Finetune.Params.model_validate({"learning_rate": 2e-3, "epochs": 4, "warmup": 0, **params})
    )
    return method.align(
        toy_encoder(root / "encoder"), toy_inputs(root, languages=languages), Runtime(seed=seed)
    )


def pivot_words(aligned: AlignedEncoder) -> torch.Tensor:
    return aligned.words(toy_rows(24)["tgt"], "en", pooling="last").vectors_NLH  # type: ignore[arg-type]


def weights(aligned: AlignedEncoder) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in aligned.encoder.model.parameters()])  # type: ignore[attr-defined]


@pytest.mark.parametrize("profile", ["paper", "released", "sane"])
def test_training_lowers_the_loss(tmp_path, profile):
    aligned = tuned(tmp_path, profile=profile, dropout=False, batch_size=24, epochs=30)
    assert aligned.weights_changed
    assert aligned.notes["last_loss"] < 0.5 * aligned.notes["first_loss"]


def test_a_heavy_regulariser_holds_the_pivot_and_without_one_it_drifts(tmp_path):
    start = pivot_words(AlignedEncoder(toy_encoder(tmp_path / "encoder")))
    options = {
        "dropout": False,
        "align_target": "live",
        "batch_size": 24,
        "epochs": 60,
        "learning_rate": 1e-4,
    }
    held, free = (
        float((pivot_words(tuned(tmp_path, **{"lambda": value}, **options)) - start).abs().max())
        for value in (1e4, 0.0)
    )
    assert held < 0.1 * free


def test_one_seed_gives_one_result_and_another_another(tmp_path):
    first, again, other = (weights(tuned(tmp_path, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_dropout_in_file_order_there_is_no_chance(tmp_path):
    method = Finetune(Finetune.Params(dropout=False, shuffle=False))
    assert not method.has_chance()
    assert Finetune(Finetune.Params()).has_chance()
    first, other = (
        weights(tuned(tmp_path, seed=seed, dropout=False, shuffle=False)) for seed in (3, 4)
    )
    assert torch.equal(first, other)


def test_languages_together_train_one_model(tmp_path):
    aligned = tuned(tmp_path, languages=("de", "nl"), batch_size=8, epochs=1)
    assert (aligned.notes["steps"], aligned.notes["nl"]["sentences"]) == (3, 19)


def test_what_is_given_overrides_the_profile_and_identity_is_resolved():
    paper = Finetune(Finetune.Params(profile="paper")).canonical()
    assert (
        paper["batch_size"],
        paper["align_target"],
        paper["reduction"],
        paper["special_pairs"],
        paper["lambda"],
    ) == (2, "live", "sum", False, 1.0)
    released = Finetune(Finetune.Params(profile="released", align_target="live")).canonical()
    assert (
        released["batch_size"],
        released["align_target"],
        released["part"],
        released["shuffle"],
    ) == (8, "live", 4, False)
    assert (
        Finetune(Finetune.Params(batch_size=8)).canonical()
        == Finetune(Finetune.Params()).canonical()
    )
    assert (
        Finetune(Finetune.Params(reduction="sum", part=4)).canonical()
        == Finetune(Finetune.Params(reduction="sum")).canonical()
    )
    assert None not in paper.values()
    assert (
        Finetune(Finetune.Params(profile="released")).canonical()
        == Finetune(Finetune.Params(part=4, shuffle=False)).canonical()
    )
