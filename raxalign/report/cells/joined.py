"""Several grids as one plan, so that one table shows them and one correction is over all of it.

Nothing is taken for equal by its name. Two grids share a line where its trials are the same ones,
an encoder where it is the same one, and a table where the tests are the same; whatever else has
one name is named by its grid as well, and what differs is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeVar

from raxalign.errors import RaxalignError
from raxalign.plan.load import Opened
from raxalign.plan.names import start_of
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.report.terminal.differences import Walk

_T = TypeVar("_T")
_Place = tuple[str, str]
"""A grid, and what it calls something."""
_MOST = 4  # causes that a remark names


def joined(grids: Sequence[Opened]) -> Opened:
    """Return several grids as one, named after all of them. It is for showing results alone:
    nothing of it is run.

    Raises `RaxalignError` where they have other pivots or storages, or the same name.
    """
    if len(grids) == 1:
        return grids[0]
    first = grids[0]
    _refuse_other(grids)
    plan = _Join({opened.plan.name: opened.plan for opened in grids}).plan()
    published = tuple(dict.fromkeys(name for opened in grids for name in opened.grid.published))
    grid = replace(first.grid, name=plan.name, published=published)
    return replace(first, grid=grid, plan=plan, parts=tuple(grids))


def _refuse_other(grids: Sequence[Opened]) -> None:
    """Raise `RaxalignError` for grids that cannot stand in one table."""

    def shown(facts: Sequence[str]) -> str:
        both = zip(grids, facts, strict=True)
        return ", ".join(f"{opened.grid.path}: {fact}" for opened, fact in both)

    pivots, roots = [one.plan.pivot for one in grids], [one.storage.root for one in grids]
    names = [opened.plan.name for opened in grids]
    if len(set(pivots)) > 1:
        raise RaxalignError(f"one table is of grids with one pivot; {shown(pivots)}")
    if len(set(roots)) > 1:
        option = "(--storage names one for all)"
        raise RaxalignError(f"one table is of grids with one storage {option}; {shown(roots)}")
    if len(set(names)) < len(names):
        raise RaxalignError(f"grids in one table need names of their own (`name`); {shown(names)}")


@dataclass
class _Join:
    """Joins plans, by their names."""

    plans: Mapping[str, Plan]
    apart: dict[str, None] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return the plan of all."""
        tasks = self._tasks()
        trials, axes, plans = *self._trials(tasks), self.plans.items()
        metrics = (
            replace(added, task=tasks[grid, added.task])
            for grid, plan in plans
            for added in plan.metrics
            if (grid, added.task) in tasks
        )
        return Plan(
            name="+".join(self.plans),
            pivot=next(iter(self.plans.values())).pivot,
            points=sum(plan.points for _, plan in plans),
            trials=trials,
            stages={key: stage for _, plan in plans for key, stage in plan.stages.items()},
            axes=axes,
            merged=tuple(f"{grid}: {line}" for grid, plan in plans for line in plan.merged),
            plugins=tuple(dict.fromkeys(file for _, plan in plans for file in plan.plugins)),
            metrics=tuple(dict.fromkeys(metrics)),
            apart=tuple(self.apart),
        )

    def _trials(
        self, tasks: Mapping[_Place, str]
    ) -> tuple[tuple[Trial, ...], dict[str, tuple[str, ...]]]:
        """The trials with their names in the joined plan, shared ones once, and the params that
        vary of each method.
        """
        encoders, owned = self._encoders(), self._owned()
        trials: dict[tuple[str, str], Trial] = {}
        axes: dict[str, dict[str, None]] = defaultdict(dict)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                of = grid if (grid, trial.cell) in owned else ""
                renamed = replace(
                    trial,
                    method=f"{of}: {trial.method}" if of else trial.method,
                    grid=of,
                    encoder=encoders[grid, trial.encoder],
                    evaluations=_renamed(trial.evaluations, grid, tasks),
                    untouched=_renamed(trial.untouched, grid, tasks),
                    outdated=_renamed(trial.outdated, grid, tasks),
                )
                place = renamed.key, renamed.method
                trials[place] = _both(trials[place], renamed) if place in trials else renamed
                axes[renamed.method] |= dict.fromkeys(plan.axes.get(trial.method, ()))
        return tuple(trials.values()), {method: tuple(found) for method, found in axes.items()}

    def _say(self, what: str, first: str, second: str, causes: Sequence[str]) -> None:
        found = list(dict.fromkeys(causes))
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        why = f" ({'; '.join(found[:_MOST])}{more})" if found else ""
        self.apart[f"{what} of {first} and of {second} differ{why}"] = None

    def _named(self, names: set[_Place], differ: set[str]) -> dict[_Place, str]:
        """What each is called in the joined plan: by its grid as well where it differs."""
        return {(grid, name): f"{grid}: {name}" if name in differ else name for grid, name in names}

    def _encoders(self) -> dict[_Place, str]:
        starts: dict[_Place, dict[str, Stage]] = defaultdict(dict)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                start = start_of(plan, trial)
                starts[grid, trial.encoder] |= {start.key: start} if start is not None else {}
        differ = set()
        for (grid, plan), (other, its_plan) in combinations(self.plans.items(), 2):
            for name in plan.encoders:
                one, two = starts[grid, name], starts.get((other, name), {})
                if one and two and not one.keys() & two.keys():
                    differ.add(name)
                    causes = Walk((plan, its_plan)).causes(next(iter(one)), next(iter(two)))
                    self._say(f"the encoders {name}", grid, other, list(causes))
        return self._named(set(starts), differ)

    def _tasks(self) -> dict[_Place, str]:
        """The tasks: one that reads other data or has other options is another one."""
        made: dict[_Place, dict[str, Stage]] = defaultdict(dict)  # language -> an evaluation
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                for task, key in trial.evaluations.items():
                    made[grid, task] |= dict.fromkeys(trial.languages, plan.stages[key])
                for task in trial.untouched:
                    made[grid, task] |= {}
        differ = set()
        for (grid, plan), (other, its_plan) in combinations(self.plans.items(), 2):
            for (owner, task), one in list(made.items()):
                two = made.get((other, task))
                if owner != grid or not one or not two:
                    continue
                causes: list[str] = []
                for lang in (one.keys() & two.keys()) or {""}:
                    first, second = (f.get(lang) or next(iter(f.values())) for f in (one, two))
                    causes += _test_causes((plan, its_plan), first, second, lang)
                causes += _metric_causes(plan, its_plan, task)
                if causes:
                    differ.add(task)
                    self._say(f"the tests of {task}", grid, other, causes)
        return self._named(set(made), differ)

    def _owned(self) -> set[_Place]:
        """The cells that are named by their grid: (grid, cell). All of them are but those that have
        the same trials in several.
        """
        cells: dict[_Place, set[str]] = defaultdict(set)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                cells[grid, trial.cell].add(trial.key)
        shared = set()
        for (grid, plan), (other, its_plan) in combinations(self.plans.items(), 2):
            causes: list[str] = []
            for cell in {cell for of, cell in cells if of == grid}:
                if cells[grid, cell] == cells.get((other, cell)):
                    shared |= {(grid, cell), (other, cell)}
                else:
                    causes += _training_causes((plan, its_plan), cell)
            if causes:
                self._say("trainings with the same options", grid, other, sorted(causes))
        return set(cells) - shared


