"""The dev curves of the trials of a search in the storage, by which trials are compared while they
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from raxalign.store.sealed import parse
from raxalign.store.storage import Storage


@dataclass(frozen=True)
class DevPoint:
    """The searched score at one dev selection: the optimiser step, and the seconds that the
    training had taken.
    """

    step: int
    score: float
    seconds: float


@dataclass(frozen=True)
class DevCurve:
    """The points of one trial in the order of their steps, the `steps` of its whole training, and
    whether it was `pruned` at the last point.
    """

    points: tuple[DevPoint, ...]
    steps: int
    pruned: bool = False

    @property
    def scores(self) -> list[float]:
        """The scores alone."""
        return [point.score for point in self.points]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DevCurve:
        """Read what `asdict` made."""
        return cls(
            tuple(DevPoint(**point) for point in data["points"]), data["steps"], data["pruned"]
        )


class DevCurves:
    """The curves of a study: ``<root>/studies/curves/<study>/<trial>.json``. One that cannot be
    read is not there: the training that wrote it writes it again.
    """

    def __init__(self, storage: Storage, study: str) -> None:
        self._files, self._folder = storage.files, f"studies/curves/{study}"

    def read(self, trial: str) -> DevCurve | None:
        """Return the curve of a trial, by its key; None where it has none."""
        return self._read([trial]).get(trial)

    def all(self) -> dict[str, DevCurve]:
        """Return the curves of all trials, by their keys."""
        names = self._files.names(self._folder)
        return self._read([name.removesuffix(".json") for name in names if name.endswith(".json")])

    def write(self, trial: str, curve: DevCurve) -> None:
        """Put a curve in place of the one that may be there."""
        self._files.write(f"{self._folder}/{trial}.json", json.dumps(asdict(curve)).encode())

    def _read(self, trials: list[str]) -> dict[str, DevCurve]:
        paths = {f"{self._folder}/{trial}.json": trial for trial in sorted(trials)}
        found = {}
        for path, data in self._files.read_many(list(paths)).items():
            try:
                found[paths[path]] = DevCurve.from_json(parse(data))
            except (ValueError, KeyError, TypeError):
                continue
        return found
