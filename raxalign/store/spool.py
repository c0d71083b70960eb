"""Training curves on their way to the tracking server."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Mapping

import fsspec

FLUSH_SECONDS = 20.0


class Spool:
    """Training curves of one trial, kept in the storage until they are copied to MLflow. Written
    by workers, without mlflow.
    """

    def __init__(self, root: str, trial: str) -> None:
        self._folder = f"{root}/spool/{trial}"
        self._points: list[list[float | str]] = []
        self._flushed = time.monotonic()

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        """Keep some values of a step; written every twenty seconds."""
        now = int(time.time() * 1000)
        self._points += [[name, float(value), step, now] for name, value in metrics.items()]
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is kept as one file of its own (object stores cannot append). Where that fails
        it is kept: curves stop no training.
        """
        self._flushed = time.monotonic()
        if not self._points:
            return
        filesystem, folder = fsspec.url_to_fs(self._folder)
        name = f"{folder}/{time.time_ns()}-{os.getpid()}"
        try:
            filesystem.makedirs(folder, exist_ok=True)
            filesystem.pipe_file(
                f"{name}.part",
                json.dumps({"node": socket.gethostname(), "points": self._points}).encode(),
            )
            filesystem.mv(f"{name}.part", f"{name}.json")
        # a full disk stops the training where its results are written, with a message; object
        # stores raise anything
        except Exception:  # noqa: BLE001
            return
        self._points = []

    def read(self) -> list[tuple[str, float, int, int]]:
        """Return all points (name, value, step, milliseconds), the last of each name and step (a
        repeated stretch of training replaces the first).
        """
        filesystem, folder = fsspec.url_to_fs(self._folder)
        if not filesystem.exists(folder):
            return []
        last: dict[tuple[str, int], tuple[str, float, int, int]] = {}
        for path in sorted(filesystem.glob(f"{folder}/*.json")):
            try:
                points = _points(filesystem.cat_file(path))
            except (ValueError, TypeError, KeyError) as error:
                warnings.warn(
                    f"{path}: damaged training curves are left out ({error})", stacklevel=2
                )
                continue
            last |= {(point[0], point[2]): point for point in points}
        return sorted(last.values(), key=lambda point: (point[0], point[2]))


def _points(data: bytes) -> list[tuple[str, float, int, int]]:
    """Read the points of one file. Raises `ValueError`, `TypeError` or `KeyError` for others."""
    return [
        (str(name), float(value), int(step), int(moment))
        for name, value, step, moment in json.loads(data)["points"]
    ]
