"""Two losses in one training, on small networks whose body both share."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.train.joint import Joint, Mixing, Turns
from raxalign.train.loop import KeepBest, TrainSettings, fit
from raxalign.train.objective import Objective, Step
from raxalign.train.options import RowOrder
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


def both(every=1, alternates=False, runtime=None, limit=None, dropout=0.3, **mixing):
    """A joint training of 3 epochs of 4 steps; (objective, what it did)."""
    runtime, (first, second) = runtime or Runtime(seed=7), parts(dropout, limit)
    orders = RowOrder(13, TASK, runtime.seed), RowOrder(11, METHOD, runtime.seed)
    joint = Joint(first, second, Turns(*orders, every, alternates), Mixing(**mixing))
    return joint, partial(fit, joint, 13, TASK, runtime)


@pytest.mark.parametrize("shares", [0, 3])
def test_a_joint_training_without_steps_of_one_part_is_that_of_the_other_bit_for_bit(shares):
    runtime, (alone, _) = Runtime(seed=7, shares=shares), parts()
    joint, train = both(99, alternates=True, runtime=runtime)
    assert train().losses == fit(alone, 13, TASK, runtime).losses
    assert joint.first.seen == alone.seen
    assert torch.equal(weights(joint.first), weights(alone))


@pytest.mark.parametrize(("every", "alternates"), [(1, False), (3, False), (1, True), (3, True)])
def test_each_part_has_the_rows_of_its_own_training_and_epochs_end_with_the_tasks(
    every, alternates
):
    joint, train = both(every, alternates)
    first, second = joint.first, joint.second
    ends = []
    fitted = train(keep=KeepBest(lambda epoch: ends.append((epoch, first.seen[-1][0])) or 0.0))
    alone, other = parts()
    fit(alone, 13, TASK, Runtime(seed=7))
    fit(other, 11, replace(METHOD, steps=joint.turns.of_second), Runtime(seed=7))
    assert (first.seen, second.seen) == (alone.seen, other.seen)
    assert ends == [(1, 3), (2, 7), (3, 11)]
    steps = {(1, False): 12, (3, False): 12, (1, True): 24, (3, True): 15}[every, alternates]
    assert len(fitted.losses) == joint.turns.total == steps
    assert joint.turns.of_second == {1: 12, 3: 3 if alternates else 4}[every]


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


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_conflict_is_taken_out_of_both_gradients_as_pcgrad_does(sign):
    """The second part is the first one with other answers; with the same ones nothing conflicts."""
    summed, projected = (both(dropout=0.0, projects=projects)[0] for projects in (False, True))
    for joint in (summed, projected):
        joint.second.module["own"][0].load_state_dict(joint.first.module["own"][0].state_dict())
        joint.second.x = joint.first.x
        joint.second.y = sign * joint.first.y
    found = torch.cat([g.flatten() for g in of_step(projected, 2)[0]])
    (_, _, rows), (_, _, others) = projected.turns.parts(0)
    own = alone(projected.first, rows)[0], alone(projected.second, others)[0]
    a, b = (torch.cat([g.flatten() for g in gradients]) for gradients in own)
    product = a @ b
    assert (product < 0) == (sign < 0)
    if product < 0:
        expected = (a - product / (b @ b) * b) + (b - product / (a @ a) * a)
        assert torch.allclose(found, expected, atol=1e-6)
        assert not torch.allclose(found, a + b, atol=1e-3)
    else:
        whole = torch.cat([g.flatten() for g in of_step(summed, 2)[0]])
        assert torch.allclose(found, whole, atol=1e-7)


def numeric(part, rows, parameters):
    """The gradient of a part's loss by central differences."""
    step, found = Step(0, 0, rows, micro=99), []
    for parameter in parameters:
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            value, ends = float(flat[i]), []
            for change in (1e-5, -1e-5):
                flat[i] = value + change
                with torch.no_grad():
                    ends.append(float(part.loss(step, np.arange(len(rows)))))
            flat[i] = value
            found.append((ends[0] - ends[1]) / 2e-5)
    return np.array(found)


