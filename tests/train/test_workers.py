"""Several workers, really started: slow, since each imports torch anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.runtime import Runtime
from raxalign.train.watch import Moment, Pruned
from tests.train.problems import Regression, weights
from tests.train.workers import run_workers

pytestmark = pytest.mark.slow

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=5, epochs=3, weight_decay=0.1, clip=1.0)


def train(runtime: Runtime, settings: TrainSettings = SETTINGS) -> tuple[Regression, list[float]]:
    objective = Regression(
        n=21
    )  # the last batch of an epoch has one row: the second worker has none
    return (
        objective,
        fit(
            objective, 21, settings, runtime, keep=KeepBest(lambda epoch: -abs(epoch - 2.0))
        ).losses,
    )


def work(rank: int, folder: Path) -> None:
    """One of two workers: trains to step 7 and stops, trains again from the checkpoint, which only
    the first one can see.
    """
    runtime = Runtime(
        rank=rank, world_size=2, checkpoints=folder / f"checkpoints-{rank}", checkpoint_every=4
    )

    class Stopped(Exception):
        pass

    class Stopping(Regression):
        def end(self, step: object) -> None:
            if step.number == 7:  # type: ignore[attr-defined]
                raise Stopped

    with pytest.raises(Stopped):
        fit(
            Stopping(n=21),
            21,
            SETTINGS,
            runtime,
            keep=KeepBest(lambda epoch: -abs(epoch - 2.0)),
        )
    objective, losses = train(runtime)
    result = {
        "losses": losses,
        "weights": weights(objective).tolist(),
        "began": objective.seen[0][0],
    }
    (folder / f"{rank}.json").write_text(json.dumps(result))


def test_two_workers_give_the_result_of_one_also_after_resuming(tmp_path: Path) -> None:
    run_workers(work, 2, tmp_path)
    one, losses = train(Runtime())
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["began"] == 4 + rank  # step 4 has a single row, the first one's
        assert found["losses"] == pytest.approx(losses, rel=1e-5)
        assert found["weights"] == pytest.approx(weights(one).tolist(), abs=1e-5)
    assert not list(tmp_path.glob("checkpoints-1/*"))
    kept, _ = train(Runtime(), replace(SETTINGS, steps=10))
    assert torch.equal(weights(kept), weights(one)), "the second epoch was the best"


class EndsAfterTheFirstEpoch:
    """A watch that only the first worker may ask."""

    languages, metric = ("de",), "accuracy"

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        return at.step == 5


def watched(rank: int, folder: Path) -> None:
    """One of two workers whose training is pruned and then made whole."""
    kept = folder / f"watched-{rank}"
    runtime = Runtime(rank=rank, world_size=2, checkpoints=kept, watch=EndsAfterTheFirstEpoch())
    objective = Regression(n=21)
    keep = KeepBest(lambda epoch: -abs(epoch - 2.0), watched=lambda watch: {"de": float(not rank)})
    with pytest.raises(Pruned, match="step 5 of 15"):
        fit(objective, 21, SETTINGS, runtime, keep=keep)
    _, losses = train(replace(runtime, watch=None))
    (folder / f"{rank}.json").write_text(json.dumps({"losses": losses}))


def test_two_workers_are_pruned_together_and_are_made_whole(tmp_path: Path) -> None:
    run_workers(watched, 2, tmp_path)
    _, losses = train(Runtime())
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["losses"] == pytest.approx(losses, rel=1e-5)
