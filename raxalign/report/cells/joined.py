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
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.plan.load import Opened
from raxalign.plan.names import start_of
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial
from raxalign.report.terminal.differences import Walk

_Place = tuple[str, str]
"""A grid, and what it calls something."""
_BY_TASK = ("evaluations", "untouched", "outdated", "joint")
_MOST = 4  # causes that a remark names


def joined(grids: Sequence[Opened]) -> Opened:
    """Return several grids as one, named after all of them. It is for showing results alone:
    nothing of it is run.

    Raises `RaxalignError` where they have other pivots or storages, or the same name.
    """
    if len(grids) == 1:
        return grids[0]

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
    plan = _Join({opened.plan.name: opened.plan for opened in grids}).plan()
    published = tuple(dict.fromkeys(name for opened in grids for name in opened.grid.published))
    grid = replace(grids[0].grid, name=plan.name, published=published)
    return replace(grids[0], grid=grid, plan=plan, parts=tuple(grids))


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
        """The trials with their names in the joined plan, shared ones once with the tasks of all,
        and the params that vary of each method.
        """
        encoders, owned = self._encoders(), self._owned()
        trials: dict[tuple[str, str], Trial] = {}
        axes: dict[str, dict[str, None]] = defaultdict(dict)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                of = grid if (grid, trial.cell) in owned else ""
                method = f"{of}: {trial.method}" if of else trial.method
                known = trials.get((trial.key, method))
                by_task: dict[str, Any] = {
                    name: {
                        **(getattr(known, name) if known is not None else {}),
                        **{tasks[grid, task]: v for task, v in getattr(trial, name).items()},
                    }
                    for name in _BY_TASK
                }
                encoder = encoders[grid, trial.encoder]
                renamed = replace(trial, method=method, grid=of, encoder=encoder)
                trials[trial.key, method] = replace(known or renamed, **by_task)
                axes[method] |= dict.fromkeys(plan.axes.get(trial.method, ()))
        return tuple(trials.values()), {method: tuple(found) for method, found in axes.items()}

    def _pairs(self) -> Iterator[tuple[_Place, tuple[Plan, Plan]]]:
        """Yield the names and the plans of every two grids."""
        for (grid, plan), (other, its_plan) in combinations(self.plans.items(), 2):
            yield (grid, other), (plan, its_plan)

    def _say(self, what: str, grids: _Place, causes: Sequence[str]) -> None:
        found = list(dict.fromkeys(causes))
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        why = f" ({'; '.join(found[:_MOST])}{more})" if found else ""
        self.apart[f"{what} of {grids[0]} and of {grids[1]} differ{why}"] = None

    def _encoders(self) -> dict[_Place, str]:
        """(grid, encoder) -> its name in the joined plan."""
        starts: dict[_Place, dict[str, Stage]] = defaultdict(dict)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                start = start_of(plan, trial)
                starts[grid, trial.encoder] |= {start.key: start} if start is not None else {}
        differ = set()
        for grids, plans in self._pairs():
            for name in plans[0].encoders:
                one, two = starts[grids[0], name], starts.get((grids[1], name), {})
                if one and two and not one.keys() & two.keys():
                    differ.add(name)
                    causes = Walk(plans).causes(next(iter(one)), next(iter(two)))
                    self._say(f"the encoders {name}", grids, list(causes))
        return {(of, name): f"{of}: {name}" if name in differ else name for of, name in starts}

    def _tasks(self) -> dict[_Place, str]:
        """(grid, task) -> its name in the joined plan, by its grid where the tests differ."""
        made: dict[_Place, dict[str, Stage]] = defaultdict(dict)  # language -> an evaluation
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                for task, key in trial.evaluations.items():
                    made[grid, task] |= dict.fromkeys(trial.languages, plan.stages[key])
                for task in trial.untouched:
                    made[grid, task] |= {}
        differ = set()
        for grids, plans in self._pairs():
            for task in [task for owner, task in made if owner == grids[0]]:
                one, two = made[grids[0], task], made.get((grids[1], task))
                if not one or not two:
                    continue
                causes: list[str] = []
                for lang in (one.keys() & two.keys()) or {""}:
                    first, second = (f.get(lang) or next(iter(f.values())) for f in (one, two))
                    causes += _test_causes(plans, first, second, lang)
                others = {added.name: added for added in plans[1].added(task)}
                causes += [
                    f"the metric {added.name} has other options"
                    for added in plans[0].added(task)
                    if others.get(added.name, added) != added
                ]
                if causes:
                    differ.add(task)
                    self._say(f"the tests of {task}", grids, causes)
        return {(of, task): f"{of}: {task}" if task in differ else task for of, task in made}

    def _owned(self) -> set[_Place]:
        """The cells that are named by their grid: (grid, cell). All of them are but those that have
        the same trials in several.
        """
        cells: dict[_Place, dict[tuple[Any, ...], Trial]] = defaultdict(dict)
        for grid, plan in self.plans.items():
            for trial in plan.trials:
                cells[grid, trial.cell][trial.languages, trial.seed] = trial
        keys = {place: {trial.key for trial in points.values()} for place, points in cells.items()}
        shared = set()
        for grids, plans in self._pairs():
            causes: list[str] = []
            for cell in {cell for of, cell in cells if of == grids[0]}:
                one, two = (grids[0], cell), (grids[1], cell)
                if keys[one] == keys.get(two):
                    shared |= {one, two}
                    continue
                for point in cells[one].keys() & cells.get(two, {}).keys():
                    ends = cells[one][point].aligned, cells[two][point].aligned
                    if ends[0] in plans[0].stages and ends[1] in plans[1].stages:
                        causes += Walk(plans).causes(*ends)
            if causes:
                self._say("trainings with the same options", grids, sorted(causes))
        return set(cells) - shared


def _test_causes(plans: tuple[Plan, Plan], first: Stage, second: Stage, lang: str) -> Iterator[str]:
    """Yield what differs in what two evaluations of a language measure."""
    one, two = _of_language(first, lang), _of_language(second, lang)
    walk = Walk(plans)
    yield from walk.own_causes(one, two)
    for name in one.inputs.keys() & two.inputs.keys():
        yield from walk.causes(one.inputs[name], two.inputs[name])


def _of_language(stage: Stage, lang: str) -> Stage:
    """An evaluation with what concerns one language, in the encoder's precision."""
    params: dict[str, Any] = dict(stage.params)
    others = tuple(f"/{other}" for other in params.pop("languages", ()) if other != lang)

    def own(found: Mapping[str, str]) -> dict[str, str]:
        left = {name for name in found if name.endswith(others) or name in ("aligned", "trained")}
        return {name: value for name, value in found.items() if name not in left}

    params.pop("seed", None)
    if "sources" in params:
        params["sources"] = own(params["sources"])
    inputs, digests = own(stage.inputs), own(stage.digests)
    alike: dict[str, Any] = {"precision": "fp32", "base_precision": "fp32"}
    return replace(stage, params=params, inputs=inputs, digests=digests, **alike)
