"""Sums over the workers of a training: gradients, the loss, and the weights that all begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import lazy_loader as lazy

from raxalign.train.group import add_up, share_tensor

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def sum_over_workers(parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor) -> torch.Tensor:
    """Sum the gradients (in place) and the loss over all workers in one call; returns the loss.

    A parameter that no worker has a gradient for keeps none, so that an optimiser treats it as with
    one worker.
    """
    flags = loss.new_tensor([float(parameter.grad is not None) for parameter in parameters])
    grads = [
        torch.zeros_like(p).view(-1) if p.grad is None else p.grad.reshape(-1) for p in parameters
    ]
    flat = torch.cat(
        [loss.detach().reshape(1).to(flags), flags, *(grad.to(flags.dtype) for grad in grads)]
    )
    add_up(flat)
    used, place = flat[1 : len(parameters) + 1].tolist(), len(parameters) + 1
    for parameter, flag in zip(parameters, used, strict=True):
        part = flat[place : place + parameter.numel()].view_as(parameter)
        place += parameter.numel()
        parameter.grad = part.to(parameter.dtype).clone() if flag else None
    return flat[0]


def share_state(tensors: Iterable[torch.Tensor]) -> None:
    """Give every worker the first one's values, in place."""
    with torch.no_grad():
        for tensor in tensors:
            share_tensor(tensor)
