"""How fast this machine is, as far as a plan can say without loading anything."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

GPU = 2e13
"""Operations per second that are assumed of a GPU, which a plan does not start."""
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
