"""The options that the methods, tasks and encoders of a plan have in effect, by their YAML names:
defaults are filled in, and options that other values make idle are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.trial import Trial

Options = dict[str, Any]
_SINGLE = (bool, int, float, str)


def method_options(plan: Plan) -> dict[str, list[Options]]:
    """Return the options of each method, one entry per point of the grid."""
    found: dict[str, dict[str, Options]] = {}
    for trial in plan.trials:
        points = found.setdefault(trial.method, {})
        points.setdefault(trial.cell, filled("methods", trial.kind, trial.params))
    points_of = {method: list(points.values()) for method, points in found.items()}
    return {
        method: [point for place, point in enumerate(points) if point not in points[:place]]
        for method, points in points_of.items()
    }


def task_options(plan: Plan) -> dict[str, Options]:
    """Return the options of each task, by the name that the grid gives it."""
    found: dict[str, Options] = {}
    for trial in plan.trials:
        for task, key in trial.evaluations.items():
            if task not in found and key in plan.stages:
                stage = plan.stages[key]
                params = stage.params["task"]
                assert isinstance(params, Mapping)
                found[task] = filled("tasks", stage.maker, params)
    return found


def encoder_options(plan: Plan) -> dict[str, Options]:
    """Return the kind and the options of each encoder, by its label."""
    found: dict[str, Options] = {}
    for trial in plan.trials:
        start = start_of(plan, trial) if trial.encoder not in found else None
        if start is not None:
            options = filled("encoders", start.maker, start.params)
            found[trial.encoder] = {"kind": start.maker, **options}
    return found


def start_of(plan: Plan, trial: Trial) -> Stage | None:
    """Return the stage of the encoder that a trial starts from; None where nothing of it is run."""
    keys = plan.aligned(trial)
    stage = plan.stages[keys[0]] if keys else None
    while stage is not None and stage.kind != "encoder":
        stage = plan.stages[stage.inputs.get("encoder") or stage.inputs["aligned"]]
    return stage


def filled(catalogue: str, maker: str, params: Mapping[str, Any]) -> Options:
    """Return the params of a plug-in, and the single values of its `LATER` options, which keys
    leave out at default. What is None or empty has no effect.
    """
    kinds = catalog(catalogue)
    later = kinds[maker].Params.later() if maker in kinds else {}
    single = {name: value for name, value in later.items() if isinstance(value, _SINGLE)}
    shown = {**params, **{name: value for name, value in single.items() if name not in params}}
    return {name: value for name, value in shown.items() if value is not None and value != {}}
