"""Studies on disk: Optuna's journal, one per study, which drivers and workers share without a lock;
a study on the side of one driver; and what Optuna decides, as pure functions of what is known.

Each line of it is a file of its own in ``<root>/studies/<study>/``, named after its number, that
one process alone can create: on a file system and on an object store alike. All of them in their
order are the file that `optuna-dashboard` opens.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner, MedianPruner, SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.search import Space, Value
from raxalign.grid.study import State, Study, StudyRecord, Tried
from raxalign.store.key import digest
from raxalign.store.storage import Storage

_ATTEMPTS, _DRAWS = 8, 1000
_PRUNERS: Mapping[str, Callable[[], BasePruner]] = {
    "median": MedianPruner,
    "asha": partial(SuccessiveHalvingPruner, min_resource=1),
}
optuna.logging.set_verbosity(optuna.logging.WARNING)


def distributions(spaces: Iterable[Space]) -> dict[str, BaseDistribution]:
    """Return the spaces as Optuna has them."""
    found: dict[str, BaseDistribution] = {}
    for space in spaces:
        if space.kind == "choice":
            found[space.name] = CategoricalDistribution(space.choices)
        elif space.kind == "int":
            found[space.name] = IntDistribution(int(space.low), int(space.high))
        else:
            found[space.name] = FloatDistribution(space.low, space.high, log=space.log)
    return found


def direction(study: Study) -> str:
    """Return the direction of the objective as Optuna names it."""
    return "minimize" if study.objective.lower else "maximize"


def suggest(study: Study, tried: Sequence[FrozenTrial]) -> dict[str, Value] | None:
    """Return the next point, which none of those that were tried or run is; None where all points
    of the space were tried.
    """
    there = {_identity(trial.params) for trial in tried}
    return next((p for p in _proposals(study, tried) if _identity(p) not in there), None)


def _proposals(study: Study, tried: Sequence[FrozenTrial]) -> Iterator[dict[str, Value]]:
    """Yield points until one is new: of the sampler, then random ones, then every one there is."""
    for attempt in range(_ATTEMPTS):
        yield _ask(study, tried, _seed(study, len(tried), attempt))
    chance = random.Random(_seed(study, len(tried), -1))
    for _ in range(_DRAWS):
        yield {space.name: space.at(chance.random()) for space in study.spaces}
    if all(space.kind in {"int", "choice"} for space in study.spaces):
        names = [space.name for space in study.spaces]
        for point in product(*(space.values() for space in study.spaces)):
            yield dict(zip(names, point, strict=True))


def _seed(study: Study, number: int, attempt: int) -> int:
    """Return the seed of the sampler for the point of a number."""
    return int(digest([study.name, study.sampler_seed, number, attempt])[:8], 16)


def _ask(study: Study, tried: Sequence[FrozenTrial], seed: int) -> dict[str, Value]:
    """Ask an Optuna sampler that knows all points so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        memory = optuna.create_study(direction=direction(study), sampler=_sampler(study, seed))
        memory.add_trials(tried)
        asked = memory.ask(distributions(study.spaces))
    return {space.name: space.tidy(asked.params[space.name]) for space in study.spaces}


