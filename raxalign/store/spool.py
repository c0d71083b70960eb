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
    of: tuple[str, ...] = ()  # parts of the trial; earlier versions did not say


class Spool:
    """Training curves of one trial, kept in the storage until they are copied to MLflow. Written
    by workers, without mlflow. Each record names one part of the trial, whose training run it
    shows, or all its parts: grids with other tasks may have a trial of the same key.
    """

    SYSTEM: ClassVar = "system/"
    """How the names of samples of the machine begin, as MLflow has it."""
    GPU_HOURS: ClassVar = "gpu_hours"
    """How the names begin of the hours of GPUs per attempt of a worker."""

    def __init__(self, storage: Storage, trial: str, parts: Mapping[str, str]) -> None:
        """Open the curves of a trial, by its key and its parts (`Trial.parts`)."""
        self._files, self._folder, self._parts = storage.files, f"spool/{trial}", parts
        self._points: dict[tuple[str, ...], list[tuple[str, float, int, int]]] = {}
        self._lock = threading.RLock()  # a checkpoint's thread flushes too
        self._flushed = time.monotonic()

    def report(self, metrics: Mapping[str, float], step: int, part: str = "") -> None:
        """Keep some values of a step, of the training of a part or of the whole run; written every
        twenty seconds.
        """
        now = int(time.time() * 1000)
        with self._lock:
            points = self._points.setdefault((part,) if part else tuple(sorted(self._parts)), [])
            points += [(name, float(value), step, now) for name, value in metrics.items()]
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is kept as files of its own (object stores cannot append). Where that fails it
        is kept: curves stop no training.
        """
        with self._lock:
            self._flushed = time.monotonic()
            for of in [of for of, points in self._points.items() if points]:
                name = f"{self._folder}/{time.time_ns()}-{os.getpid()}.json"
                points = _Points(socket.gethostname(), self._points[of], of)
                # a full disk stops the training where its results are written, with a message
                with suppress(StorageError):
                    self._files.write(name, seal(vars(points)))
                    self._points[of] = []

    def read(self, *, whole: bool = False) -> list[tuple[str, float, int, int]]:
        """Return the points (name, value, step, milliseconds) that are of parts of the trial alone,
        the last of each name and step (a repeated stretch of training replaces the first). The
        names of curves that several training runs have begin with that of the part.

        What earlier versions wrote of a `whole` trial counts where nothing else is there.
        """
        found = self._read()
        own = [one for one in found if one.of and set(one.of) <= self._parts.keys()]
        if whole and not any(one.of for one in found):
            own = found
        trained: dict[str, set[str]] = {}
        for one in (one for one in own if len(one.of) == 1):
            for name, *_ in one.points:
                trained.setdefault(name, set()).update(one.of)
        last: dict[tuple[str, int], tuple[str, float, int, int]] = {}
        for one in own:
            for name, value, step, moment in one.points:
                several = len(one.of) == 1 and len(trained[name]) > 1
                shown = f"{self._parts[one.of[0]]}/{name}" if several else name
                last[shown, step] = (shown, value, step, moment)
        return sorted(last.values(), key=lambda point: (point[0], point[2]))

    def _read(self) -> list[_Points]:
        """What is there, first the oldest."""
        names = [name for name in self._files.names(self._folder) if name.endswith(".json")]
        found = self._files.read_many([f"{self._folder}/{name}" for name in names])
        there = []
        for path, data in sorted(found.items()):
            try:
                there.append(unseal(data, _Points, bare=True))
            except ValueError as error:
                text = f"{self._files.root}/{path}: damaged training curves are left out ({error})"
                warnings.warn(text, stacklevel=3)
        return there
