"""Messages between the workers of one training, and what they compute together; nothing else calls
`torch.distributed`. The code that starts the workers starts the process group.

Every call waits for all workers. Where one of them is gone the others raise `PeerLost`, so that a
worker that fails because another one did can be told from a worker that fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from raxalign.errors import PeerLost
from raxalign.lazy import torch
from raxalign.train.runtime import Runtime

ValueT = TypeVar("ValueT")
PartT = TypeVar("PartT")
FoundT = TypeVar("FoundT")
_WORKERS: ContextVar[tuple[int, int]] = ContextVar("_WORKERS", default=(0, 1))  # rank, number

BUCKET = 25 * 2**20
"""The most bytes of gradients that are summed in one call; a larger gradient is summed alone."""


def barrier() -> None:
    """Wait until every worker is here."""
    with _together():
        torch.distributed.barrier()


def add_up(tensor: torch.Tensor) -> None:
    """Put the sum over all workers into a tensor, in place."""
    with _together():
        torch.distributed.all_reduce(tensor)


def sum_gradients(parameters: Sequence[torch.nn.Parameter], loss: torch.Tensor) -> torch.Tensor:
    """Put the sum over all workers into the gradients of a step; return the sum of the loss.

    A worker without a gradient takes part with zeros. A parameter that no worker has a gradient for
    keeps none, so that an optimiser treats it as with one worker.

    PyTorch's `DistributedDataParallel` cannot be used: it waits without an end for a worker that
    has no rows in a step, does not survive a backward that is repeated, and wraps one forward.
    """
    used = [parameter.grad is not None for parameter in parameters]
    sums = torch.cat([loss.detach().reshape(1), loss.new_tensor(used, dtype=loss.dtype)])
    add_up(sums)
    # with all gradients here there is nothing to ask the device for
    has = used if all(used) else [count > 0 for count in sums[1:].tolist()]
    for bucket in _buckets(p for p, known in zip(parameters, has, strict=True) if known):
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([p.reshape(-1) for p in parts]) if len(parts) > 1 else parts[0].reshape(-1)
        del parts
        sizes = [parameter.numel() for parameter in bucket]
        for parameter in bucket:
            parameter.grad = None
        add_up(flat)
        for parameter, part in zip(bucket, torch.split(flat, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
    return sums[0]


def _buckets(parameters: Iterable[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Group adjacent parameters of one type whose gradients have at most `BUCKET` bytes in all."""
    bucket: list[torch.nn.Parameter] = []
    for parameter in parameters:
        size = sum(p.numel() * p.element_size() for p in [*bucket, parameter])
        if bucket and (size > BUCKET or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket


def share_state(tensors: Iterable[torch.Tensor]) -> None:
    """Give every worker the first one's values, in place."""
    with torch.no_grad(), _together():
        for tensor in tensors:
            torch.distributed.broadcast(tensor, src=0)


def share_value(value: object) -> object:
    """Return the first worker's value (plain data), on every worker."""
    values = [value]
    with _together():
        torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def gather_values(value: ValueT, workers: int) -> list[ValueT]:
    """Return the values of all `workers` (plain data, arrays on the CPU), by their ranks."""
    values: list[Any] = [None] * workers
    with _together():
        torch.distributed.all_gather_object(values, value)
    return values


def lost_peer(error: BaseException) -> PeerLost | None:
    """Return the `PeerLost` that an error is, or that came before it: what code does after losing a
    peer says nothing about that code.
    """
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, PeerLost):
        seen = seen.__cause__ or seen.__context__
    return seen


@contextmanager
def sharing(runtime: Runtime) -> Iterator[None]:
    """Divide what `shared` computes within the block among the workers of a training. All of them
    enter it, and call `shared` with the same parts in the same order.
    """
    token = _WORKERS.set((runtime.rank, runtime.world_size))
    try:
        yield
    finally:
        _WORKERS.reset(token)


def shared(
    parts: Iterable[PartT], compute: Callable[[PartT], FoundT]
) -> Iterator[tuple[PartT, FoundT]]:
    """Yield each part with what is computed from it, in the order of the parts.

    Outside of `sharing` this worker computes all of them. Within it, every n-th part is its own,
    and the others come from their workers: so values are the same with any number of workers, bit
    for bit, and nobody waits for the first worker alone. What is computed is plain data, or arrays
    and tensors on the CPU. Raises `PeerLost` where another worker is gone.
    """
    rank, workers = _WORKERS.get()
    if workers == 1:
        yield from ((part, compute(part)) for part in parts)
        return
    parts = list(parts)
    found = gather_values([compute(part) for part in parts[rank::workers]], workers)
    for number, part in enumerate(parts):
        yield part, found[number % workers][number // workers]


@contextmanager
def _together() -> Iterator[None]:
    """Raise `PeerLost` for the errors of gloo and NCCL, which are all plain RuntimeErrors."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PeerLost(f"another worker of this training run is gone ({first[:200]})") from error