def _sampler(study: Study, seed: int) -> optuna.samplers.BaseSampler:
    if study.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    # a trial that runs counts as a bad one, so that parallel suggestions differ
    return optuna.samplers.TPESampler(
        multivariate=True,
        constant_liar=True,
        n_startup_trials=10 if study.most is None else min(10, max(2, study.most // 4)),
        seed=seed,
    )


def _identity(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in values.items()))


def prunes(study: Study, own: Sequence[float], others: Sequence[FrozenTrial]) -> bool:
    """Return whether the study's pruner, with Optuna's defaults, ends a trial at its last dev
    selection. The selections are the steps: trainings of other lengths can be compared.

    Args:
        study: The study.
        own: The scores of the trial at its dev selections so far.
        others: The other trials, with their scores so far.
    """
    sampler = optuna.samplers.RandomSampler(seed=0)
    pruner = _PRUNERS[study.pruner]()
    memory = optuna.create_study(direction=direction(study), sampler=sampler, pruner=pruner)

    def replayed(scores: Iterable[float]) -> tuple[optuna.Trial, bool]:
        trial, ends = memory.ask(), False
        for number, score in enumerate(scores, start=1):
            trial.report(score, number)
            ends = bool(trial.should_prune())  # keeps what the rungs of `asha` compare
        return trial, ends

    for other in others:
        trial, _ = replayed(value for _, value in sorted(other.intermediate_values.items()))
        if other.state.is_finished() and other.intermediate_values:
            done = other.state == TrialState.COMPLETE
            memory.tell(trial, other.value if done else None, state=other.state)
    return replayed(own)[1]


SILENCE = 300.0  # seconds after which a driver on another machine counts as dead
_OWNER, _SECONDS, _MEASURED, _REASON = "owner", "seconds", "measured", "reason"
_IMPOSSIBLE, _BEGUN, _EXHAUSTED, _STOPPED = "impossible", "begun", "exhausted", "stopped"
_STATES: Mapping[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
}


class Overtaken(Exception):
    """Another process wrote first: what was to be written may no longer be right."""


class _Lines(BaseJournalBackend):  # type: ignore[misc]
    """The lines of a journal as far as this process has looked. Each has a checksum of its own, so
    that no changed value is taken for a result.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self._files, self._folder = storage.files, folder
        self._lines: list[dict[str, Any]] = []
        self.alone = False

    def look(self) -> bool:
        """Read what other processes have written; return whether there was anything."""
        before, there = len(self._lines), dict[str, bytes]()
        if not before:
            names = [name for name in self._files.names(self._folder) if name.endswith(".log")]
            there = self._files.read_many([f"{self._folder}/{name}" for name in names])
        try:
            with suppress(FileNotFoundError):
                while True:
                    path = self._next
                    self._add(there.pop(path) if path in there else self._files.read(path))
            if there:
                raise ValueError("it is missing, and later ones are there")
        except ValueError as error:
            raise self.unreadable(error) from error
        return len(self._lines) > before

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the lines from a number on."""
        yield from self._lines[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write lines. Raises `Overtaken` where they are to be the next ones and are not."""
        for log in logs:
            line = json.dumps({**log, "sha256": digest(log)}) + "\n"
            while not self._files.create(self._next, line.encode()):
                self.look()
                if self.alone:
                    raise Overtaken
            self._add(line.encode())

    @property
    def _next(self) -> str:
        return f"{self._folder}/{len(self._lines):08}.log"

    def _add(self, data: bytes) -> None:
        log = json.loads(data)
        if not isinstance(log, dict) or log.pop("sha256", None) != digest(log):
            raise ValueError("it was changed: it does not match its checksum")
        self._lines.append(log)

    def unreadable(self, error: Exception) -> StorageError:
        """Return the error of a line that cannot be used: the next one, or one before it."""
        return StorageError(
            f"{self._files.root}/{self._next}: the journal of a search cannot be read ({error})."
            f" Restore it, or delete {self._files.root}/{self._folder}: the search begins again"
            " with what the ledger has of it"
        )


class Journal:
    """The journal of one study. What other processes write is seen after the next `look`."""

    def __init__(self, storage: Storage, study: Study) -> None:
        self.study, self._lines = study, _Lines(storage, study.folder)
        self._lines.look()
        try:
            self._storage = JournalStorage(self._lines)
            self._optuna = optuna.create_study(
                storage=self._storage,
                study_name=study.name,
                direction=direction(study),
                load_if_exists=True,
                sampler=optuna.samplers.RandomSampler(seed=0),  # never asked; the default warns
            )
        except StorageError:
            raise
        except Exception as error:  # Optuna raises anything for lines that it cannot use
            raise self._lines.unreadable(error) from error

    def look(self) -> bool:
        """Read what other processes have written; return whether there was anything."""
        return self._lines.look()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Write nothing unless all that was written before was seen. Raises `Overtaken` then, and
        has looked.
        """
        self._lines.alone = True
        try:
            yield
        finally:
            self._lines.alone = False

    def trials(self) -> list[FrozenTrial]:
        """Return all points, in the order of their numbers."""
        return list(self._optuna.get_trials(deepcopy=False))

    def add(
        self, values: Mapping[str, Value], notes: Mapping[str, Any], score: float | None = None
    ) -> int:
        """Add a point that runs, or that was measured before, in one line; return its number."""
        self._optuna.add_trial(
            create_trial(
                state=TrialState.RUNNING if score is None else TrialState.COMPLETE,
                value=score,
                params=dict(values),
                distributions=distributions(self.study.spaces),
                user_attrs=dict(notes),
            )
        )
        return len(self.trials()) - 1

    def note(self, number: int, name: str, value: Any) -> None:
        """Keep something with a point that runs."""
        self._storage.set_trial_user_attr(self._id(number), name, value)

    def heard(self, numbers: Sequence[int], step: int, score: float) -> None:
        """Keep the score of points at a step of their training, but of those that have ended."""
        for number in numbers:
            with suppress(UpdateFinishedTrialError):
                self._storage.set_trial_intermediate_value(self._id(number), step, score)

    def prunes(self, numbers: Sequence[int], step: int) -> bool:
        """Return whether the trial of some points ends at a step of its training. What an earlier
        process has reported of later steps is not known yet.
        """
        trials = self.trials()
        scores = trials[numbers[0]].intermediate_values
        own = [score for at, score in sorted(scores.items()) if at <= step]
        return prunes(self.study, own, [trial for trial in trials if trial.number not in numbers])

    def stop(self, numbers: Sequence[int], place: str, seconds: float) -> None:
        """Keep that points were pruned: where, in words, and after how many seconds."""
        for number in numbers:
            with suppress(UpdateFinishedTrialError):
                self.note(number, _STOPPED, [place, seconds])

    def stopped(self, number: int) -> tuple[str, float] | None:
        """Return where a point was pruned, and after how many seconds (None: it was not)."""
        found = self.trials()[number].user_attrs.get(_STOPPED)
        return None if found is None else (str(found[0]), float(found[1]))

    def tell(self, number: int, state: TrialState, score: float | None) -> None:
        """Keep how a point ended."""
        self._optuna.tell(number, score, state=state, skip_if_finished=True)

    def mark(self, name: str, value: Any) -> None:
        """Keep something with the study."""
        self._optuna.set_user_attr(name, value)

    @property
    def marks(self) -> dict[str, Any]:
        """What was kept with the study."""
        return dict(self._optuna.user_attrs)

    def _id(self, number: int) -> int:
        """Return what the journal calls the point of a number."""
        study = self._storage.get_study_id_from_name(self.study.name)
        return int(self._storage.get_trial_id_from_study_id_trial_number(study, number))


@dataclass(frozen=True)
class PointOutcome:
    """How a point ended: its score on development sets, or why there is none. One that was pruned
    says where.
    """

    score: float | None
    seconds: float | None = None
    reason: str = ""  # why there is no score
    pruned: bool = False


@dataclass
class StudyRun:
    """A study in its journal, on the side of one driver. Points name the lock of the driver that
    runs them; `owner` is that of this one.

    `allowed` raises `RaxalignError` for values that the method does not permit together.
    """

    storage: Storage
    study: Study
    owner: str
    allowed: Callable[[Mapping[str, Value]], object]

    def __post_init__(self) -> None:
        self.journal = Journal(self.storage, self.study)

    def begin(
        self, points: Sequence[Mapping[str, Value]], outcomes: Sequence[PointOutcome | None]
    ) -> None:
        """Take points that were measured before as the first ones of a study that has not begun: at
        most half of its trials.
        """
        most = None if self.study.most is None else self.study.most // 2
        pairs = zip(points, outcomes, strict=True)
        found = [(dict(point), outcome) for point, outcome in pairs if outcome is not None]
        while not self.begun:
            there = [trial.params for trial in self.journal.trials()]
            left = [entry for entry in found[:most] if entry[0] not in there]
            with suppress(Overtaken), self.journal.alone():
                for point, outcome in left:
                    notes = {_MEASURED: True, _SECONDS: outcome.seconds}
                    self.journal.add(point, notes, outcome.score)
                self.journal.mark(_BEGUN, True)

    @property
    def begun(self) -> bool:
        """Whether the study has its first points from what was measured before."""
        return bool(self.journal.marks.get(_BEGUN))

    def ask(self) -> int | None:
        """Return the number of the next point for this driver: one that a dead driver left, or a
        new one. None where the budget is spent, or no point is left.
        """
        while True:
            with suppress(Overtaken):
                points = self.journal.trials()
                running = [trial for trial in points if trial.state == TrialState.RUNNING]
                lost = self._lost(trial.user_attrs[_OWNER] for trial in running)
                for trial in running:
                    if trial.user_attrs[_OWNER] in lost:
                        with self.journal.alone():
                            self.journal.note(trial.number, _OWNER, self.owner)
                        return int(trial.number)
                if self.spent:
                    return None
                number = self._new()
                if number is not None:
                    return number

    def _lost(self, owners: Iterable[str]) -> set[str]:
        """Return those drivers that do not live."""
        others = set(owners) - {self.owner}
        return others - self.storage.locks.living("searching", SILENCE).keys() if others else set()

    def _new(self) -> int | None:
        """Add a point that is new; return its number, None for one that the method refuses. Raises
        `Overtaken`.
        """
        values = suggest(self.study, self.journal.trials())
        with self.journal.alone():
            if values is None:
                self.journal.mark(_EXHAUSTED, True)
                return None
            number = self.journal.add(values, {_OWNER: self.owner})
        try:
            self.allowed(values)
        except RaxalignError as error:
            self.refuse(number, str(error))
            return None
        return number

    def claim(self, name: str) -> bool:
        """Claim something for this driver by its name, unless a living one has it."""
        while (owner := self.journal.marks.get(name)) is None or self._lost([owner]):
            with suppress(Overtaken), self.journal.alone():
                self.journal.mark(name, self.owner)
                return True
        return False

    def end(self, number: int, outcome: PointOutcome) -> None:
        """Keep how a point ended. One that has ended before stays as it is."""
        state = TrialState.PRUNED if outcome.pruned else TrialState.FAIL
        state = state if outcome.score is None else TrialState.COMPLETE
        with suppress(UpdateFinishedTrialError):
            if outcome.seconds is not None:
                self.journal.note(number, _SECONDS, outcome.seconds)
            if outcome.reason:
                self.journal.note(number, _REASON, outcome.reason)
            self.journal.tell(number, state, outcome.score)

    def refuse(self, number: int, reason: str) -> None:
        """Keep that a point cannot be run."""
        with suppress(UpdateFinishedTrialError):
            self.journal.note(number, _IMPOSSIBLE, True)
        self.end(number, PointOutcome(None, reason=reason))

    @property
    def spent(self) -> bool:
        """Whether nothing more is suggested: the budget is spent, or every point was tried."""
        trials, study = self.journal.trials(), self.study
        seconds = sum(trial.user_attrs.get(_SECONDS) or 0.0 for trial in trials)
        return bool(
            self.journal.marks.get(_EXHAUSTED)
            or (study.most is not None and len(trials) >= study.most)
            or (study.seconds is not None and seconds >= study.seconds)
        )

    @property
    def over(self) -> bool:
        """Whether the budget is spent and no point runs any more, here or elsewhere."""
        running = any(trial.state == TrialState.RUNNING for trial in self.journal.trials())
        return self.spent and not running

    def record(self) -> StudyRecord:
        """Return the study as it is."""
        tried = tuple(map(_tried, self.journal.trials()))
        return StudyRecord.of(self.study, tried, finished=self.over)

    def write(self) -> None:
        """Write the record of the study as it is. Of several drivers that do so at once the last
        one has seen everything.
        """
        while True:
            self.record().write(self.storage)
            if not self.journal.look():
                return


def _tried(trial: FrozenTrial) -> Tried:
    notes: Mapping[str, Any] = trial.user_attrs
    return Tried(
        number=trial.number,
        values=dict(trial.params),
        state="impossible" if notes.get(_IMPOSSIBLE) else _STATES[trial.state],
        score=trial.value if trial.state == TrialState.COMPLETE else None,
        seconds=notes.get(_SECONDS),
        measured=bool(notes.get(_MEASURED)),
        reason=notes.get(_REASON, ""),
    )
