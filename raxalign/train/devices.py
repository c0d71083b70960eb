"""Arrays of the host on the device of a training, without waiting for the device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar, cast

from raxalign.lazy import np, torch

T = TypeVar("T")


def on_device(
    array: np.ndarray, device: torch.device | str, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return an array as a tensor on a device, of a `dtype` to which the host converts it (None: as
    it is). On the CPU it shares the memory of the array.

    A plain copy to a GPU waits until the GPU has done all that it was given before. This one is
    from pinned memory and takes its turn in the queue, so that the host goes on at once. What
    `pinned` returned is not pinned again.
    """
    tensor = _tensor_of(array, device)
    return to_device(tensor if dtype is None else tensor.to(dtype), device)


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return a tensor of the host on a device, likewise without waiting."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def pinned(value: T, device: torch.device | str) -> T:
    """Return the same value for a device, with the arrays in it in pinned memory where that is a
    GPU. It may be an array, or lists, tuples, mappings and dataclasses that hold some. Other
    values in them are kept.
    """
    return cast("T", _pinned(value)) if torch.device(device).type == "cuda" else value


def current(device: torch.device | str) -> AbstractContextManager[object]:
    """A block in which a thread's memory is pinned for a device, not for the first one."""
    chosen = torch.device(device)
    return torch.cuda.device(chosen) if chosen.type == "cuda" else nullcontext()


def _pinned(value: object) -> object:
    if isinstance(value, np.ndarray):
        if not value.size or value.dtype.kind not in "biuf":
            return value
        return torch.from_numpy(np.ascontiguousarray(value)).pin_memory().numpy()
    if isinstance(value, Mapping):
        return {key: _pinned(held) for key, held in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(_pinned, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{n: _pinned(getattr(value, n)) for n in names})
    return value


def _tensor_of(array: np.ndarray, device: torch.device | str) -> torch.Tensor:
    """PyTorch uses pinned memory again as soon as nobody holds it and the copies from it are done.
    It knows of a copy only by the tensor that the memory belongs to, so that this very tensor is
    what is copied, and a part of pinned memory is copied on the host first.
    """
    held: object = array.base
    whole = isinstance(held, torch.Tensor) and tuple(held.shape) == array.shape
    if isinstance(held, torch.Tensor) and whole and held.data_ptr() == array.ctypes.data:
        return held
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda" and tensor.is_pinned():
        return tensor.clone()
    return tensor


@dataclass
class Peak:
    """The most memory of a card that something took; 0 on the CPU, and before it has ended."""

    bytes: int = 0


@contextmanager
def peak_memory(device: str) -> Iterator[Peak]:
    """Measure the memory of a card that torch holds at most within the block."""
    peak = Peak()
    if not device.startswith("cuda"):
        yield peak
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield peak
    peak.bytes = torch.cuda.max_memory_reserved()
