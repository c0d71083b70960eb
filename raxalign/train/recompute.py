"""Activation checkpointing: of some parts of a module only their inputs are kept for the backward
pass, which runs them again (Chen et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = lazy.load("torch")

_CACHES = ("past_key_values", "cache")
"""The names by which blocks take keys and values of earlier passes (the second one in XLM)."""


class _Again:
    """The forward pass of a part that runs again in the backward pass."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _kept_inputs(self.forward, *args, **kwargs)


@contextmanager
def recomputed(parts: Sequence[nn.Module]) -> Iterator[None]:
    """Keep what enters the parts, and nothing that they compute, for the backward passes of the
    block. A part that runs again draws the same dropout and computes in the same precision.

    Hooks of a part are outside of what runs again, so that what edits or collects its output does
    so once. Where no gradient is computed, nothing changes.
    """
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(_own_forward(part, _Again(part.forward)))
        yield


@contextmanager
def forward_as(part: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Give a part another forward pass within the block. Where the part runs again in the backward
    pass, it still does, by this forward pass: also where the backward pass comes after the block.
    """
    own = part.__dict__.get("forward")
    with _own_forward(part, _Again(forward) if isinstance(own, _Again) else forward):
        yield


@contextmanager
def _own_forward(part: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    before = part.__dict__.get("forward")
    part.forward = forward
    try:
        yield
    finally:
        if before is None:
            del part.forward
        else:
            part.forward = before


def _kept_inputs(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    # a block would put its keys and values into the cache a second time
    kwargs = {name: None if name in _CACHES else value for name, value in kwargs.items()}
    # named inputs are given by position: the random state of the devices of others is not kept
    return checkpoint(_call, forward, args, kwargs, use_reentrant=False)


def _call(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return forward(*args, **kwargs)
