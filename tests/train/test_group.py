"""Messages between workers: what a lost peer is told apart from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from raxalign.errors import PeerLost, TransientError
from raxalign.train.group import (
    add_up,
    add_up_later,
    agree,
    barrier,
    gather_values,
    lost_peer,
    share_tensor,
    share_value,
)
from tests.train.workers import run_workers

CALLS = {
    "all_reduce": lambda: add_up(torch.zeros(1)),
    "broadcast": lambda: share_tensor(torch.zeros(1)),
    "broadcast_object_list": lambda: agree(True),
    "barrier": barrier,
    "all_gather_object": lambda: gather_values(1, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_of_every_collective_call_are_the_loss_of_a_peer(name, monkeypatch) -> None:
    def closed(*given: object, **named: object) -> None:
        raise RuntimeError("[gloo/pair.cc:544] Connection closed by peer [10.78.0.2]:40115\nmore")

    monkeypatch.setattr(torch.distributed, name, closed)
    with pytest.raises(PeerLost, match=r"another worker .* is gone \(.*Connection closed by peer"):
        CALLS[name]()
    assert issubclass(PeerLost, TransientError)


def test_a_peer_that_is_lost_while_a_sum_runs_is_found_by_waiting(monkeypatch) -> None:
    class Work:
        def wait(self) -> None:
            raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor, async_op: Work())
    wait = add_up_later(torch.zeros(1))
    with pytest.raises(PeerLost, match="Connection closed by peer"):
        wait()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA"), ValueError("no group")])
def test_other_errors_of_a_collective_call_stay_what_they_are(error, monkeypatch) -> None:
    def fail(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(torch.distributed, "broadcast_object_list", fail)
    with pytest.raises(type(error)):
        share_value("x")


def test_an_error_after_a_loss_leads_back_to_it() -> None:
    lost = PeerLost("gone")
    after, wrapped, own = TypeError("x"), ValueError("y"), ValueError("z")
    after.__context__, wrapped.__cause__ = lost, after
    own.__context__ = KeyError("k")
    assert [lost_peer(error) for error in (lost, after, wrapped, own)] == [lost, lost, lost, None]


def work(rank: int, folder: Path) -> None:
    """One of two workers: the second one dies, and the first one finds that out."""
    barrier()
    if rank == 1:
        os._exit(0)
    with pytest.raises(PeerLost):
        add_up(torch.zeros(1))
    (folder / "told").write_text("")
    os._exit(0)


@pytest.mark.slow
def test_a_worker_whose_peer_really_dies_is_told_so(tmp_path: Path) -> None:
    run_workers(work, 2, tmp_path)
    assert (tmp_path / "told").exists()
