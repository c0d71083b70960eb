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
        """The share of the preparation that ran while the device had work (0: there was none)."""
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


class Ahead:
    """Prepares the steps of one training, each one step ahead where it was asked for.

    The result does not depend on it: what an objective prepares is a function of the step (see
    `HostSided`). An error of the thread is raised where its step is taken, as if it had been
    prepared there.
    """

    def __init__(self, objective: Objective, device: str, *, works: bool) -> None:
        """Make one that has prepared nothing; without `works` it never prepares anything."""
        self._objective, self._device, self._works = objective, device, works
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="raxalign-ahead")
        self._next: tuple[tuple[int, int], Future[tuple[Prepared | None, float]]] | None = None
        self._is_first = True

    def ask(self, step: Step | None) -> None:
        """Have a step prepared by the thread (None: there is none)."""
        if self._works and step is not None:
            self._drop()
            self._next = ((step.number, step.micro), self._thread.submit(self._make, step))

    def take(self, step: Step) -> Step:
        """Return a step with what was prepared for it; raises what preparing it raised."""
        if not self._works:
            return step
        began = time.perf_counter()
        if self._next is not None and self._next[0] == (step.number, step.micro):
            future, self._next = self._next[1], None
            prepared, seconds = future.result()
        else:  # the first step, or micro-batches that became smaller
            self._drop()
            prepared, seconds = self._make(step)
        spent, is_first, self._is_first = _LISTENER.get(), self._is_first, False
        if spent is not None and not is_first:
            spent.made += seconds
            spent.waited += time.perf_counter() - began
        return replace(step, prepared=prepared)

    def close(self) -> None:
        """End the thread; what it is at is waited for, and its result and error are dropped."""
        self._drop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _make(self, step: Step) -> tuple[Prepared | None, float]:
        """What is prepared (None: the objective cannot), and the seconds that it takes."""
        began = time.perf_counter()
        with current(self._device):
            prepared = self._objective.prepare(step)
            if prepared is not None:
                prepared = replace(prepared, parts=pinned(prepared.parts, self._device))
        return prepared, time.perf_counter() - began

    def _drop(self) -> None:
        if self._next is not None:
            self._next[1].cancel()
            self._next = None
