"""The comparisons with a baseline that a plan will make, and what they can see before a first run:
under stated assumptions, from a table, so that `plan` need not start scipy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import Cell
from raxalign.catalog import catalog
from raxalign.config.axes import Axis
from raxalign.plan.names import cell_name
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.predictions import Predictions

RUN_SD = 0.5
"""In points, by how much runs are assumed to differ."""
ASSUMPTIONS = (
    f"assumed: runs differ by {RUN_SD:g} points, and 1,000 examples, on 15 % of which one method"
    " alone is right; measured after a first run (--detect POINTS: what a difference takes,"
    " --run-sd: another assumption)"
)
_LESS = {
    0: (3.43,),
    1: (10.18, 3.88, 3.33, 3.15, 3.06, 3.01, 2.97, 2.95, 2.93),
    2: (12.79, 3.87, 3.04, 2.74, 2.57, 2.47, 2.4, 2.35, 2.31),
}
"""In points, by the number of trained sides: the smallest difference that four of five comparisons
find with 2, 3, 4, ... runs of each under `ASSUMPTIONS` (`analysis.power.Assumed`).
"""
MOST_LINES = 12


@dataclass(frozen=True)
class PlannedSides:
    """The mean over languages of one cell and task, and its baseline, as a plan will compare them.
    There is one side where both share their training, seed by seed.
    """

    task: str
    metric: str
    trials: tuple[Trial, ...]
    chance: tuple[bool, ...]  # of each side, whether its runs are chance
    runs: tuple[int, ...]  # the number of runs of those sides
    name: str

    @property
    def with_runs(self) -> str:
        """How many runs there are, in words."""
        several = "run" if self.runs == (1,) else "runs"
        return f" with {' and '.join(map(str, self.runs))} {several}" if self.runs else ""

    @property
    def tested(self) -> bool:
        """Whether there are two runs at least of what is trained: one is not tested."""
        return min(self.runs, default=2) > 1

    @property
    def assumed(self) -> float | None:
        """In points, the smallest difference that is found in four of five grids under
        `ASSUMPTIONS`; None where nothing is tested.
        """
        known = _LESS[len(self.runs)]
        return known[min(min(self.runs, default=2) - 2, len(known) - 1)] if self.tested else None


def planned_sides(plan: Plan) -> Iterator[PlannedSides]:
    """Yield the comparisons of a plan, of the main metric of each task where it is a share, with
    the method that leaves the encoder as it is.
    """
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in plan.trials:
        groups[trial.cell].append(trial)
    known = catalog("methods")
    bases = {
        _place(group[0]): group
        for group in groups.values()
        if group[0].kind in known and known[group[0].kind].is_baseline
    }
    reader = Predictions(plan, None)
    for group in groups.values():
        base = bases.get(_place(group[0]))
        if base is None or base is group:
            continue
        for task in group[0].evaluations:
            metric = plan.main_metric(task)
            if task not in base[0].evaluations or metric is None:
                continue
            if plan.measured(task, metric).unit == "share":
                yield _sides(plan, reader, (group, base), task, metric)


def _place(trial: Trial) -> tuple[str, object]:
    """The encoder of a trial and the languages that it aligns, within which cells are compared."""
    return trial.encoder, trial.params.get(Axis.LANGUAGES)


def _sides(
    plan: Plan, reader: Predictions, both: Sequence[Sequence[Trial]], task: str, metric: str
) -> PlannedSides:
    group, base = both
    sides = [group] if _paired(plan, group[0], base, task) else [group, base]
    chance = tuple(reader.has_chance(side[0].evaluations[task]) for side in sides)
    runs = [len({trial.seed for trial in side}) for side in sides]
    counts = tuple(n for n, trained in zip(runs, chance, strict=True) if trained)
    first = group[0]
    cell = Cell(first.method, first.params, first.encoder, first.sentences, (first.key,), {})
    name = cell_name(cell, plan)
    name += f" with {first.sentences:,} pairs" if first.sentences else ""
    return PlannedSides(task, metric, tuple(group), chance, counts, name)


def _paired(plan: Plan, trial: Trial, base: Sequence[Trial], task: str) -> bool:
    """Check whether both share their task's training, seed by seed."""
    keys = [trial.evaluations[task]]
    same = [o for o in base if (o.seed, o.languages) == (trial.seed, trial.languages)]
    keys += [other.evaluations[task] for other in same]
    trained = [plan.stages[key].inputs.get("trained") for key in keys]
    return len(trained) > 1 and trained[0] is not None and trained[0] == trained[1]


def assumed_lines(plan: Plan) -> Iterator[str]:
    """Yield what each comparison of a plan that has not run can see, under `ASSUMPTIONS`."""
    found = list(planned_sides(plan))
    if found:
        yield SEEN
    for one in found[:MOST_LINES]:
        yield f"  {one.task} ({one.metric}), {one.name}: {seen(one.assumed)}{one.with_runs}"
    yield from left_out(len(found))
    if found:
        yield ASSUMPTIONS


SEEN = "smallest difference of means that 4 of 5 such grids find, in points:"


def seen(smallest: float | None) -> str:
    """Write the smallest difference that is found, in points; None: one run is not tested."""
    return "not tested" if smallest is None else f"{smallest:.2g}"


def left_out(count: int) -> Iterator[str]:
    """Yield how many of so many comparisons have no line."""
    if count > MOST_LINES:
        yield f"  and {count - MOST_LINES:,} more (--detect POINTS shows all)"
