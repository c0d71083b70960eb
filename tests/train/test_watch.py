"""Trainings that are watched: they end early, and go on as if they had not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch

from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.runtime import Moment, Pruned, Runtime
from tests.train.problems import Regression, weights

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, epochs=4, warmup=0.1)
SCORES = {6: 0.2, 12: 0.7, 18: 0.4, 24: 0.1}


@dataclass
class EndsAt:
    """A watch that ends a training at a step."""

    step: int
    languages: tuple[str, ...] = ("de", "fr")
    metric: str = "accuracy"
    heard: list[tuple[Moment, dict[str, float]]] = field(default_factory=list)

    def ends(self, scores, at):
        self.heard.append((at, dict(scores)))
        return at.step == self.step


def trained(runtime):
    """Train on 22 rows: 24 steps, with a selection after each sixth."""
    objective = Regression(dropout=0.3)

    def watched(watch):
        assert not objective.module.training
        return dict.fromkeys(watch.languages, 0.5)

    keep = KeepBest(lambda epoch: SCORES[6 * epoch], watched=watched)
    return objective, fit(objective, 22, SETTINGS, runtime, keep=keep)


def test_a_watched_training_that_goes_on_is_the_same_training():
    plain, expected = trained(Runtime())
    watch = EndsAt(-1)
    watched, fitted = trained(Runtime(watch=watch))
    assert fitted == expected
    assert torch.equal(weights(watched), weights(plain))
    steps = [Moment(step, 24) for step in (6, 12, 18, 24)]
    assert watch.heard == [(at, {"de": 0.5, "fr": 0.5}) for at in steps]


@pytest.mark.parametrize("step", [6, 12, 18])
def test_a_pruned_training_made_whole_equals_an_undisturbed_one_bit_for_bit(tmp_path, step):
    whole, expected = trained(Runtime())
    with pytest.raises(Pruned, match=f"ended at step {step} of 24"):
        trained(Runtime(watch=EndsAt(step), checkpoints=tmp_path))
    assert [path.name for path in (tmp_path / "train").iterdir()] == [f"step-{step:08d}"]
    resumed, fitted = trained(Runtime(checkpoints=tmp_path))
    assert resumed.seen[0][0] == step
    assert fitted == expected
    assert torch.equal(weights(resumed), weights(whole))


def test_a_training_that_died_at_its_end_ends_there_again_without_a_step(tmp_path):
    with pytest.raises(Pruned):
        trained(Runtime(watch=EndsAt(12), checkpoints=tmp_path))
    again = EndsAt(12)
    with pytest.raises(Pruned):
        trained(Runtime(watch=again, checkpoints=tmp_path))
    assert again.heard == [(Moment(12, 24), {"de": 0.5, "fr": 0.5})]


def test_the_last_selection_is_heard_and_ends_nothing():
    watch = EndsAt(24)
    _, fitted = trained(Runtime(watch=watch))
    assert len(fitted.losses) == 24
    assert watch.heard[-1][0].is_last


def test_scores_of_dev_selections_are_reported_when_they_are_made():
    told: list[tuple[dict[str, float], int]] = []

    def report(metrics, step):
        if not any(name.endswith(("loss", "_per_second", "rate")) for name in metrics):
            told.append((dict(metrics), step))

    runtime = Runtime(report=report)
    trained(runtime)
    assert told == [({"train/selection": score}, step) for step, score in SCORES.items()]
    told.clear()
    trained(replace(runtime, watch=EndsAt(-1)))
    watched = {"train/dev_de_accuracy": 0.5, "train/dev_fr_accuracy": 0.5}
    assert told[:2] == [({"train/selection": 0.2}, 6), (watched, 6)]
