"""How fast this machine is, as far as a plan can say without loading anything."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

GPU = 2e13
"""Operations per second that are assumed of a GPU, which a plan does not start."""
_REFERENCE = 1.2e11  # operations per second of the core that the seconds below were measured on
_RAY_SECONDS, _WORKERS_SECONDS = 6.0, 4.0
_BUSY = 1.5  # times as long, from which on it is worth a remark
_OWN_LOAD = 0.5  # processes: what this command itself has added to the load of a quiet machine
_PER_ADDITION = 4_650  # operations of a matrix product in the time of one addition of Python
_SECONDS = 0.02
_ADDITIONS = 10_000  # between two looks at the clock


@dataclass(frozen=True)
class Speed:
    """Floating-point operations per second: `products` of a worker in the products of models,
    `core` of one core, which reads text and aligns words.
    """

    products: float
    core: float


def has_card() -> bool:
    """Return whether this machine has an NVIDIA card, as far as its files show."""
    return Path("/dev/nvidia0").exists()


def worker_speed(threads: int, *, gpu: bool) -> Speed:
    """Return the speed of a worker with some cores of this machine, or with a GPU."""
    core = core_speed()
    return Speed(GPU if gpu else core * threads, core)


def start_seconds(core: float, *, ray: bool) -> float:
    """Return how long it takes until the first step of a grid begins: the start of its workers, and
    before it that of `ray`.

    Args:
        core: The speed of one core in operations per second.
        ray: Whether Ray is still to be started.
    """
    return (_WORKERS_SECONDS + ray * _RAY_SECONDS) * _REFERENCE / core


@dataclass(frozen=True)
class Crowd:
    """The other work on this machine: the `load` of other processes that use a core, and the
    number of `cores`.
    """

    load: float
    cores: int

    def slows(self, workers: int) -> float:
        """Return how many times as long workers of one core take as on a quiet machine."""
        return max(1.0, (self.load + min(workers, self.cores)) / self.cores)

    def note(self, workers: int) -> str:
        """Return a remark on a machine that is so busy that it counts; nothing for another one."""
        if self.slows(workers) < _BUSY:
            return ""
        return (
            f"other work has a load of {self.load:.1f} on the {self.cores} cores of this machine;"
            " while that lasts, all takes longer"
        )


def crowd() -> Crowd:
    """Look at the load of this machine in the last minute."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Crowd(max(load - _OWN_LOAD, 0.0), os.cpu_count() or 1)


def core_speed() -> float:
    """Return about how many operations per second one core does in products of float32 matrices.

    It is measured by additions of Python in a fiftieth of a second, since a library for products
    takes longer to load. Processor time counts, so that what else runs on the machine does not.
    """
    additions, began = 0, time.thread_time()
    while (used := time.thread_time() - began) < _SECONDS:
        _add()
        additions += _ADDITIONS
    return additions / used * _PER_ADDITION


def _add() -> float:
    total = 0.0
    for number in range(_ADDITIONS):
        total += number * 1.5
    return total
