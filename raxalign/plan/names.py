"""Names of trials and cells: a method with those of its params that vary in the grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raxalign.analysis.cells import Cell
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
    return " ".join([cell.method, *axes, *searched_mark(cell, plan)])


def searched_mark(cell: Cell, plan: Plan) -> list[str]:
    """Return the mark of a cell whose params a search has chosen; nothing for another."""
    trials = (plan.by_key.get(key) for key in cell.trials)
    return ["(searched)"] if any(trial and trial.searched for trial in trials) else []


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
