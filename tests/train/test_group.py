"""What workers send to each other: sums of gradients, and what a lost peer is told apart from."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from raxalign.errors import PeerLost, TransientError
from raxalign.train import group
from raxalign.train.group import (
    add_up,
    agree,
    barrier,
    gather_values,
    lost_peer,
    share_state,
    share_value,
    sum_gradients,
)
from tests.train.workers import run_workers

CALLS = {
    "all_reduce": lambda: add_up(torch.zeros(1)),
    "broadcast": lambda: share_state([torch.zeros(1)]),
    "broadcast_object_list": lambda: agree(True),
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
