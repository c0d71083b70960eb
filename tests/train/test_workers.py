"""Several workers, really started: slow, since each imports torch anew."""

import json
from dataclasses import replace

import pytest
import torch

from raxalign.train import group
from raxalign.train.loop import KeepBest, fit
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Pruned, Runtime
from tests.train.problems import Regression, Stacked, dies_at, weights
from tests.train.workers import run_workers

pytestmark = pytest.mark.slow

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=5, epochs=3, weight_decay=0.1, clip=1.0)


SECOND = KeepBest(lambda epoch: -abs(epoch - 2.0))  # the second epoch is the best


def train(runtime, settings=SETTINGS):
    objective = Regression(n=21)  # the second worker has no row of an epoch's last batch
    return objective, fit(objective, 21, settings, runtime, keep=SECOND).losses


def write(folder, name, objective, losses, **more):
    result = {"losses": losses, "weights": weights(objective).tolist(), **more}
    (folder / f"{name}.json").write_text(json.dumps(result))


def same(found, losses, objective):
    # the last losses are near 0, where rounding is all that is left of some digits
    assert found["losses"] == pytest.approx(losses, rel=1e-5, abs=1e-8)
    assert found["weights"] == pytest.approx(weights(objective).tolist(), abs=1e-5)


def work(rank, folder):
    """One of two workers: trains to step 7 and stops, trains again from the checkpoint, which only
    the first one can see.
    """
    runtime = Runtime(
        rank=rank, world_size=2, checkpoints=folder / f"checkpoints-{rank}", checkpoint_every=4
    )

    with pytest.raises(KeyboardInterrupt):
        fit(dies_at(7, Regression(n=21)), 21, SETTINGS, runtime, keep=SECOND)
    objective, losses = train(runtime)
    write(folder, rank, objective, losses, began=objective.seen[0][0])


def test_two_workers_give_the_result_of_one_also_after_resuming(tmp_path):
    run_workers(work, 2, tmp_path)
    one, losses = train(Runtime())
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["began"] == 4 + rank  # step 4 has a single row, the first one's
        same(found, losses, one)
    assert not list(tmp_path.glob("checkpoints-1/*"))
    kept, _ = train(Runtime(), replace(SETTINGS, steps=10))
    assert torch.equal(weights(kept), weights(one)), "the second epoch was the best"


class EndsAfterTheFirstEpoch:
    """A watch that only the first worker may ask."""

    languages, metric = ("de",), "accuracy"

    def ends(self, scores, at):
        return at.step == 5


def watched(rank, folder):
    """One of two workers whose training is pruned and then made whole."""
    kept = folder / f"watched-{rank}"
    runtime = Runtime(rank=rank, world_size=2, checkpoints=kept, watch=EndsAfterTheFirstEpoch())
    objective = Regression(n=21)
    keep = KeepBest(lambda epoch: -abs(epoch - 2.0), watched=lambda watch: {"de": float(not rank)})
    with pytest.raises(Pruned, match="step 5 of 15"):
        fit(objective, 21, SETTINGS, runtime, keep=keep)
    _, losses = train(replace(runtime, watch=None))
    (folder / f"{rank}.json").write_text(json.dumps({"losses": losses}))


def test_two_workers_are_pruned_together_and_are_made_whole(tmp_path):
    run_workers(watched, 2, tmp_path)
    _, losses = train(Runtime())
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["losses"] == pytest.approx(losses, rel=1e-5)


class RunsOut(torch.autograd.Function):
    """Does nothing; memory runs out in its backward where there are more than two rows."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        if len(gradient) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        return gradient


class Deep(Regression):
    """A network in whose backward memory runs out before the last layer."""

    def loss(self, step, positions):
        rows = torch.from_numpy(step.rows[positions])
        hidden = self.body[1](self.body[0](self.x[rows]))
        if step.number > 0:
            hidden = RunsOut.apply(hidden)
        self.micros.append(len(positions))
        return (self.body[3](hidden) - self.y[rows]).pow(2).sum() / len(step.rows)


def repeated(rank, folder):
    """One of two workers, of which the first one, with three of five rows, repeats a backward."""
    group.BUCKET = 64
    objective = Deep(n=21)
    runtime = Runtime(rank=rank, world_size=2)
    losses = fit(objective, 21, SETTINGS, runtime).losses
    write(folder, rank, objective, losses, micros=objective.micros)


def test_memory_that_runs_out_in_the_backward_of_one_worker_changes_no_result(tmp_path):
    run_workers(repeated, 2, tmp_path)
    one = Deep(n=21)
    losses = fit(one, 21, replace(SETTINGS), Runtime()).losses
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert found[0]["micros"][:4] == [3, 3, 2, 1]
    assert set(found[1]["micros"]) <= {1, 2}
    for worker in found:
        same(worker, losses, one)
    assert found[0]["weights"] == found[1]["weights"]


def recomputing(rank, folder):
    """One of two workers whose backward passes compute activations again, step by step prepared
    ahead; memory runs out on the first worker alone.
    """
    group.BUCKET = 512
    objective = Stacked(n=21, limit=None if rank else 3000)
    for part in objective.parts:
        part[2].p = 0.0  # what is dropped depends on the worker
    runtime = Runtime(rank=rank, world_size=2, prefetch=True)
    fitted = fit(objective, 21, SETTINGS, runtime)
    more = {"recomputed": fitted.recomputed, "micro": fitted.micro}
    write(folder, rank, objective, fitted.losses, **more)


def test_activations_can_be_computed_again_by_one_worker_of_two(tmp_path):
    run_workers(recomputing, 2, tmp_path)
    one = Stacked(n=21)
    for part in one.parts:
        part[2].p = 0.0
    losses = fit(one, 21, SETTINGS, Runtime()).losses
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert [worker["recomputed"] for worker in found] == [True, False]
    assert [worker["micro"] for worker in found] == [3, 3]
    assert found[0]["weights"] == found[1]["weights"]
    for worker in found:
        same(worker, losses, one)
