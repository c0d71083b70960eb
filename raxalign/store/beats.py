"""Signs of life that a process gives while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from raxalign.errors import StorageError


@contextmanager
def beating(beat: Callable[[], object], *, every: float, name: str) -> Iterator[None]:
    """Give signs of life in a thread until the block ends. One that fails is left out: the storage
    may be back before others count the process as dead.

    Args:
        beat: Gives one sign of life.
        every: The seconds before each.
        name: The name of the thread.
    """
    over = threading.Event()

    def work() -> None:
        while not over.wait(every):
            with suppress(StorageError, OSError):
                beat()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
