"""What a search may see of a trial: its scores on development sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import MEANS
from raxalign.analysis.metrics import FEW, spoken
from raxalign.errors import RaxalignError
from raxalign.measured import Measured
from raxalign.plan.values.results import trial_rows, with_added

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.study import Objective
    from raxalign.plan.trial import Trial
    from raxalign.store.ledger import Ledger


class DevScores:
    """The scores of trials on development sets. No others can be read through it."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self._plan, self._ledger = plan, ledger

    def of(self, trial: Trial) -> dict[str, float]:
        """Return the scores of a trial on development sets, by ``task/lang/metric``."""
        there = [key for key in trial.evaluations.values() if self._ledger.has(key)]
        records = with_added(self._plan, self._ledger, self._ledger.read_many(there))
        return {
            f"{row['task']}/{row['lang']}/{row['metric']}": float(row["value"])
            for row in trial_rows(trial, records)
            if row["split"] == "dev"
        }


def judge(objectives: Sequence[Objective], trial: Trial, scores: DevScores) -> tuple[float, ...]:
    """Return the values of the objectives of a trial that is done.

    Raises `RaxalignError` where the trial has no development score of that name.
    """
    found = scores.of(trial)
    for objective in objectives:
        if objective.name in found:
            continue
        if objective.task in trial.untouched:
            why = f"{objective.task} reads nothing that {trial.method} changes"
        else:
            known = [name for name in found if name.startswith(f"{objective.task}/")] or list(found)
            why = f"there are: {', '.join(known)}" if known else "no task has any"
        raise RaxalignError(f"search.metric: no development score {objective.name} ({why})")
    return tuple(found[objective.name] for objective in objectives)


@dataclass(frozen=True)
class DevMean:
    """A trial's mean over languages on dev: of what it is, its value, and what is declared of its
    metric.
    """

    name: str
    value: float
    measured: Measured


def dev_mean(plan: Plan, trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> DevMean | None:
    """Return a trial's mean over languages on dev: of its first task that has one over enough
    pairs, by the task's main metric where that has them. None where no task has any. `records` are
    those of its evaluations, by key.
    """
    rows = [row for row in trial_rows(trial, records) if row["split"] == "dev"]
    for task in trial.evaluations:
        values: dict[str, dict[str, float]] = {}
        for row in rows:
            if row["task"] == task and row["lang"] not in MEANS:
                values.setdefault(row["metric"], {})[row["lang"]] = float(row["value"])
        shown = [name for name in values if plan.measured(task, name).role == "score"]
        if (main := plan.main_metric(task)) in shown:
            shown = [main, *shown]
        for metric in shown:
            counts = values.get(plan.count_of(task, metric), {})
            if not counts or max(counts.values()) >= FEW:
                found = values[metric].values()
                mean = math.fsum(found) / len(found)
                return DevMean(f"{task} {spoken(metric)}", mean, plan.measured(task, metric))
    return None
