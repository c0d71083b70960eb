"""One study under way: its next point, the end of a point, and its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from raxalign.config.spaces import Value
from raxalign.errors import RaxalignError
from raxalign.plan.study import Study
from raxalign.plan.tried import State, Stopped, StudyRecord, Tried, best_of
from raxalign.store.studies import DevCurve
from raxalign.sweep.search.journal import StudyLog
from raxalign.sweep.search.owner import Owner
from raxalign.sweep.search.samplers import Proposal, suggest

OWNER, SECONDS, MEASURED, REASON = "owner", "seconds", "measured", "reason"
STOPPED = "stopped"
IMPOSSIBLE, BEGUN, EXHAUSTED = "impossible", "begun", "exhausted"
_STATES: Mapping[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
}


@dataclass(frozen=True)
class PointOutcome:
    """How a point ended: its scores on development sets, or why there are none; and its dev curve,
    where its training was watched. One that was pruned has no scores and no reason.
    """

    scores: tuple[float, ...] | None
    seconds: float | None = None
    reason: str = ""
    curve: DevCurve | None = None


Known = Callable[[Sequence[Mapping[str, Value]]], list[PointOutcome | None]]
"""Looks up the outcomes of points that are in the ledger already (None: not there)."""


@dataclass
class StudyRun:
    """A study in a journal, on the side of one driver. Every call is made within a turn of the
    journal.

    `allowed` raises `RaxalignError` for values that the method does not permit together.
    """

    study: Study
    log: StudyLog
    owner: Owner
    allowed: Callable[[Mapping[str, Value]], object]

    def begin(self, points: Sequence[Mapping[str, Value]], known: Known) -> None:
        """Take points that were measured before as the first ones of a study that has not begun: at
        most half of its trials.
        """
        there = [trial.params for trial in self.log.trials()]
        most = None if self.study.most is None else self.study.most // 2
        pairs = zip(points, known(points), strict=True)
        found = [(dict(point), outcome) for point, outcome in pairs if outcome is not None]
        for point, outcome in found[:most]:
            if point not in there and outcome.scores is not None:
                notes = {MEASURED: True, SECONDS: outcome.seconds}
                self.log.add_done(Proposal(point), outcome.scores, notes)
        self.log.mark(BEGUN, True)

    @property
    def begun(self) -> bool:
        """Whether the study has its first points from what was measured before."""
        return bool(self.log.marks.get(BEGUN))

    def ask(self) -> tuple[int, bool] | None:
        """Return the number of the next point for this driver, and whether it is new: one that a
        dead driver left, or a new one. None where the budget is spent, or no point is left.
        """
        for trial in self.log.trials():
            if self._is_left(trial):
                self.log.note(trial.number, OWNER, self.owner.sign)
                return trial.number, False
        while not self.spent:
            proposal = suggest(self.study, self.log.trials())
            if proposal is None:
                self.log.mark(EXHAUSTED, True)
                return None
            number = self.log.add(proposal, {OWNER: self.owner.sign})
            try:
                self.allowed(proposal.values)
            except RaxalignError as error:
                self.refuse(number, str(error))
                continue
            return number, True
        return None

    def _is_left(self, trial: FrozenTrial) -> bool:
        running = trial.state == TrialState.RUNNING
        return running and not self.owner.lives(trial.user_attrs[OWNER])

    def end(self, number: int, outcome: PointOutcome) -> None:
        """Keep how a point ended."""
        if outcome.seconds is not None:
            self.log.note(number, SECONDS, outcome.seconds)
        if outcome.reason:
            self.log.note(number, REASON, outcome.reason)
        if outcome.curve is not None:
            points = ((point.step, point.score) for point in outcome.curve.points)
            self.log.keep_curve(number, points)
        if outcome.curve is not None and outcome.curve.pruned and outcome.scores is None:
            self.log.note(number, STOPPED, asdict(_stopped(outcome.curve)))
            self.log.prune(number)
        else:
            self.log.finish(number, outcome.scores)

    def refuse(self, number: int, reason: str) -> None:
        """Keep that a point cannot be run."""
        self.log.note(number, IMPOSSIBLE, True)
        self.end(number, PointOutcome(None, reason=reason))

    @property
    def spent(self) -> bool:
        """Whether nothing more is suggested: the budget is spent, or every point was tried."""
        trials, study = self.log.trials(), self.study
        seconds = sum(trial.user_attrs.get(SECONDS) or 0.0 for trial in trials)
        return bool(
            self.log.marks.get(EXHAUSTED)
            or (study.most is not None and len(trials) >= study.most)
            or (study.seconds is not None and seconds >= study.seconds)
        )

    @property
    def over(self) -> bool:
        """Whether the budget is spent and no point runs any more, here or elsewhere."""
        running = any(trial.state == TrialState.RUNNING for trial in self.log.trials())
        return self.spent and not running

    def record(self) -> StudyRecord:
        """Return the study as it is."""
        tried = tuple(_tried(trial) for trial in self.log.trials())
        record = StudyRecord(self.study.name, tried, best_of(self.study, tried))
        if not self.over:
            return record
        return replace(record, finished=True, importance=self.log.importance())


def _stopped(curve: DevCurve) -> Stopped:
    """Return where a pruned trial stands. The rest of its training is taken to go at the pace that
    it had.
    """
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
