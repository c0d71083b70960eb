"""A thread that leaves references to Ray's objects as garbage while the process leaves Ray: with
`ray.shutdown()` in place of `disconnect()`, about every second run of this program ends early.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import ray

from raxalign.store.storage import Storage
from raxalign.sweep.cluster import connect, disconnect
from raxalign.sweep.job import Job

REFERENCES = 20_000  # so many that a collection of them takes as long as Ray's end


class Circle:
    """What only a collection frees, since it refers to itself."""

    def __init__(self, reference: Any) -> None:
        self.itself, self.reference = self, reference


def main() -> None:
    """Leave Ray beside such a thread, and print that the process went on."""
    connect(None, Job(Storage(""), "", threads=1))
    gc.set_threshold(10**9)
    circles = [Circle(ray.put(number)) for number in range(REFERENCES)]
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        begun.wait()
        while not over.is_set():
            del circles[-20:]
            [[[]] for _ in range(100)]  # Python collects as it allocates

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    begun.set()
    gc.set_threshold(50)
    disconnect()
    over.set()
    thread.join()
    sys.stdout.write("went on\n")


if __name__ == "__main__":
    main()
