"""Arrays of the host on the device of a training, without waiting for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from raxalign.lazy import np, torch


def on_device(
    array: np.ndarray, device: torch.device | str, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return an array as a tensor on a device, of a `dtype` to which the host converts it (None: as
    it is). On the CPU it shares the memory of the array.

    A plain copy to a GPU waits until the GPU has done all that it was given before. This one is
    from pinned memory and takes its turn in the queue, so that the host goes on at once.
    """
    tensor = torch.from_numpy(array)
    return to_device(tensor if dtype is None else tensor.to(dtype), device)


def to_device(tensor: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return a tensor of the host on a device, likewise without waiting."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


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
