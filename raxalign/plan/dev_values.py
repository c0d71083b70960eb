"""What a search may see of a trial: its scores on development sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from raxalign.errors import RaxalignError
from raxalign.plan.results import trial_rows, with_added

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
