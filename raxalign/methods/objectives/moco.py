"""Momentum contrast on sentence vectors (He et al. 2020; Pan et al. 2021): a slow copy of the
encoder, and a queue of the keys that it made.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

EMPTY = -1
"""The pivot sentence of a queue's place that no key has filled yet."""

QueueStart = Literal["random", "full"]


def contrast_logits(
    query_BD: torch.Tensor,
    positive_BD: torch.Tensor,
    queue_KD: torch.Tensor,
    same_BK: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """Return (B, 1 + K) similarities over the temperature: the positive at index 0, then the queue;
    a key where `same_BK` is not a negative (-inf).
    """
    positive_B1 = (query_BD * positive_BD).sum(dim=-1, keepdim=True)
    negative_BK = (query_BD @ queue_KD.T).masked_fill(same_BK, -torch.inf)
    return torch.cat([positive_B1, negative_BK], dim=1) / temperature


def info_nce(
    query_BD: torch.Tensor,
    positive_BD: torch.Tensor,
    queue_KD: torch.Tensor,
    same_BK: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """Return (B,) losses -log(e^(q·k+/τ) / (e^(q·k+/τ) + Σ_k e^(q·k/τ))), the sum over the queue
    without the keys where `same_BK`.

    The denominator holds the positive, as in He et al. (2020, Eq. 1), where Pan et al. (2021) write
    a sum over the queue alone.
    """
    logits = contrast_logits(query_BD, positive_BD, queue_KD, same_BK, temperature)
    return torch.logsumexp(logits, dim=1) - logits[:, 0]


def move_average(
    slow: Sequence[torch.Tensor], fast: Sequence[torch.Tensor], momentum: float
) -> None:
    """Set `slow` to momentum * slow + (1 - momentum) * fast, in place."""
    torch._foreach_lerp_(list(slow), list(fast), 1.0 - momentum)


@dataclass(frozen=True)
class MocoOptions:
    """The names are those of the params of `ppa`; `out` is the width of what is compared."""

    queue_size: int
    momentum: float
    temperature: float
    normalize_z: bool
    queue_start: QueueStart
    out: int = 300


class Moco(nn.Module):
    """All that a momentum contrast changes: the encoder and its head, their slow copies (without
    gradients), and the queue.

    `queue_KD` are keys, `pivots_K` the numbers of the pivot sentences that they belong to, `count`
    how many keys were ever put in: the next one goes to place ``count % K``.
    """

    queue_KD: torch.Tensor
    pivots_K: torch.Tensor
    count: torch.Tensor

    def __init__(self, model: Any, hidden: int, options: MocoOptions, seed: int) -> None:
        super().__init__()
        self.options = options
        self.query = model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = nn.Sequential(
                nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, options.out)
            )
            queue_KD = functional.normalize(torch.randn(options.queue_size, options.out), dim=-1)
        device = next(model.parameters()).device
        self.key = copy.deepcopy(model.base_model).requires_grad_(requires_grad=False)
        self.key_head = copy.deepcopy(self.head).requires_grad_(requires_grad=False)
        self.register_buffer("queue_KD", queue_KD)
        self.register_buffer("pivots_K", torch.full((options.queue_size,), EMPTY))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self._counted: int | None = None
        self.to(device)

    def embed(self, states_BH: torch.Tensor, *, slow: bool = False) -> torch.Tensor:
        """Return the vectors z (B, D) of last-layer first pieces: W2 ReLU(W1 h) of the unit vector
        h (Pan et al. 2021, §3), of unit length on demand.
        """
        head = self.key_head if slow else self.head
        z_BD: torch.Tensor = head(functional.normalize(states_BH, dim=-1))
        return functional.normalize(z_BD, dim=-1) if self.options.normalize_z else z_BD

    def losses(
        self, query_BD: torch.Tensor, positive_BD: torch.Tensor, pivots_B: torch.Tensor
    ) -> torch.Tensor:
        """Return (B,) losses against the queue; keys of the row's own pivot sentence are not
        negatives.
        """
        same_BK = pivots_B[:, None] == self.pivots_K[None, :]
        return info_nce(query_BD, positive_BD, self.queue_KD, same_BK, self.options.temperature)

    def is_ready(self) -> bool:
        """Return whether the queue may be contrasted with."""
        return self.options.queue_start == "random" or self._put() >= self.options.queue_size

    def _put(self) -> int:
        """`count`, which the device is asked for once, at the first step: what a checkpoint had is
        back by then.
        """
        if self._counted is None:
            self._counted = int(self.count)
        return self._counted

    @torch.no_grad()
    def enqueue(self, keys_BD: torch.Tensor, pivots_B: torch.Tensor) -> None:
        """Put keys in for the oldest ones, in their order; of more keys than there are places the
        last ones stay.
        """
        size, before = self.options.queue_size, self._put()
        start, after = before + max(len(keys_BD) - size, 0), before + len(keys_BD)
        places = torch.arange(start, after, device=keys_BD.device) % size
        self.queue_KD[places] = keys_BD[-size:].to(self.queue_KD.dtype)
        self.pivots_K[places] = pivots_B[-size:]
        self.count += len(keys_BD)
        self._counted = after

    @torch.no_grad()
    def follow(self) -> None:
        """The copies go a step towards the encoder and its head."""
        slow = [*self.key.parameters(), *self.key_head.parameters()]
        fast = [*self.query.base_model.parameters(), *self.head.parameters()]
        move_average(slow, fast, self.options.momentum)
