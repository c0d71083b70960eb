"""The optimiser of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.train._schedule import TrainSettings

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


def adam(parameters: list[torch.nn.Parameter], settings: TrainSettings) -> torch.optim.AdamW:
    """Adam with decoupled weight decay on matrices alone: biases and norms are vectors, and do not
    decay. Without decay it is plain Adam.
    """
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, fused=True
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: CUDA has an exception for it, and the CPU's allocator raises a
    plain RuntimeError.
    """
    return isinstance(
        error, torch.OutOfMemoryError
    ) or "DefaultCPUAllocator: can't allocate memory" in str(error)
