"""The host's side of the next step, made by a thread while the device computes this one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from raxalign.train.devices import current, pinned
from raxalign.train.objective import Objective, Prepared, Step


@dataclass
class HostTime:
    """Seconds that the host spent on preparing the steps after the first one of some trainings,
    and how many of them the training waited for. The first step has none before it.
    """

    made: float = 0.0
    waited: float = 0.0

    @property
    def hidden(self) -> float:
        """The share of the preparation that ran while the device had work; 0 where there was no
        preparation.
        """
        return max(0.0, 1 - self.waited / self.made) if self.made else 0.0


_LISTENER: ContextVar[HostTime | None] = ContextVar("host_time", default=None)


@contextmanager
def timing() -> Iterator[HostTime]:
    """Measure the trainings within the block that prepare ahead."""
    spent = HostTime()
    token = _LISTENER.set(spent)
    try:
        yield spent
    finally:
        _LISTENER.reset(token)


@dataclass(frozen=True)
class _Made:
    """What was prepared (None: the objective cannot), and the seconds that it took."""

    prepared: Prepared | None
    seconds: float


class Ahead:
    """Prepares the steps of one training, each one step ahead where it was asked for.

    The result does not depend on it: what an objective prepares is a function of the step (see
    `HostSided`). An error of the thread is raised where its step is taken, as if it had been
    prepared there.
    """

    def __init__(self, objective: Objective, device: str, *, works: bool) -> None:
        """Make one that has prepared nothing; without `works` it never prepares anything."""
        self._objective, self._device, self._works = objective, device, works
        self._pool: ThreadPoolExecutor | None = None
        self._next: tuple[Step, Future[_Made]] | None = None
        self._is_first = True

    def ask(self, step: Step | None) -> None:
        """Have a step prepared by the thread (None: there is none). What was asked for before and
        not taken is dropped.
        """
        if not self._works or step is None:
            return
        self._drop()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="raxalign-ahead")
        self._next = (step, self._pool.submit(self._make, step))

    def take(self, step: Step) -> Step:
        """Return a step with what was prepared for it, by the thread or else now. Raises what
        preparing it raised.
        """
        if not self._works:
            return step
        began = time.perf_counter()
        if self._next is not None and _same(self._next[0], step):
            future, self._next = self._next[1], None
            made = future.result()
        else:  # the first step, or micro-batches that became smaller
            self._drop()
            made = self._make(step)
        self._count(made.seconds, time.perf_counter() - began)
        return replace(step, prepared=made.prepared)

    def close(self) -> None:
        """End the thread; what it is at is waited for, and its result and error are dropped."""
        self._drop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _make(self, step: Step) -> _Made:
        began = time.perf_counter()
        with current(self._device):
            prepared = self._objective.prepare(step)
            if prepared is not None:
                prepared = replace(prepared, parts=pinned(prepared.parts, self._device))
        return _Made(prepared, time.perf_counter() - began)

    def _drop(self) -> None:
        if self._next is not None:
            self._next[1].cancel()
            self._next = None

    def _count(self, made: float, waited: float) -> None:
        spent, is_first, self._is_first = _LISTENER.get(), self._is_first, False
        if spent is not None and not is_first:
            spent.made += made
            spent.waited += waited


def _same(one: Step, other: Step) -> bool:
    """Whether two steps of a training have the same micro-batches."""
    return (one.number, one.micro) == (other.number, other.micro)
