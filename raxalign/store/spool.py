"""Training curves on their way to the tracking server."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, ClassVar

from pydantic import AllowInfNan

from raxalign.errors import StorageError
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage

FLUSH_SECONDS = 20.0


@recorded
class _Points:
    node: str
    points: list[tuple[str, Annotated[float, AllowInfNan()], int, int]]  # as `Spool.read` has them


class Spool:
    """Training curves of one trial, kept in the storage until they are copied to MLflow. Written
    by workers, without mlflow.
    """

    SYSTEM: ClassVar = "system/"
    """How the names of samples of the machine begin, as MLflow has it."""
    GPU_HOURS: ClassVar = "gpu_hours"
    """How the names begin of the hours of GPUs per attempt of a worker."""

    def __init__(self, storage: Storage, trial: str) -> None:
        self._files, self._folder = storage.files, f"spool/{trial}"
        self._points: list[tuple[str, float, int, int]] = []
        self._lock = threading.RLock()  # a checkpoint's thread flushes too
        self._flushed = time.monotonic()

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        """Keep some values of a step; written every twenty seconds."""
        now = int(time.time() * 1000)
        with self._lock:
            self._points += [(name, float(value), step, now) for name, value in metrics.items()]
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is kept as one file of its own (object stores cannot append). Where that fails
        it is kept: curves stop no training.
        """
        with self._lock:
            self._flushed = time.monotonic()
            if not self._points:
                return
            name = f"{self._folder}/{time.time_ns()}-{os.getpid()}.json"
            points = _Points(socket.gethostname(), self._points)
            # a full disk stops the training where its results are written, with a message
            with suppress(StorageError):
                self._files.write(name, seal(vars(points)))
                self._points = []

    def read(self) -> list[tuple[str, float, int, int]]:
        """Return all points (name, value, step, milliseconds), the last of each name and step (a
        repeated stretch of training replaces the first).
        """
        names = [name for name in self._files.names(self._folder) if name.endswith(".json")]
        found = self._files.read_many([f"{self._folder}/{name}" for name in names])
        last: dict[tuple[str, int], tuple[str, float, int, int]] = {}
        for path, data in sorted(found.items()):
            try:
                points = unseal(data, _Points, bare=True).points
            except ValueError as error:
                text = f"{self._files.root}/{path}: damaged training curves are left out ({error})"
                warnings.warn(text, stacklevel=2)
                continue
            last |= {(point[0], point[2]): point for point in points}
        return sorted(last.values(), key=lambda point: (point[0], point[2]))
