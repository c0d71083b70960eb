"""Sums of gradients over workers, in buckets; the other worker is one with equal gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from raxalign.errors import RaxalignError
from raxalign.train import _gradients
from raxalign.train._gradients import GradientSum


class Link:
    """What is sent to the other worker, and when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        monkeypatch.setattr(_gradients, "add_up", self.add_up)
        monkeypatch.setattr(_gradients, "add_up_later", self.add_up_later)
        monkeypatch.setattr(_gradients, "share_value", lambda value: value)
        monkeypatch.setattr(_gradients, "BUCKET", 24)  # bytes: the parameters of one layer

    def add_up(self, tensor: torch.Tensor) -> None:
        tensor.mul_(2)
        self.events.append("add up")

    def add_up_later(self, tensor: torch.Tensor):
        self.events.append(f"begin {tensor.numel()}")
        return lambda: self.add_up(tensor)


class Marked(torch.autograd.Function):
    """Does nothing, and notes when a backward goes through it."""

    @staticmethod
    def forward(ctx, value, events, error=None):  # type: ignore[override]
        ctx.events, ctx.error = events, error
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[override]
        ctx.events.append("between")
        if ctx.error is not None:
            raise ctx.error
        return gradient, None, None


@pytest.fixture
def link(monkeypatch) -> Link:
    return Link(monkeypatch)


@pytest.fixture
def layers() -> nn.ModuleList:
    """Two layers, of weight 1 or 2 and no bias at first, and one that is not used."""
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)])
    for layer, value in zip(layers, (1.0, 2.0, 3.0), strict=True):
        nn.init.constant_(layer.weight, value)
        nn.init.zeros_(layer.bias)
    return layers


def step(layers, sums: GradientSum, link: Link, error=None, *, rows: int = 1) -> torch.Tensor:
    """Do one step, in one micro-batch per row; returns the loss."""
    layers.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for row in range(rows):
        hidden = Marked.apply(layers[0](torch.ones(1, 2)), link.events, error)
        loss = layers[1](hidden).sum()
        with sums.backward(last=row == rows - 1):
            loss.backward()
        total = total + loss.detach()
    return sums.finish(total)


def summed(layers: nn.ModuleList) -> list[list[float] | None]:
    return [p.grad if p.grad is None else p.grad.flatten().tolist() for p in layers.parameters()]


# each hidden value is 2, each output 8; a gradient of an input of the second layer is 2 + 2
ONE = [[4.0] * 4, [4.0] * 2, [2.0] * 4, [1.0] * 2]


def doubled(rows: int = 1) -> list[list[float] | None]:
    return [*([2.0 * rows * v for v in values] for values in ONE), None, None]


@pytest.mark.parametrize("rows", [1, 3])
def test_gradients_and_loss_are_those_of_all_workers(layers, link, rows) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    for _ in range(3):
        assert float(step(layers, sums, link, rows=rows)) == 2 * 16 * rows
        assert summed(layers) == doubled(rows)


def test_one_worker_keeps_its_own_gradients_and_sends_nothing(layers, link) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=1)
    assert float(step(layers, sums, link)) == 16.0
    assert summed(layers) == [*ONE, None, None]
    assert link.events == ["between"]


def test_the_sum_of_the_last_layer_begins_before_the_backward_reaches_the_first(
    layers, link
) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    assert link.events[0] == "between", "the first step shows the order"
    link.events.clear()
    step(layers, sums, link)
    assert link.events[:3] == ["begin 32", "between", "begin 32"]
    assert link.events[3:] == ["add up"] * 3, "the loss, and two buckets"


def test_only_the_last_micro_batch_sends_gradients(layers, link) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    link.events.clear()
    step(layers, sums, link, rows=2)
    assert link.events[:4] == ["between", "begin 32", "between", "begin 32"]


def test_gradients_are_views_of_the_buffer_of_their_bucket(layers, link, monkeypatch) -> None:
    monkeypatch.setattr(_gradients, "BUCKET", 48)
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    places = {p.grad.untyped_storage().data_ptr() for p in layers[:2].parameters()}
    assert len(places) == 1
    assert all(p.grad.storage_offset() % 16 == 0 for p in layers[:2].parameters())


def test_a_gradient_that_is_a_bucket_of_its_own_is_not_copied(layers, link, monkeypatch) -> None:
    monkeypatch.setattr(_gradients, "BUCKET", 15)
    sent = []
    monkeypatch.setattr(
        _gradients, "add_up_later", lambda tensor: sent.append(tensor.data_ptr()) or (lambda: None)
    )
    sums, layer = GradientSum([layers[0].weight], world_size=2), layers[0]
    with sums.backward(last=True):
        layer(torch.ones(1, 2)).sum().backward()
    own = layer.weight.grad.data_ptr()
    sums.finish(torch.zeros(()))
    assert sent == [own] == [layer.weight.grad.data_ptr()]


def test_a_worker_without_rows_takes_part_with_zeros(layers, link, monkeypatch) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    link.events.clear()
    layers.zero_grad(set_to_none=True)

    def add_up(tensor: torch.Tensor) -> None:  # the other worker has used both layers
        tensor.add_(torch.tensor([7.0, 1, 1, 1, 1, 0, 0]))

    monkeypatch.setattr(_gradients, "add_up", add_up)
    assert float(sums.finish(torch.zeros(()))) == 7.0
    assert [event for event in link.events if event != "add up"] == ["begin 32"] * 2
    assert summed(layers) == [[0.0] * 4, [0.0] * 2, [0.0] * 4, [0.0] * 2, None, None]


def test_a_worker_without_rows_sends_as_much_as_one_with_rows(layers, link, monkeypatch) -> None:
    monkeypatch.setattr(_gradients, "BUCKET", 15)
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    sent = sorted(event for event in link.events if event.startswith("begin"))
    link.events.clear()
    layers.zero_grad(set_to_none=True)
    sums.finish(torch.zeros(()))
    assert sorted(event for event in link.events if event.startswith("begin")) == sent


def test_what_is_used_later_than_in_the_first_step_is_summed_too(layers, link) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    layers.zero_grad(set_to_none=True)
    with sums.backward(last=True):
        layers[2](torch.ones(1, 2)).sum().backward()
    sums.finish(torch.zeros(()))
    assert summed(layers) == [None] * 4 + [[2.0] * 4, [2.0] * 2]


def test_a_repeated_backward_keeps_the_sums_that_had_begun(layers, link) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    link.events.clear()
    with pytest.raises(torch.OutOfMemoryError):
        step(layers, sums, link, torch.OutOfMemoryError("CUDA out of memory"))
    assert link.events == ["begin 32", "between"]
    assert float(step(layers, sums, link, rows=2)) == 64.0
    # the layer whose sum had begun was sent once, with the share of one row
    assert summed(layers) == [
        *([4.0 * v for v in values] for values in ONE[:2]),
        *([2.0 * v for v in values] for values in ONE[2:]),
        None,
        None,
    ]
    assert link.events.count("begin 32") == 2
    assert float(step(layers, sums, link)) == 32.0
    assert summed(layers) == doubled()


def test_a_gradient_that_comes_in_parts_is_refused(layers, link) -> None:
    sums = GradientSum(list(layers.parameters()), world_size=2)
    step(layers, sums, link)
    with sums.backward(last=True):
        layers[1](torch.ones(1, 2)).sum().backward()
        with pytest.raises(RaxalignError, match="in several parts"):
            layers[1](torch.ones(1, 2)).sum().backward()
