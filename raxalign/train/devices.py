"""The device of a training: arrays of the host on it, its memory, the compiler that torch.compile
needs (`run.compile`), and the arithmetic of an encoder's products (`run.precision`).

Trained weights, gradients and the optimiser's moments are float32 in every case, and so is what is
computed from the states of an encoder: losses, statistics, similarities. Only what is inside the
encoder differs (see `Precision`, and `BasePrecision` for weights that nothing trains).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from raxalign.arrays import offsets_of
from raxalign.errors import DependencyError, ResourceError
from raxalign.lazy import np, torch
from raxalign.options.run import BasePrecision, Precision

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


def on_device(
    values: np.ndarray | torch.Tensor,
    device: torch.device | str,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return an array, or a tensor of the host, as a tensor on a device, of a `dtype` to which the
    host converts it (None: as it is). On the CPU it shares the memory of the array.

    A plain copy to a GPU waits until the GPU has done all that it was given before. This one is
    from pinned memory and takes its turn in the queue, so that the host goes on at once.
    """
    if (copied := _COPIED.get({}).get(id(values))) is not None:
        return copied if dtype is None else copied.to(dtype)
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    tensor = tensor if dtype is None else tensor.to(dtype)
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


_COPIED: ContextVar[Mapping[int, torch.Tensor]] = ContextVar("_COPIED")
"""What `copied_at_once` has copied, by the identity of the array of the host."""


@contextmanager
def copied_at_once(part: Any, device: torch.device | str) -> Iterator[None]:
    """Copy all arrays of a part (an array, or a tuple or dataclass of parts) to a GPU at once, and
    let `on_device` return these copies within the block. On the CPU nothing is copied.
    """
    copies = {} if torch.device(device).type == "cpu" else _copies([*_arrays(part)], device)
    token = _COPIED.set(copies)
    try:
        yield
    finally:
        _COPIED.reset(token)


def _copies(arrays: Sequence[np.ndarray], device: torch.device | str) -> Mapping[int, torch.Tensor]:
    """Return tensors on a device by the identity of their arrays, by one copy of all bytes."""
    *starts, size = offsets_of([-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays])
    laid_out = np.empty(size, np.uint8)
    for start, array in zip(starts, arrays, strict=True):
        whole_array = np.ascontiguousarray(array).reshape(-1)
        laid_out[start : start + array.nbytes] = whole_array.view(np.uint8)
    whole, copies = on_device(laid_out, device), {}
    for start, array in zip(starts, arrays, strict=True):
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        own = whole[start : start + array.nbytes].view(dtype)
        copies[id(array)] = own.view(array.shape)
    return copies


_ALIGNED = 64  # bytes: any kernel can read what begins there


def _arrays(part: Any) -> Iterator[np.ndarray]:
    if isinstance(part, np.ndarray) and part.dtype.kind in "bif":
        yield part
    elif isinstance(part, tuple) or is_dataclass(part):
        for inner in part if isinstance(part, tuple) else vars(part).values():
            yield from _arrays(inner)


@dataclass
class Peak:
    """The most memory of a GPU that something took; 0 on the CPU, and before it has ended."""

    bytes: int = 0


@contextmanager
def peak_memory(device: str) -> Iterator[Peak]:
    """Measure the memory of a GPU that torch holds at most within the block."""
    peak = Peak()
    if not device.startswith("cuda"):
        yield peak
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield peak
    peak.bytes = torch.cuda.max_memory_reserved()


_REMEDY = "install it on every machine, or leave run.compile at false"


def check_compiler(device: str) -> None:
    """Raise `DependencyError` where torch.compile has no compiler for a torch device."""
    if device.startswith("cuda") and find_spec("triton") is None:
        raise DependencyError(f"run.compile requires the package triton on a GPU: {_REMEDY}")
    name = os.environ.get("CXX") or "g++"
    if shutil.which(name) is None:
        raise DependencyError(f"run.compile requires a C++ compiler ({name}): {_REMEDY}")


_AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16


@contextmanager
def arithmetic(precision: Precision, device: torch.device | str) -> Iterator[None]:
    """Compute products in a precision within the block: those of `bf16` are rounded to bfloat16 by
    autocast, those of `tf32` to TensorFloat-32. A backward pass repeats what the forward pass did
    in `bf16`; for `tf32` it must be within such a block too.
    """
    if precision == "bf16":
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16), without_plans():
            yield
    elif precision == "tf32":
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    else:
        yield


@contextmanager
def without_plans() -> Iterator[None]:
    """Keep attention from cuDNN within the block. It plans anew, on the host, for each new shape,
    and the shapes of batches of text hardly ever come twice: a step of fine-tuning under a mask
    took 148 ms on an H100, of which the GPU computed 12.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def has_fast_products() -> bool:
    """Return whether this machine has a GPU that computes in TensorFloat-32 and bfloat16."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= _AMPERE


def computes(precision: Precision, device: torch.device | str) -> bool:
    """Return whether a device can compute in a precision."""
    return precision != "tf32" or (torch.device(device).type == "cuda" and has_fast_products())


def check_device(
    device: torch.device | str, precision: Precision = "fp32", base: BasePrecision = "fp32"
) -> None:
    """Raise `ResourceError` where a device cannot compute in a precision, or not with weights that
    are held in the one of `base`.
    """
    if not computes(precision, device):
        raise ResourceError(
            "run.precision: tf32 requires an NVIDIA GPU of compute capability 8.0 or higher, and"
            " this worker has none: write fp32 or bf16, or give each worker a GPU"
            " (run.gpus_per_worker)"
        )
    if base == "bf16" and torch.device(device).type == "cuda" and not has_fast_products():
        major, minor = torch.cuda.get_device_capability()
        raise ResourceError(
            "run.base_precision: bf16 requires a GPU of compute capability 8.0 or higher, which"
            f" computes in bfloat16, and that of this worker has {major}.{minor}: write fp32, or"
            " give each worker another GPU"
        )
