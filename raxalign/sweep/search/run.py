"""One study under way: its next point, the end of a point, its record, and what runs a point."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from raxalign.config.search_spaces import Value
from raxalign.errors import RaxalignError
from raxalign.plan.study import Study
from raxalign.plan.study_record import State, Stopped, StudyRecord, Tried, best_of
from raxalign.store.alive import maker_name
from raxalign.store.drivers import clock_lead, dated_sign, is_alive
from raxalign.store.storage import Storage
from raxalign.store.studies import SIGNS, DevCurve
from raxalign.sweep.search.samplers import Proposal, directions, distributions, suggest

OWNER, SECONDS, MEASURED, REASON = "owner", "seconds", "measured", "reason"
STOPPED = "stopped"
IMPOSSIBLE, BEGUN, EXHAUSTED = "impossible", "begun", "exhausted"
_STATES: Mapping[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
}
BEAT = 60.0  # seconds between two signs of life
_FEW = 4  # points below which importances are not estimated


@dataclass
class Owner:
    """This driver. On its own machine a driver is recognised by its process; on others by a file
    next to the journal in the storage, which it renews every minute: one that did not for five
    minutes is dead.
    """

    storage: Storage
    name: str = field(default_factory=maker_name)
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        """Ask for the clock of the storage."""
        self._lead, self._place = clock_lead(self.storage), f"{SIGNS}/{self.token}.json"

    @property
    def sign(self) -> str:
        """What is kept with a point that this driver runs."""
        return self.token

    def beat(self) -> None:
        """Give a sign of life. Raises `StorageError` where the storage cannot be written."""
        self.storage.files.write(self._place, dated_sign(self.name, self._lead))

    def leave(self) -> None:
        """Remove the sign: the driver ends."""
        self.storage.files.delete(self._place)

    def lives(self, sign: str) -> bool:
        """Return whether the driver that left a sign lives."""
        if sign == self.token:
            return True
        try:
            latest = self.storage.files.read(f"{SIGNS}/{sign}.json")
        except FileNotFoundError:  # it has left
            return False
        return is_alive(latest, self._lead)


@dataclass(frozen=True)
class PointOutcome:
    """How a point ended: its scores on development sets, or why there are none; and its dev curve,
    where its training was watched. One that was pruned has no scores and no reason.
    """

    scores: tuple[float, ...] | None  # on development sets
    seconds: float | None = None
    reason: str = ""  # why there are no scores
    curve: DevCurve | None = None  # where its training was watched


Known = Callable[[Sequence[Mapping[str, Value]]], list[PointOutcome | None]]
"""Looks up the outcomes of points that are in the ledger already (None: not there)."""


@dataclass
class StudyRun:
    """A study in a journal, on the side of one driver. Every call is made within a turn of the
    journal.

    `allowed` raises `RaxalignError` for values that the method does not permit together.
    """

    study: Study
    storage: JournalStorage
    owner: Owner
    allowed: Callable[[Mapping[str, Value]], object]

    def __post_init__(self) -> None:
        self._optuna = optuna.create_study(
            storage=self.storage,
            study_name=self.study.name,
            directions=directions(self.study),
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(seed=0),  # never asked; the default warns
        )

    def trials(self) -> list[FrozenTrial]:
        """Return all points, in the order of their numbers."""
        return list(self._optuna.get_trials(deepcopy=False))

    def add(
        self,
        proposal: Proposal,
        notes: Mapping[str, Any],
        scores: tuple[float, ...] | None = None,
    ) -> int:
        """Add a point that runs, or that was measured before, in one write; returns its number."""
        self._optuna.add_trial(
            create_trial(
                state=TrialState.RUNNING if scores is None else TrialState.COMPLETE,
                values=None if scores is None else list(scores),
                params=proposal.values,
                distributions=distributions(self.study.spaces),
                user_attrs=dict(notes),
                system_attrs=dict(proposal.notes),
            )
        )
        return len(self.trials()) - 1

    def mark(self, name: str, value: Any) -> None:
        """Keep something with the study."""
        self._optuna.set_user_attr(name, value)

    @property
    def marks(self) -> dict[str, Any]:
        """What was kept with the study."""
        return dict(self._optuna.user_attrs)

    def begin(self, points: Sequence[Mapping[str, Value]], known: Known) -> None:
        """Take points that were measured before as the first ones of a study that has not begun: at
        most half of its trials.
        """
        there = [trial.params for trial in self.trials()]
        most = None if self.study.most is None else self.study.most // 2
        pairs = zip(points, known(points), strict=True)
        found = [(dict(point), outcome) for point, outcome in pairs if outcome is not None]
        for point, outcome in found[:most]:
            if point not in there and outcome.scores is not None:
                notes = {MEASURED: True, SECONDS: outcome.seconds}
                self.add(Proposal(point), notes, outcome.scores)
        self.mark(BEGUN, True)

    @property
    def begun(self) -> bool:
        """Whether the study has its first points from what was measured before."""
        return bool(self.marks.get(BEGUN))

    def ask(self) -> int | None:
        """Return the number of the next point for this driver: one that a dead driver left, or a
        new one. None where the budget is spent, or no point is left.
        """
        for trial in self.trials():
            running = trial.state == TrialState.RUNNING
            if running and not self.owner.lives(trial.user_attrs[OWNER]):
                self._note(trial.number, OWNER, self.owner.sign)
                return int(trial.number)
        while not self.spent:
            proposal = suggest(self.study, self.trials())
            if proposal is None:
                self.mark(EXHAUSTED, True)
                return None
            number = self.add(proposal, {OWNER: self.owner.sign})
            try:
                self.allowed(proposal.values)
            except RaxalignError as error:
                self.refuse(number, str(error))
                continue
            return number
        return None

    def end(self, number: int, outcome: PointOutcome) -> None:
        """Keep how a point ended. One that has ended before stays as it is."""
        if outcome.seconds is not None:
            self._note(number, SECONDS, outcome.seconds)
        if outcome.reason:
            self._note(number, REASON, outcome.reason)
        trial, curve, name = self.trials()[number], outcome.curve, self._id(number)
        for point in curve.points if curve is not None and not trial.state.is_finished() else ():
            self.storage.set_trial_intermediate_value(name, point.step, point.score)
        state, scores = None, None if outcome.scores is None else list(outcome.scores)
        if scores is None and curve is not None and curve.pruned:
            self._note(number, STOPPED, asdict(_stopped(curve)))
            state = TrialState.PRUNED
        elif scores is None:
            state = TrialState.FAIL
        self._optuna.tell(number, scores, state=state, skip_if_finished=True)

    def _note(self, number: int, name: str, value: Any) -> None:
        """Keep something with a point that runs."""
        self.storage.set_trial_user_attr(self._id(number), name, value)

    def _id(self, number: int) -> int:
        """Return what the journal calls the point of a number."""
        study = self.storage.get_study_id_from_name(self.study.name)
        return int(self.storage.get_trial_id_from_study_id_trial_number(study, number))

    def refuse(self, number: int, reason: str) -> None:
        """Keep that a point cannot be run."""
        self._note(number, IMPOSSIBLE, True)
        self.end(number, PointOutcome(None, reason=reason))

    @property
    def spent(self) -> bool:
        """Whether nothing more is suggested: the budget is spent, or every point was tried."""
        trials, study = self.trials(), self.study
        seconds = sum(trial.user_attrs.get(SECONDS) or 0.0 for trial in trials)
        return bool(
            self.marks.get(EXHAUSTED)
            or (study.most is not None and len(trials) >= study.most)
            or (study.seconds is not None and seconds >= study.seconds)
        )

    @property
    def over(self) -> bool:
        """Whether the budget is spent and no point runs any more, here or elsewhere."""
        running = any(trial.state == TrialState.RUNNING for trial in self.trials())
        return self.spent and not running

    def record(self) -> StudyRecord:
        """Return the study as it is."""
        tried = tuple(_tried(trial) for trial in self.trials())
        record = StudyRecord(self.study.name, tried, best_of(self.study, tried))
        if not self.over:
            return record
        return replace(record, finished=True, importance=self._importance())

    def _importance(self) -> dict[str, dict[str, float]]:
        """Return how much of the scores' variance each param explains (fANOVA), by objective and
        param; nothing where there are too few points, or all scores are equal.
        """
        done = [t for t in self.trials() if t.state == TrialState.COMPLETE]
        found = {}
        for number, objective in enumerate(self.study.objectives):
            scores = [trial.values[number] for trial in done]
            if len(scores) < _FEW or len(set(scores)) < 2:
                continue
            found[objective.name] = optuna.importance.get_param_importances(
                self._optuna,
                evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0),
                target=lambda trial, number=number: trial.values[number],
            )
        return found


def _stopped(curve: DevCurve) -> Stopped:
    """Return where a pruned trial stands. The rest of its training is taken to keep its pace."""
    last = curve.points[-1]
    saved = (curve.steps - last.step) * last.seconds / last.step
    return Stopped(last.step, curve.steps, last.score, saved)


def _tried(trial: FrozenTrial) -> Tried:
    notes: Mapping[str, Any] = trial.user_attrs
    state = "impossible" if notes.get(IMPOSSIBLE) else _STATES[trial.state]
    pruned = trial.state == TrialState.PRUNED
    return Tried(
        number=trial.number,
        values=dict(trial.params),
        state=state,
        scores=tuple(trial.values) if trial.state == TrialState.COMPLETE else (),
        seconds=notes.get(SECONDS),
        measured=bool(notes.get(MEASURED)),
        reason=notes.get(REASON, ""),
        stopped=Stopped(**notes[STOPPED]) if pruned else None,
    )
