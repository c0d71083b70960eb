"""The device of a training: arrays of the host on it, its memory, the compiler that torch.compile
needs (`run.compile`), and the arithmetic of an encoder's products (`run.precision`).

Trained weights, gradients and the optimiser's moments are float32 in every case, and so is what is
computed from the states of an encoder: losses, statistics, similarities. Only what is inside the
encoder differs (see `Precision`, and `BasePrecision` for weights that nothing trains).
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, is_dataclass
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
    if _RECORDS.get(False):
        raise _CannotRecordError("an array of the host is read that is not in its part of the step")
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    tensor = tensor if dtype is None else tensor.to(dtype)
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class _CannotRecordError(Exception):
    """A computation would not be the same for other parts of its form."""


_COPIED: ContextVar[Mapping[int, torch.Tensor]] = ContextVar("_COPIED")
"""What `copied_at_once` has copied, by the identity of the array of the host."""


@contextmanager
def copied_at_once(part: Any, device: torch.device | str) -> Iterator[None]:
    """Copy all arrays of a part (an array, or a tuple or dataclass of parts) to a GPU at once, and
    let `on_device` return these copies within the block. On the CPU nothing is copied.
    """
    arrays, copies = [*_arrays(part)], _COPIED.get({})
    if not all(id(array) in copies for array in arrays):
        plain = torch.device(device).type == "cpu"
        copies = {} if plain else _views(arrays, on_device(_end_to_end(arrays), device))
    token = _COPIED.set(copies)
    try:
        yield
    finally:
        _COPIED.reset(token)


_ALIGNED = 64  # bytes: any kernel can read what begins there


def _starts(arrays: Sequence[np.ndarray]) -> list[int]:
    """Where each array begins among the bytes of all, and where they end."""
    sizes = [-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays]
    return [int(start) for start in offsets_of(sizes)]


def _end_to_end(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The bytes of all arrays."""
    *starts, size = _starts(arrays)
    laid_out = np.zeros(size, np.uint8)
    for start, array in zip(starts, arrays, strict=True):
        whole_array = np.ascontiguousarray(array).reshape(-1)
        laid_out[start : start + array.nbytes] = whole_array.view(np.uint8)
    return laid_out


def _views(arrays: Sequence[np.ndarray], whole: torch.Tensor) -> Mapping[int, torch.Tensor]:
    """Return tensors by the identity of the arrays whose bytes `whole` has."""
    copies = {}
    for start, array in zip(_starts(arrays), arrays, strict=False):
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        own = whole[start : start + array.nbytes].view(dtype)
        copies[id(array)] = own.view(array.shape)
    return copies


def _arrays(part: Any) -> Iterator[np.ndarray]:
    if isinstance(part, np.ndarray) and part.dtype.kind in "bif":
        yield part
    elif isinstance(part, tuple) or is_dataclass(part):
        for inner in part if isinstance(part, tuple) else vars(part).values():
            yield from _arrays(inner)


_RECORDS: ContextVar[bool] = ContextVar("_RECORDS")
"""Whether what runs now is recorded, or done as it was recorded."""


@dataclass
class Recorded:
    """What a device does for parts of one form, and where its result `made` is found. Values of the
    host are those of the `part` it was recorded for; `whole` are the bytes of the arrays.
    """

    part: Any
    whole: torch.Tensor
    compute: Callable[[], torch.Tensor]
    made: torch.Tensor = field(init=False)
    graph: torch.cuda.CUDAGraph | None = None
    tokens: int = 0
    """The subword tokens that it reads, where the caller counts them."""

    def run(self) -> None:
        """Compute, or have a GPU record it, on the arrays that `whole` has."""
        copies = _views([*_arrays(self.part)], self.whole)
        before = _COPIED.set(copies), _RECORDS.set(True)
        try:
            self.made = self.compute()
        finally:
            _COPIED.reset(before[0])
            _RECORDS.reset(before[1])


class Recordings:
    """Computations of a device that read parts, each recorded once for every form that a part has,
    and from then on started at once: on a GPU as a CUDA graph, one launch in place of a thousand.
    Parts have one form where only the values of their arrays differ.

    A CPU does again what was recorded, with the same values of the host and the same arrays in
    place: it shows which of them a graph would keep from the first part, but not what reads a value
    back from the device, which a GPU cannot record. `refused` says that recording has failed.
    """

    def __init__(self, device: torch.device | str) -> None:
        """Make one that has recorded nothing."""
        self._device, self._known = torch.device(device), dict[Hashable, Recorded | None]()
        self.graphs, self.refused = self._device.type == "cuda", False
        self._pool: Any = None

    def run(self, part: Any, compute: Callable[[], torch.Tensor]) -> Recorded | None:
        """Return what was computed for a part, whose arrays `compute` reads by `on_device`; None,
        and nothing is computed, at the first part of a form, since what is made once is made then,
        and where it cannot be recorded, of which one warning tells.

        `compute` returns one tensor, which the next part of the form overwrites. Errors of the
        device are raised as they are.
        """
        form, arrays = _form(part), [*_arrays(part)]
        if self.refused:
            return None
        if form not in self._known:
            self._known[form] = None
            return None
        given, known = torch.from_numpy(_end_to_end(arrays)), self._known[form]
        if known is None:
            known = self._recorded(part, on_device(given, self._device), compute)
            self._known[form] = known
        else:
            given = given.pin_memory() if self._device.type == "cuda" else given
            known.whole.copy_(given, non_blocking=True)
            if known.graph is None:
                known.run()
        if known is not None and known.graph is not None:
            known.graph.replay()
        return known

    def _recorded(
        self, part: Any, whole: torch.Tensor, compute: Callable[[], torch.Tensor]
    ) -> Recorded | None:
        """Record a computation, which a GPU does not do yet and a CPU does; None where it cannot be
        recorded. Other threads may use the device meanwhile.
        """
        known = Recorded(part, whole, compute)
        try:
            if not self.graphs:
                known.run()
                return known
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            known.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
            taken = torch.cuda.graph(known.graph, self._pool, capture_error_mode="thread_local")
            with torch.cuda.stream(stream), taken:  # the stream is left where recording fails
                known.run()
        except _CannotRecordError as error:
            self.refused = True
            told = "steps are taken operation by operation, since they cannot be recorded"
            warnings.warn(f"{told}: {error}", stacklevel=2)
            return None
        return known


def _form(part: Any) -> Hashable:
    """What parts have in common that one recording serves."""
    if isinstance(part, np.ndarray):
        return part.dtype.str, part.shape
    if isinstance(part, tuple) or is_dataclass(part):
        inner = part if isinstance(part, tuple) else vars(part).values()
        return type(part), *map(_form, inner)
    return part  # type: ignore[no-any-return]


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


def _has_fast_products() -> bool:
    """Return whether this machine has a GPU that computes in TensorFloat-32 and bfloat16."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= _AMPERE


def computes(precision: Precision, device: torch.device | str) -> bool:
    """Return whether a device can compute in a precision."""
    return precision != "tf32" or (torch.device(device).type == "cuda" and _has_fast_products())


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
    if base == "bf16" and torch.device(device).type == "cuda" and not _has_fast_products():
        major, minor = torch.cuda.get_device_capability()
        raise ResourceError(
            "run.base_precision: bf16 requires a GPU of compute capability 8.0 or higher, which"
            f" computes in bfloat16, and that of this worker has {major}.{minor}: write fp32, or"
            " give each worker another GPU"
        )
