"""Activation checkpointing: of some parts of a module only their inputs are kept for the backward
pass, which runs them again (Chen et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = lazy.load("torch")

_CACHES = ("past_key_values", "cache")
"""The names by which blocks take keys and values of earlier passes (the second one in XLM)."""


@contextmanager
def recomputed(parts: Sequence[nn.Module]) -> Iterator[None]:
    """Keep what enters the parts, and nothing that they compute, for the backward passes of the
    block. A part that runs again draws the same dropout and computes in the same precision.

    Hooks of a part are outside of what runs again, so that what edits or collects its output does
    so once. Where no gradient is computed, nothing changes.
    """
    own = [part.__dict__.get("forward") for part in parts]
    for part in parts:
        part.forward = partial(_kept_inputs, part.forward)
    try:
        yield
    finally:
        for part, forward in zip(parts, own, strict=True):
            if forward is None:
                del part.forward
            else:
                part.forward = forward


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
