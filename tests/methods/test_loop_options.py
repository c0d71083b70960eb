"""What holds for the options of the training loop in every method that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from raxalign.errors import RaxalignError
from raxalign.methods.families.trained import TrainedMethod, TrainedParams
from raxalign.train.loop import TrainSettings
from raxalign.train.options import LoopOptions
from raxalign.train.runtime import Runtime
from tests.methods.contract import LANGUAGES, SIZE, asked_for, make, trained, vectors
from tests.methods.toy import toy_encoder, toy_inputs

KINDS = trained()
EVERY: dict[str, Any] = {
    "learning_rate": 2e-3,
    "batch_size": 7,
    "epochs": 1,
    "steps": 9,
    "warmup": 2,
    "schedule": "cosine",
    "weight_decay": 0.2,
    "betas": "0.8 0.95",
    "eps": 1e-7,
    "clip": 0.5,
    "dropout": False,
    "freeze": "upper",
    "selection": "dev",
    "select_every": 3,
}
BEFORE = {
    "code_switching": ("linear", 0.01, (0.9, 0.999), 1e-8, None),
    "distillation": ("linear", 0.0, (0.9, 0.999), 1e-6, None),
    "finetune": ("constant", 0.0, (0.9, 0.98), 1e-9, None),
    "mlm": ("linear", 0.01, (0.9, 0.999), 1e-8, None),
    "ppa": ("linear", 0.01, (0.9, 0.999), 1e-8, None),
    "sentence_margin": ("linear", 0.0, (0.9, 0.999), 1e-8, None),
    "strong_contrastive": ("linear", 0.0, (0.9, 0.999), 1e-8, None),
    "tlm": ("linear", 0.01, (0.9, 0.999), 1e-8, None),
    "weak_contrastive": ("linear", 0.0, (0.9, 0.999), 1e-8, None),
    "weam": ("linear", 0.01, (0.9, 0.999), 1e-8, None),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop-options")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def method(kind: str, root: Path, **options: Any) -> TrainedMethod:
    made = make(kind, root, **options)
    assert isinstance(made, TrainedMethod)
    return made


def test_all_that_trains_is_covered_by_this_file():
    assert sorted(BEFORE) == sorted(KINDS)
    assert set(EVERY) == set(TrainedParams.model_fields) - {
        "lora"
    }  # of the weights, not of the loop


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_the_loop_reaches_the_loop(kind, root):
    settings = method(kind, root, **EVERY).settings(shuffle=True)
    assert settings == TrainSettings(
        2e-3, 7, 1, 9, 2, "cosine", (0.8, 0.95), 1e-7, 0.2, 0.5, shuffle=True, dropout=False
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_options_the_loop_is_what_it_was(kind, root):
    found = method(kind, root).settings()
    assert (found.schedule, found.weight_decay, found.betas, found.eps, found.clip) == BEFORE[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_at_what_was_always_done_enters_no_key(kind, root):
    plain = method(kind, root)
    schedule, _, betas, *_ = BEFORE[kind]
    same = {
        "schedule": schedule,
        "betas": f"{betas[0]} {betas[1]:.3f}",
        "selection": "none",
        "select_every": 5,
    }
    assert method(kind, root, **same).canonical() == plain.canonical()
    assert not {"schedule", "betas", "selection", "select_every"} & set(plain.canonical())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "option", [name for name in EVERY if name not in {"epochs", "select_every"}]
)
def test_each_option_changes_the_key(kind, option, root):
    changed = method(kind, root, **{option: EVERY[option]}).canonical()
    assert changed != method(kind, root).canonical()


@pytest.mark.parametrize("kind", KINDS)
def test_under_steps_there_are_no_epochs(kind, root):
    two, three = (method(kind, root, steps=4, epochs=epochs).canonical() for epochs in (2, 3))
    assert two == three
    assert "epochs" not in two


@pytest.mark.parametrize("kind", KINDS)
def test_with_all_options_at_once_it_trains_and_keeps_what_the_dev_part_says(kind, root):
    made = method(kind, root, **EVERY)
    assert made.needs().dev
    assert not method(kind, root).needs().dev
    start = toy_encoder(root / "encoder")
    curve: dict[int, float] = {}

    def report(metrics: Any, step: int) -> None:
        for name, value in metrics.items():
            if name.endswith("/dev_loss"):
                curve[step] = value

    runtime = Runtime(seed=1, report=report)
    aligned = made.align(toy_encoder(root / "encoder"), asked_for(made, root), runtime)
    assert set(curve) == {3, 6, 9}
    assert aligned.notes["steps"] == 9
    assert aligned.notes["dev_loss"] == min(curve.values())
    assert curve[aligned.notes["selected_step"]] == min(curve.values())
    assert torch.isfinite(vectors(aligned)).all()
    upper = [
        name
        for name, _ in start.model.named_parameters()
        if name.startswith("bert.encoder.layer.1")
    ]
    assert upper
    before, after = (
        dict(model.named_parameters()) for model in (start.model, aligned.encoder.model)
    )
    for name in upper:
        assert torch.equal(before[name], after[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_kept_are_those_of_a_training_that_stops_there(kind, root):
    options: dict[str, Any] = {"schedule": "constant", "warmup": 0}
    made = method(kind, root, **options, steps=6, selection="dev", select_every=2)
    kept = made.align(toy_encoder(root / "encoder"), asked_for(made, root), Runtime(seed=1))
    stopped = method(kind, root, **options, steps=kept.notes["selected_step"])
    again = stopped.align(toy_encoder(root / "encoder"), asked_for(stopped, root), Runtime(seed=1))
    assert torch.equal(vectors(kept), vectors(again))


@pytest.mark.parametrize("kind", KINDS)
def test_what_freeze_holds_entirely_is_refused(kind, root):
    made = method(kind, root, freeze={"blocks": "1-2", "embeddings": True})
    with pytest.raises(RaxalignError, match="leaves layer 2 as it is; it holds every block"):
        made.acts(2)


@pytest.mark.parametrize("kind", KINDS)
def test_with_frozen_lower_blocks_the_method_acts_above_them(kind, root):
    assert method(kind, root).acts(4).stream_from == 0
    assert method(kind, root, freeze="lower").acts(4).stream_from == 3


@pytest.mark.parametrize("betas", ["0.9", "0.9 1", "-0.1 0.9", "a b", "0.9 0.98 0.99"])
def test_betas_that_are_not_two_shares_are_refused(betas, root):
    with pytest.raises(ValidationError, match="write two numbers from 0 to below 1"):
        method("mlm", root, betas=betas)


def test_the_group_of_options_is_usable_without_an_encoder():
    class Options(LoopOptions):
        """Those of some task."""

        learning_rate: float | None = None
        batch_size: int | None = 4
        epochs: int = 2
        warmup: float | None = 0.5

    settings = Options(schedule="inverse-sqrt").settings({"learning_rate": 0.1})
    assert (settings.learning_rate, settings.batch_size, settings.total(10)) == (0.1, 4, 6)
    assert (settings.schedule, settings.steps, settings.clip) == ("inverse-sqrt", None, None)
