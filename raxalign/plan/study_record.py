"""What a study has tried: its record in the storage, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from raxalign.config.search_spaces import Value
from raxalign.errors import RaxalignError
from raxalign.plan.estimates.cost import duration
from raxalign.plan.plan import Plan
from raxalign.plan.study import Study, Suggestion
from raxalign.plan.values.results import dev_scores, judge
from raxalign.printing import counted
from raxalign.store.sealed import recorded, unseal
from raxalign.store.storage import Storage
from raxalign.store.studies import read_studies

State = Literal["running", "done", "failed", "impossible", "pruned"]


@dataclass(frozen=True)
class Stopped:
    """Where a pruned trial stands: the `step` of the `steps` of its training, its last score on
    development sets, and the seconds that the rest would have taken at its own pace.
    """

    step: int
    steps: int
    score: float  # the last one on development sets
    saved: float  # the seconds that the rest would have taken at its own pace

    @property
    def words(self) -> str:
        """The place in words."""
        return f"pruned at step {self.step:,} of {self.steps:,}"


@dataclass(frozen=True)
class Tried:
    """One point of a study. It is `impossible` where the method does not permit its values together
    or the grid excludes it; `pruned` trials ended early, and are not results.
    """

    number: int  # in the study
    values: Mapping[str, Value]  # of its spaces
    state: State
    scores: tuple[float, ...] = ()  # of the objectives on development sets, where it is done
    seconds: float | None = None  # the worker time of its own stages, where it is known
    measured: bool = False  # before the study suggested anything
    reason: str = ""  # why it failed
    stopped: Stopped | None = None  # where it stands, if it was pruned


@recorded
class StudyRecord:
    """A study as it is. `importance` is the share of each objective's variance that each param
    explains (from 0 to 1).
    """

    study: str
    tried: tuple[Tried, ...] = ()
    best: tuple[int, ...] = ()  # numbers of points, several where there are two objectives
    finished: bool = False
    importance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def done(self) -> list[Tried]:
        """The points that have scores."""
        return [entry for entry in self.tried if entry.state == "done"]

    @property
    def pruned(self) -> list[Tried]:
        """The points whose trials ended early."""
        return [entry for entry in self.tried if entry.state == "pruned"]

    @property
    def chosen(self) -> list[Tried]:
        """The best points."""
        return [entry for entry in self.tried if entry.number in self.best]

    @property
    def seconds(self) -> float:
        """The worker time of all points."""
        return sum(entry.seconds or 0.0 for entry in self.tried)

    def suggestions(self) -> Iterator[Suggestion]:
        """Yield the points as suggestions, and once the study is finished the best ones again, to
        be confirmed. A pruned one is over: its trial is not run any more.
        """
        for entry in self.tried:
            if entry.state not in ("impossible", "pruned"):
                yield Suggestion(entry.number, entry.values)
        for entry in self.chosen if self.finished else ():
            yield Suggestion(entry.number, entry.values, confirmed=True)


def best_of(study: Study, tried: Sequence[Tried]) -> tuple[int, ...]:
    """Return the number of the best point that is done, the first of equal ones; with two
    objectives, those of all points that no other one is better than (the Pareto front).
    """
    done = [entry for entry in tried if entry.state == "done"]
    gains = {entry.number: gain_of(study, entry) for entry in done}
    if len(study.objectives) == 1:
        best = max(gains, key=lambda number: gains[number], default=None)
        return () if best is None else (best,)
    front = [n for n, gain in gains.items() if not any(beats(g, gain) for g in gains.values())]
    first = {gains[number]: number for number in reversed(front)}  # of equal points the first
    return tuple(sorted(first.values()))


def gain_of(study: Study, entry: Tried) -> tuple[float, ...]:
    """Return the scores of a point with the sign that makes larger ones better."""
    pairs = zip(study.objectives, entry.scores, strict=True)
    return tuple(-score if objective.lower else score for objective, score in pairs)


def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether one point is as good as another by all objectives, and better by one."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def read_record(storage: Storage, study: Study) -> StudyRecord:
    """Return the record of a study in a storage; one that has not begun has tried nothing."""
    return read_begun(storage, [study]).get(study.name, StudyRecord(study.name))


def read_begun(storage: Storage, studies: Iterable[Study]) -> dict[str, StudyRecord]:
    """Return the records of those studies that have begun, by their names."""
    return read_studies(storage.files, {s.name: partial(_of_study, s) for s in studies})


def _of_study(study: Study, data: bytes) -> StudyRecord:
    record = unseal(data, StudyRecord)
    for number, entry in enumerate(record.tried):
        with suppress(LookupError):  # of a value outside of its space, or of none
            found = {space.name: space.find(entry.values[space.name]) for space in study.spaces}
            objectives = len(study.objectives) if entry.state == "done" else len(entry.scores)
            whole = (number, found.keys(), objectives)
            if (entry.number, entry.values.keys(), len(entry.scores)) == whole:
                continue
        raise ValueError(f"has another form: point {number} is none of this study")
    if record.study != study.name or {*record.best} - {entry.number for entry in record.done}:
        raise ValueError("is that of another study")
    return record


def measured_record(plan: Plan, storage: Storage, study: Study) -> StudyRecord:
    """Return the record of a study with the scores that the ledger has of the trials of a plan:
    they are the truth, and what is best is so by them.
    """
    record = read_record(storage, study)
    asked = [a for a in plan.asked if a.study == study.name and not a.confirmed]
    trials = {a.number: plan.by_key[a.trial] for a in asked if a.trial in plan.by_key}

    def measured(entry: Tried) -> Tried:
        trial = trials.get(entry.number)
        with suppress(RaxalignError):  # not in the ledger
            if trial is not None and entry.state == "done":
                found = judge(study.objectives, trial, dev_scores(plan, storage.ledger, trial))
                return replace(entry, scores=found)
        return entry

    tried = tuple(map(measured, record.tried))
    return replace(record, tried=tried, best=best_of(study, tried))


def is_over(plan: Plan, storage: Storage, study: Study, there: AbstractSet[str]) -> bool:
    """Return whether a study is finished and its best points are confirmed, by a ledger's keys."""
    record = read_record(storage, study)
    within = study.most is None or len(record.tried) >= study.most
    keys = [
        key
        for entry in plan.asked
        if entry.study == study.name and entry.confirmed
        for key in plan.by_key[entry.trial].evaluations.values()
    ]
    return record.finished and within and there >= set(keys)


def saved_words(record: StudyRecord) -> str:
    """Return how many trials of a study were pruned and what that saved; nothing where none was.

    The time is estimated from the pace of each trial's own training. The evaluations that were left
    out are not counted.
    """
    pruned = [entry.stopped for entry in record.tried if entry.stopped is not None]
    if not pruned:
        return ""
    steps = sum(stopped.steps - stopped.step for stopped in pruned)
    total = sum(stopped.steps for stopped in pruned)
    seconds = sum(stopped.saved for stopped in pruned)
    return (
        f"{len(pruned)} of {counted(len(record.tried), 'trial')} pruned, which saved {steps:,} of"
        f" their {total:,} training steps (about {duration(seconds)} of worker time)"
    )
