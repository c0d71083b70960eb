"""Sums over the workers of a training: gradients, the loss, and the weights that all begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.errors import RaxalignError
from raxalign.train.group import add_up, add_up_later, share_tensor, share_value

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

BUCKET = 25 * 2**20
"""The most bytes of gradients that are summed in one call, as in PyTorch's own reducer. A larger
gradient is summed alone.
"""
_ALIGNED = 16  # elements; gradients begin at multiples, so that optimisers read them as vectors


class GradientSum:
    """Sums the gradients of all workers, in place, while the last backward of a step still runs.

    The first step shows the order in which a backward makes gradients. From then on gradients that
    are made one after another share a bucket. The sum of a bucket begins when its gradients are
    complete and the sums of the buckets before it have begun, so that all workers begin them in the
    same order. Gradients that no backward made in the first step are summed at the end of a step
    where some worker has one.

    Memory may run out in a backward after some sums have begun. These have this worker's whole
    share already: they are kept, and what the repeated backward makes for them is dropped.

    PyTorch's `DistributedDataParallel` cannot be used: it waits without an end for a worker that
    has no rows in a step, does not survive a backward that is repeated, and wraps one forward.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], world_size: int) -> None:
        """Make one for the parameters that are trained. With one worker it does nothing."""
        self._parameters, self._alone = parameters, world_size == 1
        self._order: list[int] = []  # the places of parameters, as the first backward makes them
        self._buckets: list[_Bucket] = []
        self._rest: list[_Bucket] = []
        self._bucket_of: dict[int, _Bucket] = {}
        self._made: set[int] = set()  # in this backward
        self._used: set[int] = set()  # in this step, of the buckets that have begun

    @contextmanager
    def backward(self, *, last: bool) -> Iterator[None]:
        """Begin sums while the backward of the block runs, where it is the `last` one of this
        worker in a step.
        """
        if self._alone or not last:
            yield
            return
        self._made.clear()
        hooks = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                partial(self._complete, place)
            )
            for place, parameter in enumerate(self._parameters)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def finish(self, loss: torch.Tensor) -> torch.Tensor:
        """Wait until all gradients of a step are summed; return the sum of the loss.

        A parameter that no worker has a gradient for keeps none, so that an optimiser treats it as
        with one worker.
        """
        if self._alone:
            return loss
        if not self._buckets:
            self._arrange()
        for bucket in self._buckets:
            self._begin(bucket)
        used = [
            place in self._used or parameter.grad is not None
            for place, parameter in enumerate(self._parameters)
        ]
        sums = torch.cat([loss.detach().reshape(1), loss.new_tensor(used, dtype=loss.dtype)])
        add_up(sums)
        # with all gradients here there is nothing to ask the device for
        has = used if all(used) else [count > 0 for count in sums[1:].tolist()]
        begun = [*self._buckets, *(b for b in self._rest if any(has[p] for p in b.places))]
        for bucket in begun:
            self._begin(bucket)
        for bucket in begun:
            bucket.finish(has)
        self._used.clear()
        return sums[0]

    def _complete(self, place: int, parameter: torch.nn.Parameter) -> None:
        """Hear that a backward is done with a parameter."""
        bucket = self._bucket_of.get(place)
        if bucket is None:
            if not self._buckets and parameter.grad is not None:
                self._order.append(place)
            return
        if bucket.begun:
            if place in self._made:
                raise RaxalignError(
                    "a parameter got its gradient in several parts of one backward, which cannot be"
                    " trained with several workers: set run.workers to 1, or let activation"
                    " checkpoints of the model be non-reentrant"
                )
            parameter.grad = None
        self._made.add(place)
        for ready in self._buckets:
            if not ready.begun:
                if not self._made.issuperset(ready.places):
                    break
                self._begin(ready)

    def _begin(self, bucket: _Bucket) -> None:
        if not bucket.begun:
            self._used |= {p for p in bucket.places if self._parameters[p].grad is not None}
            bucket.begin()

    def _arrange(self) -> None:
        """Put the parameters into buckets, by the first worker's order."""
        order: list[int] = share_value(list(dict.fromkeys(self._order)))  # type: ignore[assignment]
        missing = set(range(len(self._parameters))) - set(order)
        self._buckets = self._filled(order)
        self._rest = self._filled(sorted(missing, reverse=True))
        self._bucket_of = {place: bucket for bucket in self._buckets for place in bucket.places}

    def _filled(self, places: Sequence[int]) -> list[_Bucket]:
        buckets: list[_Bucket] = []
        for place in places:
            parameter = self._parameters[place]
            if not buckets or not buckets[-1].takes(parameter):
                buckets.append(_Bucket())
            buckets[-1].add(place, parameter)
        return buckets


class _Bucket:
    """Some gradients that are summed in one call: views of one buffer. One gradient alone is summed
    where it is.
    """

    def __init__(self) -> None:
        self.places: list[int] = []
        self._parameters: list[torch.nn.Parameter] = []
        self._sums: list[torch.Tensor] = []
        self._wait: Callable[[], None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the sum of this step has begun."""
        return self._wait is not None

    def takes(self, parameter: torch.nn.Parameter) -> bool:
        """Return whether there is room for one more."""
        there = [*self._parameters, parameter]
        size = sum(p.numel() * p.element_size() for p in there)
        return size <= BUCKET and parameter.dtype == self._parameters[0].dtype

    def add(self, place: int, parameter: torch.nn.Parameter) -> None:
        """Add a parameter, by its place among all."""
        self.places.append(place)
        self._parameters.append(parameter)

    def begin(self) -> None:
        """Take the gradients from their parameters, zero where there is none, and begin the sum."""
        flat = self._taken()
        for parameter in self._parameters:
            parameter.grad = None
        self._wait = add_up_later(flat)

    def finish(self, has: Sequence[bool]) -> None:
        """Wait for the sum; give it to the parameters that some worker `has` a gradient for."""
        assert self._wait is not None, "begin comes first"
        self._wait()
        for place, parameter, gradient in zip(
            self.places, self._parameters, self._sums, strict=True
        ):
            parameter.grad = gradient if has[place] else None
        self._wait, self._sums = None, []

    def _taken(self) -> torch.Tensor:
        """Return the gradients as one vector, of which `_sums` are views."""
        first = self._parameters[0]
        if len(self._parameters) == 1:
            alone = torch.zeros_like(first) if first.grad is None else first.grad
            self._sums = [alone.contiguous()]
            return self._sums[0].view(-1)
        sizes = [-(-parameter.numel() // _ALIGNED) * _ALIGNED for parameter in self._parameters]
        flat = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
        self._sums = []
        for parameter, part in zip(self._parameters, torch.split(flat, sizes), strict=True):
            view = part[: parameter.numel()].view_as(parameter)
            part[parameter.numel() :].zero_()
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad)
            self._sums.append(view)
        return flat


def share_state(tensors: Iterable[torch.Tensor]) -> None:
    """Give every worker the first one's values, in place."""
    with torch.no_grad():
        for tensor in tensors:
            share_tensor(tensor)
