"""How far shared stages are: notes that workers leave in Ray's scratch folder for the driver."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import fsspec

EVERY = 2.0  # seconds between two notes of a worker, and between two looks of the driver


@dataclass(frozen=True)
class Advance:
    """How far a stage is: seconds since it began, and the last step of its training with the values
    of that step (0 and none where it has not reported any).
    """

    seconds: float
    step: int = 0
    values: Mapping[str, float] = field(default_factory=dict)


class Note:
    """The note of one stage, written by the worker that makes it. Where it cannot be written, the
    stage goes on without.
    """

    def __init__(self, scratch: str, key: str) -> None:
        self._place = f"{scratch}/stages/{key}.json" if scratch else ""
        self._begun, self._written = time.monotonic(), float("-inf")
        self._write(Advance(0.0))

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        """Note the values of a step; most calls write nothing."""
        now = time.monotonic()
        if now - self._written >= EVERY:
            self._write(Advance(now - self._begun, step, dict(metrics)))

    def _write(self, advance: Advance) -> None:
        if not self._place:
            return
        self._written = time.monotonic()
        # object stores raise anything, and a note stops no stage
        with suppress(Exception):
            filesystem, path = fsspec.url_to_fs(self._place)
            filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            filesystem.pipe_file(f"{path}.part", json.dumps(asdict(advance)).encode())
            filesystem.mv(f"{path}.part", path)


class Notes:
    """The notes of all stages, read by the driver."""

    def __init__(self, scratch: str) -> None:
        self._folder = f"{scratch}/stages" if scratch else ""
        self._seen: dict[str, float] = {}

    def read(self, keys: Iterable[str]) -> dict[str, Advance]:
        """Return how far each of these stages is that has begun, by key; seconds go on between two
        notes.
        """
        if not self._folder:
            return {}
        found: dict[str, Advance] = {}
        for key in keys:
            # a stage that nothing is known of is made all the same
            with suppress(Exception):
                filesystem, path = fsspec.url_to_fs(f"{self._folder}/{key}.json")
                advance = Advance(**json.loads(filesystem.cat_file(path)))
                begun = self._seen.setdefault(key, time.monotonic() - advance.seconds)
                found[key] = Advance(time.monotonic() - begun, advance.step, advance.values)
        return found
