"""Cells that are untouched: the method changes nothing that the task reads, so that tables have a
word and a reason in place of a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial

UNTOUCHED = "untouched"


def why(plan: Plan, cell: Cell, task: str) -> str | None:
    """Why a task was not run for a cell, as a sentence; None where it is the plan's to run."""
    trial = next((plan.by_key[key] for key in cell.trials if key in plan.by_key), None)
    found = trial.untouched.get(task) if trial is not None else None
    return (
        f"Untouched: {found.told([cell.method], [task])}; the result would be that of the encoder"
        " itself."
        if found is not None
        else None
    )


def idle_cells(plan: Plan) -> list[Cell]:
    """Return the cells of which nothing is run at all, so that no row of results has them."""
    groups: dict[str, list[Trial]] = {}
    for trial in plan.trials:
        if trial.untouched and not trial.evaluations:
            groups.setdefault(
                json.dumps(
                    [trial.method, trial.params, trial.encoder, trial.sentences], sort_keys=True
                ),
                [],
            ).append(trial)
    return [_cell(trials) for trials in groups.values()]


def _cell(trials: Iterable[Trial]) -> Cell:
    first, *others = trials
    return Cell(
        first.method,
        first.params,
        first.encoder,
        first.sentences,
        tuple(trial.key for trial in (first, *others)),
        {},
    )
