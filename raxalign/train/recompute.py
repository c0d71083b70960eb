"""Activation checkpointing: the backward pass runs parts again (Chen et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

from raxalign.lazy import torch
from raxalign.train.devices import without_plans

_CACHES = ("past_key_values", "cache")
"""The names by which blocks take keys and values of earlier passes (the second one in XLM)."""

_HALVES = ("self_attention_cache", "cross_attention_cache")
"""What a cache is made of that is made of two."""


@contextmanager
def recomputed(parts: Sequence[torch.nn.Module]) -> Iterator[None]:
    """Keep what enters the parts, and nothing that they compute, for the backward passes of the
    block. A part that runs again draws the same dropout and computes in the same precision.

    Hooks of a part are outside of what runs again, so that what edits or collects its output does
    so once. Where no gradient is computed, nothing changes.
    """
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(_own_forward(part, partial(_kept_inputs, part.forward)))
        yield


@contextmanager
def forward_as(part: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Give a part another forward pass within the block. Where the part runs again in the backward
    pass, it still does, by this forward pass: also where the backward pass comes after the block.
    """
    own = part.__dict__.get("forward")
    again = isinstance(own, partial) and own.func is _kept_inputs
    with _own_forward(part, partial(_kept_inputs, forward) if again else forward):
        yield


@contextmanager
def _own_forward(part: torch.nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
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

    def call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return forward(*args, **{name: _empty(name, value) for name, value in kwargs.items()})

    # named inputs are given by position: the random state of the devices of others is not kept
    return checkpoint(call, args, kwargs, use_reentrant=False, context_fn=_kernels)


def _kernels() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of the forward pass and of what runs again. That comes after the block of
    the forward pass, and other kernels of attention would keep tensors of other shapes.
    """
    plans = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    same = nullcontext() if plans else without_plans()
    return nullcontext(), same


def _empty(name: str, value: Any) -> Any:
    """Return an argument of a part, with an empty cache in place of a cache: the part would put its
    keys and values into the other one twice. Without any it would not copy them, and products of
    another layout may round in another way.
    """
    if name not in _CACHES or value is None:
        return value
    halves = [getattr(value, half) for half in _HALVES if hasattr(value, half)]
    return type(value)(*(type(half)() for half in halves))
