"""Studies: the searches of a grid, one per encoder, method, languages and number of sentences, the
points that they suggest, and the record of what each has tried.

The record is derived from the study's journal (`search.journal`): everything but the search itself
reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Literal

from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.search import Space, Value
from raxalign.grid.trial import Trial
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage

_FOLDER = "studies"
State = Literal["running", "done", "failed", "impossible", "pruned"]
_NAME = re.compile(r"[^/\s][^/]*")


@dataclass(frozen=True)
class SearchMetric:
    """What trials are judged by: a metric on development sets; `lower` values may be better."""

    task: str
    lang: str
    metric: str
    lower: bool = False

    @property
    def name(self) -> str:
        """The metric as results name it."""
        return f"{self.task}/{self.lang}/{self.metric}"

    def of(self, trial: Trial, found: Mapping[str, float]) -> float:
        """Return the value of a trial that is done, by its scores on development sets.

        Raises `RaxalignError` where the trial has no development score of that name.
        """
        if self.name in found:
            return found[self.name]
        if self.task in trial.untouched:
            why = f"{self.task} reads nothing that {trial.method} changes"
        else:
            known = [name for name in found if name.startswith(f"{self.task}/")] or list(found)
            why = f"there are: {', '.join(known)}" if known else "no task has any"
        raise RaxalignError(f"search.metric: no development score {self.name} ({why})")


@dataclass(frozen=True)
class Study:
    """A search of one method's params, for one encoder, languages and number of sentences."""

    name: str  # the method, the languages and a digest of everything that decides the results
    method: str
    encoder: str
    languages: tuple[str, ...]
    sentences: int
    seed: int  # of its trials
    spaces: tuple[Space, ...]
    objective: SearchMetric
    sampler: str
    sampler_seed: int  # of the suggestions
    most: int | None  # the largest number of its trials (None: not limited)
    seconds: float | None  # the worker time that they may take, likewise
    fresh_seeds: tuple[int, ...]  # with which the chosen point is run again
    pruner: str = "none"
    unwatched: str = ""  # why the pruner cannot act, in a clause

    @property
    def prunes(self) -> bool:
        """Whether trials may end early."""
        return self.pruner != "none" and not self.unwatched

    @property
    def about(self) -> str:
        """The method, the languages and the number of sentences, in words."""
        return f"{self.method} {'+'.join(self.languages)}, {self.sentences:,} sentences"

    @property
    def folder(self) -> str:
        """Where its journal is below the storage root."""
        return f"{_FOLDER}/{self.name}"

    def record(self, storage: Storage) -> StudyRecord:
        """Return its record in a storage; one that has not begun has tried nothing."""
        return StudyRecord.read(storage, [self]).get(self.name, StudyRecord(self.name))

    @property
    def corner(self) -> Suggestion:
        """A point of the study that stands for all: its data and encoders are theirs."""
        return Suggestion(0, {space.name: space.at(0.0) for space in self.spaces})


@dataclass(frozen=True)
class Suggestion:
    """A point that a study suggested: its number there, and the values of its spaces. A point that
    was chosen is `confirmed` with the fresh seeds of the study.
    """

    number: int
    values: Mapping[str, Value]
    confirmed: bool = False


@dataclass(frozen=True)
class Asked:
    """The trial of a suggestion; several may be one trial, where they differ in an idle param."""

    study: str
    number: int
    trial: str
    confirmed: bool = False


@dataclass(frozen=True)
class Tried:
    """One point of a study. It is `impossible` where the method does not permit its values together
    or the grid excludes it; `pruned` trials ended early, and are not results.
    """

    number: int  # in the study
    values: Mapping[str, Value]  # of its spaces
    state: State
    score: float | None = None  # of the objective on development sets, where it is done
    seconds: float | None = None  # the worker time of its own stages, where it is known
    measured: bool = False  # before the study suggested anything
    reason: str = ""  # why it failed, or where it was pruned


@recorded
class StudyRecord:
    """A study as it is."""

    study: str
    tried: tuple[Tried, ...] = ()
    best: int | None = None  # the number of the best point
    finished: bool = False

    @classmethod
    def of(cls, study: Study, tried: tuple[Tried, ...], *, finished: bool) -> StudyRecord:
        """Return the record of what a study has tried. The best point is the first of equal ones
        that are done.
        """
        sign = -1.0 if study.objective.lower else 1.0
        done = [entry for entry in tried if entry.state == "done" and entry.score is not None]
        scores = {entry.number: sign * (entry.score or 0.0) for entry in done}
        best = max(scores, key=lambda number: scores[number], default=None)
        return cls(study.name, tried, best, finished)

    @staticmethod
    def read(storage: Storage, studies: Iterable[Study]) -> dict[str, StudyRecord]:
        """Return the records of those studies that have begun, by their names. Raises
        `StorageError` that names a record which cannot be read.
        """
        paths, found = {_path(study.name): study for study in studies}, {}
        for path, data in storage.files.read_many(list(paths)).items():
            try:
                found[paths[path].name] = _of_study(paths[path], data)
            except ValueError as error:
                raise StorageError(
                    f"{storage.files.root}/{path}: is not a record of a study ({error}); delete"
                    " it: `raxalign grid` writes it again"
                ) from error
        return found

    def write(self, storage: Storage) -> None:
        """Put the record in place of the one that may be there."""
        storage.files.write(_path(self.study), seal(asdict(self)))

    @property
    def done(self) -> list[Tried]:
        """The points that have scores."""
        return [entry for entry in self.tried if entry.state == "done"]

    @property
    def pruned(self) -> list[Tried]:
        """The points whose trials ended early."""
        return [entry for entry in self.tried if entry.state == "pruned"]

    @property
    def chosen(self) -> Tried | None:
        """The best point."""
        return None if self.best is None else self.tried[self.best]

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield the points as suggestions, and once the study is finished the best one again, to be
        confirmed. A pruned one is over: its trial is not run any more.
        """
        for entry in self.tried:
            if entry.state not in ("impossible", "pruned"):
                yield Suggestion(entry.number, entry.values)
        if self.finished and self.chosen is not None:
            yield Suggestion(self.chosen.number, self.chosen.values, confirmed=True)


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a study")
    return f"{_FOLDER}/{name}.json"


def _of_study(study: Study, data: bytes) -> StudyRecord:
    record = unseal(data, StudyRecord)
    for number, entry in enumerate(record.tried):
        with suppress(LookupError):  # of a value outside of its space, or of none
            found = {space.name: space.find(entry.values[space.name]) for space in study.spaces}
            done = (entry.state == "done") == (entry.score is not None)
            if (entry.number, entry.values.keys()) == (number, found.keys()) and done:
                continue
        raise ValueError(f"has another form: point {number} is none of this study")
    if record.study != study.name or record.best not in (None, *(e.number for e in record.done)):
        raise ValueError("is that of another study")
    return record
