"""Where a search can end trials early: the training whose dev selections measure what the search
judges by, and why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from raxalign.catalog import catalog

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.study import Objective, Study
    from raxalign.plan.trial import Trial

_MEANS = ("avg", "avg_zero_shot")


def why_unwatched(
    grid: Grid, trial: Trial, stages: Mapping[str, Stage], objectives: Sequence[Objective]
) -> str:
    """Return in a clause why the trials of a study cannot be pruned; nothing where they can.

    Args:
        grid: The grid.
        trial: A trial of the study.
        stages: The stages of the plan, by key.
        objectives: What the study judges by.
    """
    objective = objectives[0]
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


def watched_languages(stage: Stage, objective: Objective) -> tuple[str, ...]:
    """Return the languages whose mean score an objective is, of those of its evaluation."""
    languages = tuple(str(lang) for lang in stage.params["languages"])  # type: ignore[union-attr]
    if objective.lang == "avg":
        return languages
    if objective.lang == "avg_zero_shot":
        return tuple(lang for lang in languages if lang != stage.params["pivot"])
    return (objective.lang,)


def pruning_studies(plan: Plan, trial: str) -> list[Study]:
    """Return the studies that may prune a trial: those that suggested it. There are none where the
    trial is wanted whole: by the grid itself, by a study that does not prune, or to confirm.
    """
    if plan.by_key[trial].searched is None:
        return []
    asked = [entry for entry in plan.asked if entry.trial == trial]
    names = {entry.study for entry in asked}
    found = [study for study in plan.studies if study.name in names]
    whole = any(entry.confirmed for entry in asked) or not all(study.prunes for study in found)
    return [] if whole else found
