"""Two sides next to each other, each a storage or a grid file: which trials and values only one
has, why the keys of equal points differ, and by how much values do.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.plan.stored import stored_plans
from raxalign.plan.values.results import rows
from raxalign.store.storage import Storage

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.stage import Stage
    from raxalign.plan.trial import Trial

NEAR = 1e-6
"""Values that are this close count as equal."""
Place = tuple[str, ...]
"""What a trial or a value is of, whatever its key is."""


@dataclass(frozen=True)
class Side:
    """What is compared: the trials of some plans by their points, and the values of a ledger.

    Attributes:
        name: What the user called it.
        trials: Place -> the trial and its plan.
        values: Place -> value.
    """

    name: str
    trials: Mapping[Place, tuple[Trial, Plan]]
    values: Mapping[Place, float]

    @property
    def grids(self) -> int:
        """The number of its grids."""
        return len({place[0] for place in self.trials})

    def nameless(self) -> Side:
        """Return the side without the names of grids."""
        trials = {("", *place[1:]): found for place, found in self.trials.items()}
        values = {("", *place[1:]): value for place, value in self.values.items()}
        return Side(self.name, trials, values)


@dataclass(frozen=True)
class Differences:
    """How two sides differ.

    Attributes:
        trials: How many trials both have.
        only: The trials that one side alone has, first side and second side.
        causes: What differs in the stages of trials that both have -> how many trials.
        same: How many values are equal.
        near: How many differ by at most `NEAR`.
        apart: The values that differ by more: place, first and second value.
        values_only: The values that one side alone has of trials that both have.
    """

    trials: int
    only: tuple[list[Place], list[Place]]
    causes: Counter[str]
    same: int
    near: int
    apart: list[tuple[Place, float, float]]
    values_only: tuple[list[Place], list[Place]]

    @property
    def any(self) -> bool:
        """Whether the sides differ; values that are near do not."""
        return bool(any(self.only) or self.causes or self.apart or any(self.values_only))


def read_side(name: str, storage: str | None = None) -> Side:
    """Read a grid file, with the results that its storage has, or a storage with all its grids.

    Args:
        name: A grid file, a folder, or the URL of an object store.
        storage: The storage of grid files (None: the one that the file or the environment names).

    Raises:
        RaxalignError: There is nothing of that name, or the storage has no plan.
    """
    if "://" not in name and Path(name).is_file():
        opened = open_grid(name, storage=storage, allow_missing=True)
        return _side(name, [opened.plan], opened.storage)
    if "://" not in name and not Path(name).is_dir():
        raise RaxalignError(f"diff {name}: there is no such grid file or storage")
    found = Storage(name if "://" in name else str(Path(name).absolute()))
    plans = list(stored_plans(found))
    if not plans:
        why = "has the plan of no grid" if found.files.names("") else "is empty"
        raise RaxalignError(f"diff {name}: this storage {why}: no grid has run in it")
    return _side(name, plans, found)


def differences(first: Side, second: Side) -> Differences:
    """Compare two sides. Where each has one grid, the names of the grids do not count."""
    if first.grids == second.grids == 1:
        first, second = first.nameless(), second.nameless()
    both = [place for place in first.trials if place in second.trials]
    causes: Counter[str] = Counter()
    for place in both:
        causes.update(set(_causes(first.trials[place], second.trials[place])))
    shared = set(both)
    near, same, apart = 0, 0, []
    for place, value in first.values.items():
        if place not in second.values:
            continue
        other = second.values[place]
        if value == other:
            same += 1
        elif abs(value - other) <= NEAR:
            near += 1
        else:
            apart.append((place, value, other))
    apart.sort(key=lambda found: -abs(found[1] - found[2]))
    return Differences(
        len(both),
        (_lacking(first.trials, second.trials), _lacking(second.trials, first.trials)),
        causes,
        same,
        near,
        apart,
        (
            _of(_lacking(first.values, second.values), shared),
            _of(_lacking(second.values, first.values), shared),
        ),
    )


@dataclass
class Walk:
    """The causes of a difference between two stages: where inputs differ, they are the cause."""

    plans: tuple[Plan, Plan]
    seen: set[tuple[str, str]] = field(default_factory=set)

    def causes(self, first: str, second: str) -> Iterator[str]:
        """Yield what differs in two stages, by their keys, and in all that they read."""
        if first == second or (first, second) in self.seen:
            return
        self.seen.add((first, second))
        stages = self.plans[0].stages[first], self.plans[1].stages[second]
        yield from self.own_causes(*stages)
        inputs = stages[0].inputs, stages[1].inputs
        for name in inputs[0].keys() & inputs[1].keys():
            yield from self.causes(inputs[0][name], inputs[1][name])
        kind = stages[0].kind
        for name in sorted(inputs[0].keys() - inputs[1].keys()):
            yield f"{kind} {stages[0].maker}: the input {name} is read by the first only"
        for name in sorted(inputs[1].keys() - inputs[0].keys()):
            yield f"{kind} {stages[1].maker}: the input {name} is read by the second only"

    @staticmethod
    def own_causes(first: Stage, second: Stage) -> Iterator[str]:
        """Yield what differs in two stages themselves, inputs apart."""
        name = f"{first.kind} {first.maker}"
        if (first.kind, first.maker) != (second.kind, second.maker):
            yield f"{name} or {second.kind} {second.maker}"
            return
        if first.version != second.version:
            yield f"{name}: VERSION {first.version} or {second.version}"
        for path, a, b in _unequal(first.params, second.params):
            yield f"{name}: {path} {_shown(a)} or {_shown(b)}"
        if first.precision != second.precision:
            yield f"{name}: precision {first.precision} or {second.precision}"
        for data in sorted(first.digests.keys() | second.digests.keys()):
            a, b = first.digests.get(data), second.digests.get(data)
            if a != b:
                yield f"{name}: the data {data} differs ({_short(a)} or {_short(b)})"


def _causes(first: tuple[Trial, Plan], second: tuple[Trial, Plan]) -> Iterator[str]:
    """Yield what differs in the stages behind two trials of one point."""
    (trial, plan), (other, its_plan) = first, second
    walk = Walk((plan, its_plan))
    if trial.aligned in plan.stages and other.aligned in its_plan.stages:
        yield from walk.causes(trial.aligned, other.aligned)
    for task in sorted(trial.evaluations.keys() & other.evaluations.keys()):
        yield from walk.causes(trial.evaluations[task], other.evaluations[task])
    for task in sorted(trial.evaluations.keys() - other.evaluations.keys()):
        yield f"the task {task} is in the first only"
    for task in sorted(other.evaluations.keys() - trial.evaluations.keys()):
        yield f"the task {task} is in the second only"


_ABSENT = object()


def _unequal(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places in which nested params differ, with both values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted(first.keys() | second.keys()):
            inner = f"{path}.{name}" if path else str(name)
            yield from _unequal(first.get(name, _ABSENT), second.get(name, _ABSENT), inner)
    elif first != second:
        yield path, first, second


def _shown(value: Any) -> str:
    return "(not there)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _short(found: str | None) -> str:
    return "none" if found is None else found[:12]


def _side(name: str, plans: Iterable[Plan], storage: Storage) -> Side:
    trials: dict[Place, tuple[Trial, Plan]] = {}
    values: dict[Place, float] = {}
    by_grid: dict[str, list[Plan]] = defaultdict(list)
    for plan in plans:
        by_grid[plan.name].append(plan)
    ledger = storage.ledger
    for grid, versions in by_grid.items():
        # a grid may have run with fewer tasks or trials before; its largest plan comes last
        for plan in sorted(versions, key=lambda plan: len(plan.stages)):
            trials |= {_place(grid, vars(trial)): (trial, plan) for trial in plan.trials}
            values |= {
                (
                    *_place(grid, row),
                    *(row[name] for name in ("task", "lang", "metric", "split")),
                ): row["value"]
                for row in rows(plan, ledger)
            }
    return Side(name, trials, values)


def _place(grid: str, facts: Mapping[str, Any]) -> Place:
    """Return what a trial is of, in words: grid, method, params, encoder, languages, sentences,
    seed.
    """
    params = json.dumps(dict(facts["params"]), sort_keys=True, ensure_ascii=False)
    rest = (facts["encoder"], "+".join(facts["languages"]))
    numbers = (str(facts[name]) for name in ("sentences", "seed"))
    return (grid, facts["method"], params, *rest, *numbers)


def _lacking(first: Iterable[Place], second: Mapping[Place, Any]) -> list[Place]:
    return [place for place in first if place not in second]


def _of(values: Iterable[Place], trials: set[Place]) -> list[Place]:
    """Return the places of values whose trials are among these."""
    return [place for place in values if place[:7] in trials]