def _renamed(by_task: Mapping[str, _T], grid: str, tasks: Mapping[_Place, str]) -> dict[str, _T]:
    return {tasks[grid, task]: value for task, value in by_task.items()}


def _both(one: Trial, other: Trial) -> Trial:
    """A trial that two grids share, with the tasks of both."""
    return replace(
        one,
        evaluations={**one.evaluations, **other.evaluations},
        untouched={**one.untouched, **other.untouched},
        outdated={**one.outdated, **other.outdated},
    )


def _test_causes(plans: tuple[Plan, Plan], first: Stage, second: Stage, lang: str) -> Iterator[str]:
    """Yield what differs in what two evaluations of a language measure: not in the encoder, the
    training or the seed.
    """
    one, two = _of_language(first, lang), _of_language(second, lang)
    walk = Walk(plans)
    yield from walk.own_causes(one, two)
    for name in one.inputs.keys() & two.inputs.keys():
        yield from walk.causes(one.inputs[name], two.inputs[name])


def _of_language(stage: Stage, lang: str) -> Stage:
    """An evaluation with what concerns one language, and all of them; the precision is that of the
    encoder.
    """
    params: dict[str, Any] = dict(stage.params)
    others = {f"/{other}" for other in params.pop("languages", ()) if other != lang}

    def own(found: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in found.items()
            if not name.endswith(tuple(others)) and name not in ("aligned", "trained")
        }

    params.pop("seed", None)
    if "sources" in params:
        params["sources"] = own(params["sources"])
    inputs, digests = own(stage.inputs), own(stage.digests)
    return replace(stage, params=params, inputs=inputs, digests=digests, precision="fp32")


def _metric_causes(plan: Plan, other: Plan, task: str) -> Iterator[str]:
    """Yield the added metrics of a task that have one name and are not the same."""
    found = {added.name: added for added in other.added(task)}
    for added in plan.added(task):
        if found.get(added.name, added) != added:
            yield f"the metric {added.name} has other options"


def _training_causes(plans: tuple[Plan, Plan], cell: str) -> Iterator[str]:
    """Yield what differs in the alignments of equal points of a cell."""
    first, second = (
        {(trial.languages, trial.seed): trial for trial in plan.trials if trial.cell == cell}
        for plan in plans
    )
    for point in first.keys() & second.keys():
        keys = first[point].aligned, second[point].aligned
        if keys[0] in plans[0].stages and keys[1] in plans[1].stages:
            yield from Walk(plans).causes(*keys)
