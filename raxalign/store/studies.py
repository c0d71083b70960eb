"""Searches in a storage: one record per study, from which everything but the search itself reads
what was suggested so far; and the dev curves of its trials, by which they are compared while they
run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field

from raxalign.errors import StorageError
from raxalign.store._filesystem import Files
from raxalign.store.sealed import recorded, seal, unseal

T = TypeVar("T")
FOLDER = "studies"
SIGNS = f"{FOLDER}/drivers"
"""Where drivers of searches leave signs of life, one file per driver."""
_NAME = re.compile(r"[^/\s][^/]*")


def read_studies(files: Files, readers: Mapping[str, Callable[[bytes], T]]) -> dict[str, T]:
    """Return the records (``<root>/studies/<name>.json``) of those studies that have begun, by
    their names, for which there are functions that read them. Raises `StorageError` that names a
    record for which that raises a `ValueError`.
    """
    paths = {_path(name): name for name in readers}
    found = {}
    for path, data in files.read_many(list(paths)).items():
        try:
            found[paths[path]] = readers[paths[path]](data)
        except ValueError as error:
            raise StorageError(
                f"{files.place(path)}: is not a record of a study ({error}); delete it:"
                " `raxalign grid` writes it again"
            ) from error
    return found


def write_study(files: Files, name: str, record: Any) -> None:
    """Put the record of a study, a dataclass, in place of the one that may be there."""
    files.write(_path(name), seal(asdict(record)))


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a study")
    return f"{FOLDER}/{name}.json"


@dataclass(frozen=True)
class DevPoint:
    """The searched score at one dev selection: the optimiser step, and the seconds that the
    training had taken.
    """

    step: Annotated[int, Field(ge=1)]
    score: float
    seconds: float


@recorded
class DevCurve:
    """The points of one trial in the order of their steps, the `steps` of its whole training, and
    whether it was `pruned` at the last point.
    """

    points: Annotated[tuple[DevPoint, ...], Field(min_length=1)]
    steps: int  # of its whole training
    pruned: bool = False  # at the last point

    @property
    def scores(self) -> list[float]:
        """The scores alone."""
        return [point.score for point in self.points]


class DevCurves:
    """The curves of a study: ``<root>/studies/curves/<study>/<trial>.json``. One that cannot be
    read is not there: the training that wrote it writes it again.
    """

    def __init__(self, files: Files, study: str) -> None:
        self._files, self._folder = files, f"{FOLDER}/curves/{study}"

    def read(self, trial: str) -> DevCurve | None:
        """Return the curve of a trial, by its key; None where it has none."""
        return self._read([trial]).get(trial)

    def all(self) -> dict[str, DevCurve]:
        """Return the curves of all trials, by their keys."""
        names = sorted(self._files.names(self._folder))
        return self._read([name.removesuffix(".json") for name in names if name.endswith(".json")])

    def write(self, trial: str, curve: DevCurve) -> None:
        """Put a curve in place of the one that may be there."""
        self._files.write(f"{self._folder}/{trial}.json", seal(asdict(curve)))

    def _read(self, trials: list[str]) -> dict[str, DevCurve]:
        paths, found = {f"{self._folder}/{trial}.json": trial for trial in trials}, {}
        for path, data in self._files.read_many(list(paths)).items():
            with suppress(ValueError):
                found[paths[path]] = unseal(data, DevCurve)
        return found
