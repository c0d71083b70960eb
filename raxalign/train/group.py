"""Messages between the workers of one training; nothing else calls `torch.distributed`. The code
that starts the workers starts the process group.

Every call waits for all workers. Where one of them is gone the others raise `PeerLost`, so that a
worker that fails because another one did can be told from a worker that fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from raxalign import lazy
from raxalign.errors import PeerLost

if TYPE_CHECKING:
    import torch
    import torch.distributed
else:
    torch = lazy.load("torch")

ValueT = TypeVar("ValueT")


def agree(value: bool) -> bool:
    """Return the first worker's value, on every worker."""
    return bool(share_value(value))


def barrier() -> None:
    """Wait until every worker is here."""
    with _together():
        torch.distributed.barrier()


def add_up(tensor: torch.Tensor) -> None:
    """Put the sum over all workers into a tensor, in place."""
    with _together():
        torch.distributed.all_reduce(tensor)


def add_up_later(tensor: torch.Tensor) -> Callable[[], None]:
    """Begin what `add_up` does; return the function that waits until it is done. All workers begin
    their sums in the same order.
    """
    with _together():
        work = torch.distributed.all_reduce(tensor, async_op=True)

    def wait() -> None:
        with _together():
            work.wait()

    return wait


def share_tensor(tensor: torch.Tensor) -> None:
    """Put the first worker's values into a tensor, in place."""
    with _together():
        torch.distributed.broadcast(tensor, src=0)


def share_value(value: object) -> object:
    """Return the first worker's value (plain data), on every worker."""
    values = [value]
    with _together():
        torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def gather_values(value: ValueT, workers: int) -> list[ValueT]:
    """Return the values of all `workers` (plain data, or arrays and tensors on the CPU), by their
    ranks, on every worker.
    """
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
def _together() -> Iterator[None]:
    """Raise `PeerLost` for the errors of gloo and NCCL, which are all plain RuntimeErrors."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PeerLost(f"another worker of this training is gone ({first[:200]})") from error
