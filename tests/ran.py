"""Grids whose trials run in this process, without Ray."""

from __future__ import annotations

from pathlib import Path

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.stages import Workshop
from raxalign.train.runtime import Runtime


def ran(path: Path) -> Opened:
    """A grid whose trials have run, with a storage next to its file and the plan where `grid`
    leaves it.
    """
    opened = open_grid(path, storage=str(path.parent / "storage"))
    StoredPlans(opened.storage).write(opened.plan)
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        workshop.run_trial(trial.key)
    return opened
