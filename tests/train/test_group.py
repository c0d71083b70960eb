"""What workers send to each other, what a lost peer is told apart from, and the dev loss, of which
each computes a part.
"""

from __future__ import annotations

import copy
import json
import os

import pytest
import torch
from torch import nn

from raxalign.errors import PeerLost, TrainingDiverged, TransientError
from raxalign.train import group
from raxalign.train.chance import Stream
from raxalign.train.group import (
    add_up,
    barrier,
    gather_values,
    lost_peer,
    share_state,
    share_value,
    shared,
    sharing,
    sum_gradients,
)
from raxalign.train.loop import KeepBest, fit
from raxalign.train.objective import DevLoss, Objective
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.train.problems import Regression
from tests.train.workers import run_workers

CALLS = {
    "all_reduce": lambda: add_up(torch.zeros(1)),
    "broadcast": lambda: share_state([torch.zeros(1)]),
    "broadcast_object_list": lambda: share_value(True),
    "barrier": barrier,
    "all_gather_object": lambda: gather_values(1, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_of_every_collective_call_are_the_loss_of_a_peer(name, monkeypatch):
    def closed(*given, **named):
        raise RuntimeError("[gloo/pair.cc:544] Connection closed by peer [10.78.0.2]:40115\nmore")

    monkeypatch.setattr(torch.distributed, name, closed)
    with pytest.raises(PeerLost, match=r"another worker .* is gone \(.*Connection closed by peer"):
        CALLS[name]()
    assert issubclass(PeerLost, TransientError)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA"), ValueError("no group")])
def test_other_errors_of_a_collective_call_stay_what_they_are(error, monkeypatch):
    def fail(*given, **named):
        raise error

    monkeypatch.setattr(torch.distributed, "broadcast_object_list", fail)
    with pytest.raises(type(error)):
        share_value("x")


def test_an_error_after_a_loss_leads_back_to_it():
    lost = PeerLost("gone")
    after, wrapped, own = TypeError("x"), ValueError("y"), ValueError("z")
    after.__context__, wrapped.__cause__ = lost, after
    own.__context__ = KeyError("k")
    assert [lost_peer(error) for error in (lost, after, wrapped, own)] == [lost, lost, lost, None]


def work(rank, folder):
    """One of two workers: the second one dies, and the first one finds that out."""
    barrier()
    if rank == 1:
        os._exit(0)
    with pytest.raises(PeerLost):
        add_up(torch.zeros(1))
    (folder / "told").write_text("")
    os._exit(0)


@pytest.mark.slow
def test_a_worker_whose_peer_really_dies_is_told_so(tmp_path):
    run_workers(work, 2, tmp_path)
    assert (tmp_path / "told").exists()


@pytest.fixture
def sent(monkeypatch):
    """What is sent to another worker, which has the same gradients."""
    found: list[torch.Tensor] = []

    def add_up(tensor):
        found.append(tensor.clone())
        tensor.mul_(2)

    monkeypatch.setattr(group, "add_up", add_up)
    monkeypatch.setattr(group, "BUCKET", 24)  # bytes: the parameters of one layer
    return found


@pytest.fixture
def layers():
    """Two layers that are used, and one that is not."""
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers[1](layers[0](torch.ones(1, 2))).sum().backward()
    return layers


def gradients(layers):
    return [p.grad if p.grad is None else p.grad.flatten().tolist() for p in layers.parameters()]


def test_gradients_and_loss_are_those_of_all_workers(layers, sent):
    own = gradients(layers)
    assert float(sum_gradients(list(layers.parameters()), torch.tensor(3.0))) == 6.0
    assert gradients(layers) == [part and [2 * value for value in part] for part in own]
    assert own[4:] == [None, None], "nobody uses the last layer"
    assert [len(part) for part in sent] == [7, 6, 6], "who has what, and a bucket per layer"


def test_a_worker_without_rows_takes_part_with_zeros(layers, sent, monkeypatch):
    layers.zero_grad(set_to_none=True)

    def add_up(tensor):  # the other worker has used both layers
        sent.append(tensor.clone())
        if len(sent) == 1:
            tensor.add_(torch.tensor([7.0, 1, 1, 1, 1, 0, 0]))

    monkeypatch.setattr(group, "add_up", add_up)
    assert float(sum_gradients(list(layers.parameters()), torch.zeros(()))) == 7.0
    assert [len(part) for part in sent] == [7, 6, 6], "as much as a worker with rows sends"
    assert gradients(layers) == [[0.0] * 4, [0.0] * 2, [0.0] * 4, [0.0] * 2, None, None]


def test_gradients_of_two_types_are_not_sent_together_and_a_large_one_is_not_copied(
    layers, sent, monkeypatch
):
    monkeypatch.setattr(group, "BUCKET", 2**20)
    layers[1].half()
    layers[1].weight.grad, layers[1].bias.grad = layers[1].weight.data, layers[1].bias.data
    sum_gradients(list(layers.parameters())[:4], torch.zeros(()))
    assert [part.dtype for part in sent[1:]] == [torch.float32, torch.float16]
    place = layers[0].weight.grad.data_ptr()
    sum_gradients([layers[0].weight], torch.zeros(()))
    assert layers[0].weight.grad.data_ptr() == place


def test_a_worker_alone_computes_all_parts_in_their_order():
    assert list(shared("abc", str.upper)) == [("a", "A"), ("b", "B"), ("c", "C")]
    with sharing(Runtime()):
        assert list(shared("abc", str.upper)) == [("a", "A"), ("b", "B"), ("c", "C")]


def test_a_worker_of_three_computes_every_third_part_and_has_the_others_from_their_workers(
    monkeypatch,
):
    computed: list[str] = []

    def gathered(own, workers):
        assert (own, workers) == (["B", "E"], 3)
        return [["A", "D"], own, ["C"]]

    def compute(part):
        computed.append(part)
        return part.upper()

    monkeypatch.setattr("raxalign.train.group.gather_values", gathered)
    with sharing(Runtime(rank=1, world_size=3)):
        assert "".join(found for _, found in shared("abcde", compute)) == "ABCDE"
    assert computed == ["b", "e"]
    assert len(list(shared("abcde", compute))) == len(computed) - 2, "outside of the block"


class Counting(Regression):
    """Counts the batches that are measured."""

    measured = 0

    def begin(self, step):
        self.measured += 1


SETTINGS = TrainSettings(learning_rate=0.05, batch_size=5, epochs=2)


def select(rank, folder):
    """One of two workers, which choose weights by 5 batches of dev rows."""
    objective, dev = Regression(n=21), Counting(n=14)
    dev.body, dev.module = objective.body, objective.module
    loss, alone = DevLoss(dev, 14, 3, seed=0), list[float]()
    measured: list[int] = []

    def score(epoch):
        before = dev.measured
        together = loss.measure()
        measured.append(dev.measured - before)
        with sharing(Runtime()):
            alone.append(loss.measure())
        return together

    runtime = Runtime(rank=rank, world_size=2)
    fitted = fit(objective, 21, SETTINGS, runtime, keep=KeepBest(score, lowest=True))
    assert measured == [3 - rank] * 2
    found = {"alone": alone, "scores": fitted.scores, "selected": fitted.selected}
    (folder / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


@pytest.mark.slow
def test_two_workers_share_the_dev_loss_and_have_it_bit_for_bit_as_one_has_it(tmp_path):
    torch.set_num_threads(1)
    run_workers(select, 2, tmp_path)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first["alone"] == second["alone"] == [score for _, score in first["scores"]]
    assert [step for step, _ in first["scores"]] == [5, 10]
    assert first["selected"] in (5, 10)


class Distance(Objective):
    """The mean over rows of (w - target)², for one weight that starts at 0."""

    def __init__(self, targets):
        self.module = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.module.weight)
        self.targets = torch.tensor(targets)

    def on(self, targets):
        other = copy.copy(self)
        other.targets = torch.tensor(targets)
        return other

    def loss(self, step, positions):
        rows = torch.from_numpy(step.rows[positions])
        return (self.module.weight - self.targets[rows]).pow(2).sum() / len(step.rows)


# β of 0: every step is 0.1 towards the training target, 0.1, 0.2 ... 1.0
TOWARDS_ONE = TrainSettings(0.1, 2, epochs=10, betas=(0.0, 0.0), shuffle=False)


def run(every=None, start=0):
    """Trains towards 1 with 0.42 as the best weight on the dev rows."""
    objective = Distance([1.0, 1.0])
    loss = DevLoss(objective.on([0.42, 0.42, 0.42]), 3, 2, seed=0)
    keep = KeepBest(lambda _: loss.measure(), every, lowest=True, start=start, curve="dev_loss")
    fitted = fit(objective, 2, TOWARDS_ONE, Runtime(), keep=keep)
    return float(objective.module.weight.detach()), fitted


@pytest.mark.parametrize(
    ("when", "steps", "best"),
    [
        pytest.param({}, [*range(1, 11)], 4, id="after each step by default"),
        pytest.param({"every": 3}, [3, 6, 9, 10], 3, id="every so many steps and at the end"),
        pytest.param({"start": 7}, [7, 8, 9, 10], 7, id="not where the loss lacks a part"),
    ],
)
def test_the_dev_loss_is_measured_and_the_weights_of_the_step_with_the_lowest_are_kept(
    when, steps, best
):
    weight, fitted = run(**when)
    losses = {step: (0.1 * step - 0.42) ** 2 for step in steps}
    assert [step for step, _ in fitted.scores] == steps
    assert dict(fitted.scores) == pytest.approx(losses, abs=1e-6)
    assert (weight, fitted.selected) == (pytest.approx(0.1 * best), best)


def test_batches_count_by_their_rows_and_chance_is_the_same_each_time():
    class Drawing(Distance):
        def loss(self, step, positions):
            drawn.append(step.generator(Stream.MIXING).random())
            return super().loss(step, positions)

    drawn: list[float] = []
    loss = DevLoss(Drawing([1.0, 1.0, 4.0]), 3, 2, seed=3)
    assert loss.measure() == pytest.approx((1 + 1 + 16) / 3)
    assert loss.measure() == pytest.approx(6.0)
    assert drawn[:2] == drawn[2:]
    assert drawn[0] != drawn[1]


def test_a_dev_loss_that_is_not_finite_ends_the_training():
    with pytest.raises(TrainingDiverged, match="the loss on the dev part is nan"):
        DevLoss(Distance([float("nan")]), 1, 1, seed=0).measure()
