"""Small trainings for tests."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from raxalign.train.objective import HostSided, Objective, Step


class Regression(Objective):
    """Mean squared error of a small network with dropout on a fixed problem; `limit` is the
    micro-batch that fits into memory.

    One layer is used for rows below 3 alone, so that in some steps some workers have no gradient
    for it.
    """

    def __init__(self, n: int = 22, dropout: float = 0.0, limit: int | None = None) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x, self.y = (torch.randn(n, k, generator=generator) for k in (5, 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            layers = nn.Linear(5, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)
            self.body = nn.Sequential(*layers)
            parts = {"body": self.body, "rare": nn.Linear(5, 1), "idle": nn.Linear(2, 2)}
            self.module = nn.ModuleDict(parts)
        self.limit = limit
        self.seen: list[tuple[int, list[int]]] = []
        self.micros: list[int] = []

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        if self.limit is not None and len(positions) > self.limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        rows = torch.from_numpy(step.rows[positions])
        self.seen.append((step.number, rows.tolist()))
        self.micros.append(len(positions))
        found = self.body(self.x[rows])
        if (rows < 3).any():
            found = found + self.module["rare"](self.x[rows]) * (rows < 3)[:, None]
        return (found - self.y[rows]).pow(2).sum() / len(step.rows)


class Kept:
    """The bytes that a forward pass keeps for its backward: what it saves, and what enters its
    parts that run again. Weights are there anyway.
    """

    def __init__(self, module: nn.Module) -> None:
        self.bytes = 0
        self.weights = {p.untyped_storage().data_ptr() for p in module.parameters()}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in self.weights:
            self.bytes += tensor.numel() * tensor.element_size()
        return tensor

    def enter(self, _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.add(given[0] if given else named["hidden_states"])


@contextmanager
def kept_bytes(module: nn.Module, blocks: Sequence[nn.Module]) -> Iterator[Kept]:
    kept = Kept(module)
    handles = [block.register_forward_pre_hook(kept.enter, with_kwargs=True) for block in blocks]
    try:
        with torch.autograd.graph.saved_tensors_hooks(kept.add, lambda tensor: tensor):
            yield kept
    finally:
        for handle in handles:
            handle.remove()


class Stacked(HostSided[int, tuple[np.ndarray, np.ndarray]]):
    """Mean squared error of blocks with dropout, whose inputs the host makes; `limit` are the bytes
    that fit into memory for the backward of a micro-batch.

    `made` are the steps that the host's side was made for, with the thread that made it.
    """

    def __init__(self, n: int = 22, limit: int | None = None) -> None:
        generator = np.random.default_rng(3)
        self.x, self.y = (generator.normal(size=(n, k)).astype(np.float32) for k in (5, 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Dropout(0.3), nn.Linear(40, 5))
                for _ in range(3)
            )
            self.module = nn.ModuleDict({"parts": self.parts, "head": nn.Linear(5, 1)})
        self.limit, self.ran_out = limit, 0
        self.made: list[tuple[int, str]] = []
        self.micros: list[int] = []

    def blocks(self) -> Sequence[nn.Module]:
        return tuple(self.parts)

    def host_batch(self, step: Step) -> int:
        self.made.append((step.number, threading.current_thread().name))
        return len(step.rows)

    def host_part(
        self, step: Step, batch: int, positions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = step.rows[positions]
        return self.x[rows], self.y[rows] + batch

    def device_loss(self, step: Step, part: tuple[np.ndarray, np.ndarray]) -> torch.Tensor:
        inputs, targets = map(torch.from_numpy, part)
        with kept_bytes(self.module, self.blocks()) as kept:
            states = inputs
            for block in self.parts:
                states = states + block(states)
            loss = (self.module["head"](states) - targets).pow(2).sum() / len(step.rows)
        if self.limit is not None and kept.bytes > self.limit:
            self.ran_out += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
        self.micros.append(len(inputs))
        return loss


def live() -> dict[int, int]:
    """The bytes of each storage of all tensors that are there, by its address."""
    gc.collect()
    found = (made for made in gc.get_objects() if issubclass(type(made), torch.Tensor))
    storages = (tensor.untyped_storage() for tensor in found)
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def dies_at(step: int, objective: Any) -> Any:
    """The same objective, whose training is interrupted at the end of a step."""

    own = objective.end

    def end(done: Step) -> None:
        own(done)
        if done.number == step:
            raise KeyboardInterrupt

    objective.end = end
    return objective


def weights(objective: Objective) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in objective.module.parameters()])
