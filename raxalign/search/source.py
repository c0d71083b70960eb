"""The searches of a grid: suggestions in, results in the ledger out. A running sweep asks for more
trials. A study begins with what the ledger has in its spaces: trials of grids that have run in the
same storage.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from raxalign.errors import RaxalignError
from raxalign.grid.estimates import Times
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.search import Value
from raxalign.grid.stored import StoredPlans
from raxalign.grid.study import Study, Suggestion
from raxalign.grid.trial import Trial
from raxalign.search.journal import PointOutcome, StudyRun
from raxalign.values.results import dev_scores

PAUSE = 10.0
"""Seconds between two looks at an object store of a driver that has nothing to report."""


def _known_points(trials: Iterable[Trial], study: Study, kind: str) -> list[dict[str, Value]]:
    """Return the different points in the spaces of a study that trials have with its kind of
    method.

    Whether they are trials of the study, and have results, is for their keys to say: another value
    of a param that is not searched makes another key.
    """
    found: dict[str, dict[str, Value]] = {}
    for trial in trials:
        alike = trial.kind == kind and trial.languages == study.languages
        if alike and trial.seed in (None, study.seed):
            with suppress(LookupError):  # a value lies outside of its space
                point = {s.name: s.among(trial.params) for s in study.spaces}
                found[json.dumps(point, sort_keys=True)] = point
    return [found[text] for text in sorted(found)]


_CONFIRMS = "confirms/"


@dataclass
class SearchSource:
    """The studies of a grid. A point is asked of the study that has the fewest, so that all of them
    advance at the same pace; once a study is over, its best point is confirmed.
    """

    opened: Opened  # with what its searches have suggested so far
    owner: str  # the name of this driver's lock
    studies: Sequence[Study]  # that are run, of those that the grid has
    deadline: float | None = None  # of `time.monotonic`, after which nothing more is suggested
    at_once: int | None = None  # the most trials of this driver at a time (None: of its workers)
    exhausted: bool = field(default=False, init=False)
    _runs: dict[str, StudyRun] = field(default_factory=dict, init=False)
    _mine: dict[str, list[tuple[str, int]]] = field(default_factory=dict, init=False)
    _confirmed: set[str] = field(default_factory=set, init=False)  # those that ended
    _over: set[str] = field(default_factory=set, init=False)
    _out: set[str] = field(default_factory=set, init=False)  # trials that have not ended
    _workers: int = field(default=0, init=False)
    _looked: float = field(default=-math.inf, init=False)  # when the journals were last read

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:
        """Return the trials of the next points, and of the best points of studies that are over."""
        # no worker is free for a point, or the last look was a moment ago
        remote = self.opened.storage.is_remote
        rests = remote and time.monotonic() - self._looked < PAUSE
        if self._runs and not ended and (rests or (self._out and not self._free(idle))):
            return None
        self._begin()
        changed = self._end(ended)
        free = self._free(idle)
        asked = list(self._ask(free))
        over = {name for name, run in self._runs.items() if run.over}
        changed |= {study for study, _ in asked} | (over - self._over)
        self._over = over
        for name in changed:
            self._runs[name].write()
        if changed:
            self.opened = self.opened.again(self._suggested)
        keys = self._trials_of(asked)
        keys += self._confirming(free - len(asked))
        self._out |= set(keys)
        if not self._mine:
            late = self.deadline is not None and time.monotonic() > self.deadline
            confirmations = {entry.trial for entry in self.opened.plan.asked if entry.confirmed}
            done = self._over == set(self._runs) and confirmations <= self._confirmed
            self.exhausted = late or done
        self._looked = time.monotonic()
        plan = self.opened.plan
        return plan.only(plan.by_key[key] for key in dict.fromkeys(keys)) if keys else None

    def _suggested(self, study: Study) -> Iterable[Suggestion]:
        """Return what a study has suggested: another driver may just write an older record."""
        run = self._runs.get(study.name)
        record = study.record(self.opened.storage) if run is None else run.record()
        return record.suggestions()

    def _free(self, idle: int) -> int:
        """Return how many trials may be added. Trials whose stages are still made leave workers
        idle: a point that is suggested meanwhile would know less than it could.
        """
        self._workers = max(self._workers, idle)
        most = self._workers if self.at_once is None else min(self._workers, self.at_once)
        return max(0, min(idle, most - len(self._out)))

    def _begin(self) -> None:
        """Open the studies at the first question, and look what other drivers have done since at
        each later one. What was measured before comes first.
        """
        for run in self._runs.values():
            run.journal.look()
        for study in self.studies if not self._runs else ():
            spec = next(s for s in self.opened.grid.methods if s.name == study.method)
            assert spec.searched is not None
            run = StudyRun(self.opened.storage, study, self.owner, spec.searched.point)
            self._runs[study.name] = run
            if not run.begun:
                plans = StoredPlans(self.opened.storage)
                trials = (trial for plan in plans for trial in plan.trials)
                points = _known_points(trials, study, spec.kind)
                run.begin(points, self._outcomes(study, points))
            run.write()

    def _outcomes(
        self, study: Study, points: Sequence[Mapping[str, Value]]
    ) -> list[PointOutcome | None]:
        """Return what the ledger has of some points of a study."""
        suggestions = []
        for number, point in enumerate(points):
            with suppress(RaxalignError):
                self._runs[study.name].allowed(point)
                suggestions.append(Suggestion(number, point))
        plan = self.opened.again(lambda other: suggestions if other.name == study.name else ()).plan
        ledger = self.opened.storage.ledger
        there = ledger.keys()
        found: list[PointOutcome | None] = [None] * len(points)
        for entry in plan.asked:
            trial = plan.by_key[entry.trial]
            if trial.evaluations and there.issuperset(trial.evaluations.values()):
                outcome = self._judge(plan, study, trial)
                found[entry.number] = outcome if outcome.score is not None else None
        return found

    def _end(self, ended: Mapping[str, str | None]) -> set[str]:
        """Keep the outcomes of trials; returns the names of the studies that they change."""
        changed = set()
        self._out -= set(ended)
        for key, error in ended.items():
            self._confirmed.add(key)
            for name, number in self._mine.pop(key, ()):
                run, trial = self._runs[name], self.opened.plan.by_key[key]
                outcome = (
                    self._judge(self.opened.plan, run.study, trial, number)
                    if error is None
                    else PointOutcome(None, reason=error)
                )
                run.end(number, outcome)
                changed.add(name)
        return changed

    def _judge(
        self, plan: Plan, study: Study, trial: Trial, number: int | None = None
    ) -> PointOutcome:
        """Return how a trial ended, which has run for the point of a number."""
        ledger, storage = self.opened.storage.ledger, self.opened.storage
        seconds = Times(plan, storage).of(trial)
        # one that was pruned may have been made whole for another grid
        judged = trial.evaluations.get(study.objective.task)
        stopped = None if number is None else self._runs[study.name].journal.stopped(number)
        if stopped is not None and (judged is None or not ledger.has(judged)):
            place, taken = stopped
            seconds = Times(plan, storage).of_alignment(trial) + taken
            return PointOutcome(None, seconds, place, pruned=True)
        try:
            score = study.objective.of(trial, dev_scores(plan, ledger, trial))
            return PointOutcome(score, seconds)
        except RaxalignError as error:
            return PointOutcome(None, seconds, str(error))

    def _ask(self, idle: int) -> Iterator[tuple[str, int]]:
        """Yield new points of this driver, as many as there are idle workers: (study, number)."""
        open_runs = [run for name, run in self._runs.items() if name not in self._over]
        late = self.deadline is not None and time.monotonic() > self.deadline
        for _ in range(0 if late else idle):
            open_runs.sort(key=lambda run: len(run.journal.trials()))
            number = None
            while open_runs and number is None:
                number = open_runs[0].ask()
                if number is None:
                    open_runs.pop(0)
            if number is None:
                return
            yield open_runs[0].study.name, number

    def _trials_of(self, asked: Iterable[tuple[str, int]]) -> list[str]:
        """Return the keys of the trials of new points; a point that the grid excludes ends."""
        keys = {
            (entry.study, entry.number): entry.trial
            for entry in self.opened.plan.asked
            if not entry.confirmed
        }
        refused = [point for point in asked if point not in keys]
        for name, number in (point for point in asked if point in keys):
            self._mine.setdefault(keys[name, number], []).append((name, number))
        for name, number in refused:
            self._runs[name].refuse(number, "the grid excludes this configuration")
        for name in {name for name, _ in refused}:
            self._runs[name].write()
        return [keys[point] for point in asked if point in keys]

    def _confirming(self, free: int) -> list[str]:
        """Return trials that confirm chosen points and that no driver runs, as many as are free."""
        asked = [entry for entry in self.opened.plan.asked if entry.confirmed]
        left = [entry for entry in asked if entry.trial not in self._confirmed]
        there = self.opened.storage.ledger.keys() if left else set()
        waiting = []
        for entry in left:
            trial = self.opened.plan.by_key[entry.trial]
            if there.issuperset(trial.evaluations.values()):
                self._confirmed.add(entry.trial)
            elif entry.study in self._over and entry.trial not in self._out:
                waiting.append((entry.study, entry.trial))
        claimed: list[str] = []
        for name, key in dict.fromkeys(waiting):
            if len(claimed) < free and self._runs[name].claim(f"{_CONFIRMS}{key}"):
                claimed.append(key)
        return claimed
