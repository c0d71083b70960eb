"""Two losses in one training, on small networks whose body both share."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.train.loop import KeepBest, fit
from raxalign.train.objective import Joint, Objective, RowOrder, Step, Turns
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.train.problems import Stacked, dies_at, weights
from tests.train.workers import run_workers

TASK = TrainSettings(0.05, batch_size=4, epochs=3, warmup=0.1, weight_decay=0.1, clip=1.0)
METHOD = replace(TASK, batch_size=5, epochs=1, learning_rate=0.01, clip=None)


def made(seed, *sizes):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(*sizes), nn.Tanh())


class Part(Objective):
    """Squared error of a head on a shared body, whose output has dropout."""

    def __init__(self, body, seed, n, dropout=0.3, limit=None):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 4, generator=generator)
        self.y = torch.randn(n, 1, generator=generator)
        self.drop = nn.Dropout(dropout)
        own = nn.ModuleList([made(seed, 6, 1), self.drop])
        self.module = nn.ModuleDict({"body": body, "own": own})
        self.limit, self.seen = limit, []

    def loss(self, step, positions):
        if self.limit is not None and len(positions) > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        rows = torch.from_numpy(step.rows[positions])
        self.seen.append((step.number, rows.tolist()))
        body, (head, drop) = self.module["body"], self.module["own"]
        gap = head(drop(body(self.x[rows]))) - self.y[rows]
        return gap.pow(2).sum() / len(step.rows)


def parts(dropout=0.3, limit=None):
    body = made(1, 4, 6)
    return Part(body, 2, 13, dropout, limit), Part(body, 3, 11, dropout, limit)


def both(alternates=False, runtime=None, limit=None, dropout=0.3, weight=1.0):
    """A joint training of 3 epochs of 4 steps; (objective, what it did)."""
    runtime, (first, second) = runtime or Runtime(seed=7), parts(dropout, limit)
    orders = RowOrder(13, TASK, runtime.seed), RowOrder(11, METHOD, runtime.seed)
    joint = Joint(first, second, Turns(*orders, alternates), weight)
    return joint, partial(fit, joint, 13, TASK, runtime)


@pytest.mark.parametrize("alternates", [False, True])
def test_each_part_has_the_rows_of_its_own_training_and_epochs_end_with_the_tasks(alternates):
    joint, train = both(alternates)
    first, second = joint.first, joint.second
    ends = []
    fitted = train(keep=KeepBest(lambda epoch: ends.append((epoch, first.seen[-1][0])) or 0.0))
    alone, other = parts()
    fit(alone, 13, TASK, Runtime(seed=7))
    fit(other, 11, replace(METHOD, steps=12), Runtime(seed=7))
    assert (first.seen, second.seen) == (alone.seen, other.seen)
    assert ends == [(1, 3), (2, 7), (3, 11)]
    assert len(fitted.losses) == joint.turns.total == 12 * (1 + alternates)


def of_step(joint, micro, number=0):
    """The gradients of the weights that both parts have, in a step, and its loss."""
    epoch, rows = joint.turns.rows(number)
    step = joint.taken(Step(number, epoch, rows, seed=7, micro=micro))
    parameters = list(joint.module.parameters())
    joint.module.zero_grad()
    joint.begin(step)
    for positions in step.micro_batches():
        joint.loss(step, positions).backward()
    loss = joint.gathered(step, parameters, torch.zeros(()))
    return [p.grad.clone() for p in joint.first.module["body"].parameters()], float(loss)


def alone(part, rows):
    """The gradients of one part over some rows, and its loss."""
    step = Step(0, 0, rows, micro=99)
    part.module.zero_grad()
    loss = part.loss(step, np.arange(len(rows)))
    loss.backward()
    return [p.grad.clone() for p in part.module["body"].parameters()], loss.item()


@pytest.mark.parametrize("micro", [99, 2])
def test_the_gradient_is_the_sum_of_both_by_weight(micro):
    joint, _ = both(dropout=0.0, weight=0.5)
    found, loss = of_step(joint, micro)
    (_, _, rows), (_, _, others) = joint.turns.parts(0)
    (one, first), (two, second) = alone(joint.first, rows), alone(joint.second, others)
    assert loss == pytest.approx(first + 0.5 * second, rel=1e-6)
    for a, b, c in zip(found, one, two, strict=True):
        assert torch.allclose(a, b + 0.5 * c, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"alternates": True}])
@pytest.mark.parametrize("died", [2, 5, 11])
def test_a_resumed_joint_training_equals_an_uninterrupted_one_bit_for_bit(tmp_path, died, options):
    whole, train = both(**options)
    expected = train().losses
    runtime = Runtime(seed=7, checkpoints=tmp_path, checkpoint_every=3)
    killed, train = both(runtime=runtime, **options)
    dies_at(died, killed)
    with pytest.raises(KeyboardInterrupt):
        train()
    resumed, train = both(runtime=runtime, **options)
    assert train().losses == expected
    assert torch.equal(weights(resumed), weights(whole))


@pytest.mark.parametrize("options", [{}, {"alternates": True}])
def test_memory_that_runs_out_cuts_the_micro_batches_of_both_and_changes_nothing(options):
    whole, train = both(dropout=0.0, **options)
    expected = train().losses
    small, train = both(dropout=0.0, limit=1, **options)
    fitted = train()
    assert fitted.micro == 1
    assert fitted.losses == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(weights(small), weights(whole), atol=1e-5)


def test_the_loss_of_a_step_of_one_part_counts_the_last_one_of_the_other():
    joint, train = both(alternates=True, dropout=0.0, weight=0.5)
    losses, own = train().losses, {0: [], 1: []}
    again, train = both(alternates=True, dropout=0.0, weight=0.5)
    for which, part in enumerate((again.first, again.second)):
        measure, kept = part.loss, own[which]
        part.loss = lambda *given, of=measure, to=kept: to.append(of(*given)) or to[-1]
    train()
    first, second = ([float(loss.detach()) for loss in found] for found in own.values())
    assert losses[0] == first[0]
    assert losses[1::2] == pytest.approx([a + 0.5 * b for a, b in zip(first, second, strict=True)])
    later = zip(first[1:], second, strict=False)
    assert losses[2::2] == pytest.approx([a + 0.5 * b for a, b in later])
    assert joint.comparable_from == 2, "the first step lacks a part"


def test_what_a_thread_prepares_is_what_each_part_prepares_alone():
    found = []
    for prefetch in (False, True):
        first, second = Stacked(13), Stacked(11)
        turns = Turns(RowOrder(13, TASK, 7), RowOrder(11, METHOD, 7))
        joint = Joint(first, second, turns, 1.0)
        fit(joint, 13, TASK, Runtime(seed=7, prefetch=prefetch))
        threads = {thread for _, thread in first.made[1:] + second.made[1:]}
        assert all(thread.startswith("raxalign-ahead") is prefetch for thread in threads)
        found.append(weights(joint))
    assert torch.equal(*found)


def work(rank, folder):
    """One of two workers, of which the second one has no row of some batches."""
    joint, train = both(runtime=Runtime(seed=7, rank=rank, world_size=2, shares=3))
    result = {"losses": train().losses, "weights": weights(joint).tolist()}
    (folder / f"{rank}.json").write_text(json.dumps(result))


@pytest.mark.slow
def test_two_workers_of_a_joint_training_have_the_result_of_one(tmp_path):
    run_workers(work, 2, tmp_path)
    joint, train = both(runtime=Runtime(seed=7, shares=3))
    losses = train().losses
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["losses"] == pytest.approx(losses, rel=1e-5)
        assert found["weights"] == pytest.approx(weights(joint).tolist(), abs=1e-5)