def test_cosines_and_norms_of_all_weights_and_of_groups_are_those_of_finite_differences():
    seen = []
    joint, _ = both(dropout=0.0, weight=0.5, measured=2, report=lambda *made: seen.append(made))
    joint.module.double()
    for part in (joint.first, joint.second):
        part.x, part.y = part.x.double(), part.y.double()
    weight, bias = joint.first.module["body"].parameters()
    joint.mixing = replace(joint.mixing, groups={"weight": [weight], "bias": [bias], "none": []})
    for number in range(3):
        of_step(joint, 3, number)
    assert [step for _, step in seen] == [1, 3], "every other step, counted from 1"
    (_, _, rows), (_, _, others) = joint.turns.parts(2)
    expected = {}
    for name, group in {"all": [weight, bias], "weight": [weight], "bias": [bias]}.items():
        a, b = numeric(joint.first, rows, group), 0.5 * numeric(joint.second, others, group)
        norms = np.linalg.norm(a), np.linalg.norm(b)
        expected |= {f"task_gradient/{name}": norms[0], f"method_gradient/{name}": norms[1]}
        expected[f"gradient_cosine/{name}"] = a @ b / (norms[0] * norms[1])
    assert seen[1][0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"every": 2, "alternates": True}, {"projects": True}])
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


@pytest.mark.parametrize("options", [{}, {"every": 2, "alternates": True}, {"projects": True}])
def test_memory_that_runs_out_cuts_the_micro_batches_of_both_and_changes_nothing(options):
    whole, train = both(dropout=0.0, **options)
    expected = train().losses
    small, train = both(dropout=0.0, limit=1, **options)
    fitted = train()
    assert fitted.micro == 1
    assert fitted.losses == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(weights(small), weights(whole), atol=1e-5)


def test_the_loss_of_a_step_of_one_part_counts_the_last_one_of_the_other():
    joint, train = both(1, alternates=True, dropout=0.0, weight=0.5)
    losses, own = train().losses, {0: [], 1: []}
    again, train = both(1, alternates=True, dropout=0.0, weight=0.5)
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
        turns = Turns(RowOrder(13, TASK, 7), RowOrder(11, METHOD, 7), 2)
        joint = Joint(first, second, turns, Mixing())
        fit(joint, 13, TASK, Runtime(seed=7, prefetch=prefetch))
        threads = {thread for _, thread in first.made[1:] + second.made[1:]}
        assert all(thread.startswith("raxalign-ahead") is prefetch for thread in threads)
        found.append(weights(joint))
    assert torch.equal(*found)


SHARED = [{"projects": True, "measured": 2}, {"every": 2, "alternates": True}]


def told(runtime, options):
    """A joint training that is over, its losses and what it reported."""
    found = []
    joint, train = both(runtime=runtime, report=lambda *given: found.append(given), **options)
    return joint, train().losses, found


def work(rank, folder):
    """One of two workers, of which the second one has no row of some batches."""
    for number, options in enumerate(SHARED):
        runtime = Runtime(seed=7, rank=rank, world_size=2, shares=3)
        joint, losses, reports = told(runtime, options)
        result = {"losses": losses, "weights": weights(joint).tolist(), "told": reports}
        (folder / f"{number}-{rank}.json").write_text(json.dumps(result))


@pytest.mark.slow
def test_two_workers_of_a_joint_training_have_the_result_of_one(tmp_path):
    run_workers(work, 2, tmp_path)
    for number, options in enumerate(SHARED):
        joint, losses, reports = told(Runtime(seed=7, shares=3), options)
        for rank in (0, 1):
            found = json.loads((tmp_path / f"{number}-{rank}.json").read_text())
            assert found["losses"] == pytest.approx(losses, rel=1e-5)
            assert found["weights"] == pytest.approx(weights(joint).tolist(), abs=1e-5)
            assert len(found["told"]) == (0 if rank else len(reports))
            for (values, step), (expected, at) in zip(found["told"], reports, strict=False):
                assert step == at
                assert values == pytest.approx(expected, rel=1e-4, abs=1e-6)
