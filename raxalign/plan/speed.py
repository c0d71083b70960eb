"""How fast this machine multiplies matrices: measured once, in less than a tenth of a second, and
remembered.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GPU = 2e13
"""Operations per second that are assumed of a GPU, which a plan does not start."""
_SIZE = 96  # of the matrices: libraries multiply larger ones in several threads
_SECONDS = 0.05


@dataclass(frozen=True)
class Speed:
    """Floating-point operations per second: `products` of a worker in the products of models,
    `core` of one core, which reads text and aligns words.
    """

    products: float
    core: float


def worker_speed(threads: int, *, gpu: bool) -> Speed:
    """Return the speed of a worker with some cores of this machine, or with a GPU."""
    core = core_speed()
    return Speed(GPU if gpu else core * threads, core)


def core_speed(remembered: Path | None = None) -> float:
    """Return floating-point operations per second of one core in float32 products.

    Processor time counts, so that what else runs on the machine does not.

    Args:
        remembered: The file that keeps the speed (None: one in the user's cache).
    """
    cache = os.environ.get("RAXALIGN_CACHE") or "~/.cache/raxalign"
    file = remembered or Path(cache).expanduser() / "speed.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = float(json.loads(file.read_text(encoding="utf-8"))["operations"])
        if known > 0:
            return known
    speed = _measure()
    with suppress(OSError):  # it is measured again where it cannot be kept
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"operations": speed}), encoding="utf-8")
    return speed


def _measure() -> float:
    import numpy as np

    matrix = np.random.default_rng(0).random((_SIZE, _SIZE), dtype=np.float32)
    product = matrix @ matrix
    products, began, used = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() - began < _SECONDS:
        np.matmul(matrix, matrix, out=product)
        products += 1
    # the clock may be coarse
    return products * 2 * _SIZE**3 / max(time.thread_time() - used, 1e-3)
