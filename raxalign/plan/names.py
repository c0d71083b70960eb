"""What trials and cells are called, and the options that they have in effect, by YAML names:
defaults are filled in, and options that other values make idle are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from raxalign.analysis.cells import Cell
from raxalign.catalog import catalog
from raxalign.config.axes import Axis
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial


def varying(plan: Plan, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a method's params that have several values in the grid."""
    return {axis: params[axis] for axis in plan.axes.get(method, ()) if axis in params}


def cell_name(cell: Cell, plan: Plan) -> str:
    """Return a cell's method with its varying params, as `results` prints it: ``rotation
    center=true``.
    """
    params = varying(plan, cell.method, cell.params)
    axes = (f"{axis}={plain(value)}" for axis, value in params.items())
    return " ".join([cell.method, *axes, *marks_of(cell, plan)])


def name_without_set(cell: Cell, plan: Plan) -> str:
    """Return the name of a cell without the set of languages that was aligned."""
    params = {name: value for name, value in cell.params.items() if name != Axis.LANGUAGES}
    return cell_name(replace(cell, params=params), plan)


def base_names(pairs: Iterable[tuple[Cell, Cell]], plan: Plan) -> list[str]:
    """Return the different names of baselines, each given after what is compared with it; without
    the set of languages where both always have the same one.
    """
    found = list(pairs)
    if all(base.set and base.set == cell.set for cell, base in found):
        names = [f"{name_without_set(base, plan)} of the same set" for _, base in found]
    else:
        names = [cell_name(base, plan) for _, base in found]
    return list(dict.fromkeys(names))


def searched_mark(cell: Cell, plan: Plan) -> list[str]:
    """Return the mark of a cell whose params a search has chosen; nothing for another."""
    trials = (plan.by_key.get(key) for key in cell.trials)
    return ["(searched)"] if any(trial and trial.searched for trial in trials) else []


def marks_of(cell: Cell, plan: Plan) -> list[str]:
    """Return `searched_mark`, and the mark of a cell that was trained together with a task."""
    trials = (plan.by_key.get(key) for key in cell.trials)
    joint = dict.fromkeys(task for trial in trials if trial for task in trial.joint)
    return [*searched_mark(cell, plan), *(f"(joint with {task})" for task in joint)]


def trial_name(trial: Trial, plan: Plan) -> str:
    """Return a trial's method with its varying params, its languages and its seed: ``rotation
    center=True de+fr seed 0``.
    """
    params = varying(plan, trial.method, trial.params)
    seed = [] if trial.seed is None else [f"seed {trial.seed}"]
    axes = [f"{axis}={value}" for axis, value in params.items()]
    return " ".join([trial.method, *axes, "+".join(trial.languages), *seed])


def ordered(langs: Iterable[str], plan: Plan) -> list[str]:
    """Return languages, or pairs of languages, as tables and figures show them: the pivot first,
    the others in the order of the grid, means last.
    """
    places = {lang: place for place, lang in enumerate(plan.languages)}

    def place(label: str) -> tuple[object, ...]:
        cuts = [len(label), *(at for at, sign in enumerate(label) if sign == "-")]
        first = next((label[:at] for at in cuts if label[:at] in places), label)
        ends = first, label[len(first) + 1 :]
        known = (places.get(lang, len(places)) for lang in ends)
        return label.startswith("avg"), label != plan.pivot, *known, label

    return sorted(langs, key=place)


def plain(value: object) -> str:
    """Write a param as a grid file has it, with numbers as short as they can be: ``0.1``,
    ``false``, ``{blocks: 1-6, embeddings: false}``.
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {plain(part)}' for name, part in value.items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


Options = dict[str, Any]
_SINGLE = (bool, int, float, str)


def method_options(plan: Plan) -> dict[str, list[Options]]:
    """Return the options of each method, one entry per point of the grid."""
    found: dict[str, list[Options]] = {}
    for trial in plan.trials:
        points, own = (
            found.setdefault(trial.method, []),
            filled("methods", trial.kind, trial.params),
        )
        if own not in points:
            points.append(own)
    return found


def task_options(plan: Plan) -> dict[str, Options]:
    """Return the options of each task, by the name that the grid gives it."""
    found: dict[str, Options] = {}
    for task, stage in plan.evaluated.items():
        params = stage.params["task"]
        assert isinstance(params, Mapping)
        found[task] = filled("tasks", stage.maker, params)
    return found


def encoder_options(plan: Plan) -> dict[str, Options]:
    """Return the kind and the options of each encoder, by its label."""
    found: dict[str, Options] = {}
    for trial in plan.trials:
        keys = plan.aligned(trial) if trial.encoder not in found else []
        start = plan.start_of(keys[0]) if keys else None
        if start is not None:
            options = filled("encoders", start.maker, start.params)
            found[trial.encoder] = {"kind": start.maker, **options}
    return found


def filled(catalogue: str, maker: str, params: Mapping[str, Any]) -> Options:
    """Return the params of a plug-in, and the single values of its `LATER` options, which keys
    leave out at default. What is None or empty has no effect.
    """
    kinds = catalog(catalogue)
    later = kinds[maker].Params.later() if maker in kinds else {}
    single = {name: value for name, value in later.items() if isinstance(value, _SINGLE)}
    shown = {**params, **{name: value for name, value in single.items() if name not in params}}
    return {name: value for name, value in shown.items() if value is not None and value != {}}
