"""Whether a search can end trials early: whether a training makes dev selections that measure what
the search judges by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from raxalign.catalog import catalog
from raxalign.store.key import digest

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.plan.stage import Stage
    from raxalign.plan.study import Objective, Study
    from raxalign.plan.trial import Trial

_MEANS = ("avg", "avg_zero_shot")


def with_pruning(study: Study, grid: Grid, corner: Trial, stages: Mapping[str, Stage]) -> Study:
    """Return a study that knows why its pruner cannot act; where it can, its name depends on the
    pruner.

    Args:
        study: The study.
        grid: The grid.
        corner: The trial that it stands for.
        stages: The stages of the plan, by key.
    """
    if not study.pruner.prunes:
        return study
    why = _why_not(grid, corner, stages, study.objectives[0])
    stem = study.name.rpartition("-")[0]
    name = f"{stem}-{digest([study.name, study.pruner.model_dump()])[:12]}"
    return replace(study, unwatched=why) if why else replace(study, name=name)


def _why_not(grid: Grid, trial: Trial, stages: Mapping[str, Stage], objective: Objective) -> str:
    """Return in a clause why a trial cannot be pruned; nothing where it can."""
    spec = next(spec for spec in grid.tasks if spec.name == objective.task)
    evaluation = trial.evaluations.get(objective.task)
    if evaluation is None:
        return f"{objective.task} reads nothing that {trial.method} changes"
    if catalog("tasks")[spec.kind].measured(objective.metric) is None:
        return f"{objective.metric} is computed after the evaluation"
    stage = stages[evaluation]
    if "trained" not in stage.inputs:
        return (
            f"{objective.task} has no training, so {objective.metric} is measured once, at the end"
        )
    if "aligned" not in stages[stage.inputs["trained"]].inputs:
        return f"all trials share one training of {objective.task}"
    if not stage.plugin().watches(objective.metric):
        return f"the training of {objective.task} makes no dev selections by {objective.metric}"
    languages = stage.params["languages"]
    if objective.lang not in (*_MEANS, *languages):  # type: ignore[misc]
        return f"{objective.lang} is not one of the languages that {objective.task} scores"
    return ""
