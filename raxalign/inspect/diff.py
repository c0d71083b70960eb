"""Two storages or grid files next to each other: what one alone has, and what differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.printing import counted, paragraph
from raxalign.store.storage import Storage
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import metric_name, rows

NEAR = 1e-6
"""Values that are this close count as equal."""
Place = tuple[str, ...]
"""What a trial or a value is of, whatever its key is: grid, method, params, encoder, languages,
sentences and seed; of a value also task, language, metric and split.
"""
_OF_TRIAL = 7  # parts of the place of a trial
_MOST = 10  # lines of one sort
_ABSENT = object()


@dataclass(frozen=True)
class ComparedSide:
    """The trials and values of a side, by place; `name` is what the user wrote."""

    name: str
    trials: Mapping[Place, tuple[Trial, Plan]]
    values: Mapping[Place, float]

    @property
    def grids(self) -> int:
        """The number of its grids."""
        return len({place[0] for place in self.trials})

    def nameless(self) -> ComparedSide:
        """Return the side without the names of grids."""
        trials = {("", *place[1:]): found for place, found in self.trials.items()}
        values = {("", *place[1:]): value for place, value in self.values.items()}
        return ComparedSide(self.name, trials, values)

    def named(self, place: Place) -> str:
        """Return a trial in words; its grid counts where it is named."""
        own = self if place[0] else self.nameless()
        trial, plan = own.trials[place]
        size = f" sentences {trial.sentences:,}" if trial.sentences is not None else ""
        return plan.trial_name(trial) + size

    @classmethod
    def read(cls, name: str, storage: str | None = None) -> ComparedSide:
        """Read a grid file, with the results that its storage (or the given one) has, or a storage,
        a folder or URL, with all its grids.

        Raises `RaxalignError` where there is nothing of that name, or the storage has no plan.
        """
        if "://" not in name and Path(name).is_file():
            opened = open_grid(name, storage=storage, allow_missing=True)
            return cls.of(name, [opened.plan], opened.storage)
        if "://" not in name and not Path(name).is_dir():
            raise RaxalignError(f"diff {name}: there is no such grid file or storage")
        found = Storage(name if "://" in name else str(Path(name).absolute()))
        plans = list(StoredPlans(found))
        if not plans:
            why = "has the plan of no grid" if found.files.names("") else "is empty"
            raise RaxalignError(f"diff {name}: this storage {why}: no grid has run in it")
        return cls.of(name, plans, found)

    @classmethod
    def of(cls, name: str, plans: Iterable[Plan], storage: Storage) -> ComparedSide:
        """Return the side of some plans, with their values in a storage."""

        def place(grid: str, facts: Mapping[str, Any]) -> Place:
            params = json.dumps(dict(facts["params"]), sort_keys=True, ensure_ascii=False)
            rest = (facts["encoder"], "+".join(facts["languages"]))
            return grid, facts["method"], params, *rest, str(facts["sentences"]), str(facts["seed"])

        trials: dict[Place, tuple[Trial, Plan]] = {}
        values: dict[Place, float] = {}
        # a grid may have run with fewer tasks or trials before; its largest plan comes last
        for plan in sorted(plans, key=lambda plan: len(plan.stages)):
            trials |= {place(plan.name, vars(trial)): (trial, plan) for trial in plan.trials}
            for row in rows(plan, storage.ledger):
                value = (row[part] for part in ("task", "lang", "metric", "split"))
                values[(*place(plan.name, row), *value)] = row["value"]
        return cls(name, trials, values)


@dataclass(frozen=True)
class Differences:
    """How two sides differ: how many trials both have, which one side alone has, what differs in
    the stages of those that both have (cause -> trials); how many values are the same or near
    (`NEAR`), which are apart (place, first and second value), and which one side alone has.
    """

    trials: int
    only: tuple[list[Place], ...]
    causes: Counter[str]
    same: int
    near: int
    apart: list[tuple[Place, float, float]]
    values_only: tuple[list[Place], ...]
    sides: tuple[ComparedSide, ComparedSide] = field(repr=False)

    @classmethod
    def of(cls, first: str, second: str, storage: str | None = None) -> Differences:
        """Compare what two names mean: grid files, with the results that their storages (or the
        given one) have, or storages. Raises `RaxalignError` where one means nothing.
        """
        return cls.between(ComparedSide.read(first, storage), ComparedSide.read(second, storage))

    @property
    def any(self) -> bool:
        """Whether the sides differ; values that are near do not."""
        return bool(any(self.only) or self.causes or self.apart or any(self.values_only))

    @classmethod
    def between(cls, first: ComparedSide, second: ComparedSide) -> Differences:
        """Compare two sides. Where each has one grid, the names of the grids do not count."""
        given = first, second
        if first.grids == second.grids == 1:
            first, second = first.nameless(), second.nameless()
        both = first.trials.keys() & second.trials.keys()
        causes: Counter[str] = Counter()
        for place in first.trials:
            if place in both:
                causes.update(set(_causes(first.trials[place], second.trials[place])))
        shared = [
            (place, value, second.values[place])
            for place, value in first.values.items()
            if place in second.values
        ]
        unequal = [(place, value, other) for place, value, other in shared if value != other]
        apart = [found for found in unequal if not abs(found[1] - found[2]) <= NEAR]
        sides = ((first, second), (second, first))
        only = tuple([p for p in one.trials if p not in other.trials] for one, other in sides)
        values_only = tuple(
            [p for p in one.values if p not in other.values and p[:_OF_TRIAL] in both]
            for one, other in sides
        )
        apart.sort(key=lambda found: -abs(found[1] - found[2]))
        same, near = len(shared) - len(unequal), len(unequal) - len(apart)
        return cls(len(both), only, causes, same, near, apart, values_only, given)

    def json(self) -> str:
        """Return the differences for programs."""
        data = {
            "trials": self.trials,
            "only_first": self.only[0],
            "only_second": self.only[1],
            "causes": dict(self.causes),
            "equal": self.same,
            "near": self.near,
            "apart": [{"of": place, "first": a, "second": b} for place, a, b in self.apart],
            "values_only_first": self.values_only[0],
            "values_only_second": self.values_only[1],
        }
        return json.dumps(data, ensure_ascii=False, indent=1)

    def text(self, width: int | None) -> str:
        """Return what differs between the two sides in words, with the largest differences of the
        values; `width` are the columns of the terminal (None: lines are not wrapped).
        """
        trials = counted(self.trials, "trial")
        if not self.any and not self.near:
            return f"equal: {trials} with the same keys, and {counted(self.same, 'value')}"
        (first, second), (one, other) = self.sides, self.only
        lines = [
            f"plan: {trials} in both, {len(one)} only in {first.name}, {len(other)} only in"
            f" {second.name}"
        ]
        for side, places in zip(self.sides, self.only, strict=True):
            lines += _some([f"  only in {side.name}: {side.named(place)}" for place in places])
        if self.causes:
            lines.append("what differs between the trials that both have (first or second):")
            causes = self.causes.most_common()
            lines += _some([f"  {why} ({counted(count, 'trial')})" for why, count in causes])
        lines.append(
            f"values: {self.same} equal, {self.near} within {NEAR:g}, {len(self.apart)} further"
            " apart"
        )
        apart = []
        for place, a, b in self.apart:
            task, lang, metric, split = place[_OF_TRIAL:]
            value = f"{metric_name(task, lang, metric, split)} of {first.named(place[:_OF_TRIAL])}"
            apart.append(f"  {value}: {a:.6g} and {b:.6g} ({NumberFormat.signed(b - a, 6)})")
        lines += _some(apart)
        for side, places in zip(self.sides, self.values_only, strict=True):
            lines += [f"{counted(len(places), 'value')} only in {side.name}"] if places else []
        return "\n".join(part for line in lines for part in paragraph(line, width))


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
        one, two = self.plans[0].stages[first], self.plans[1].stages[second]
        yield from _own_causes(one, two)
        for name in one.inputs.keys() & two.inputs.keys():
            yield from self.causes(one.inputs[name], two.inputs[name])
        for name, side in _in_one_alone(one.inputs, two.inputs):
            maker = one.maker if side == "first" else two.maker
            yield f"{one.kind} {maker}: the input {name} is read by the {side} only"


def _own_causes(first: Stage, second: Stage) -> Iterator[str]:
    """Yield what differs in two stages themselves, inputs apart."""
    name = f"{first.kind} {first.maker}"
    if (first.kind, first.maker) != (second.kind, second.maker):
        yield f"{name} or {second.kind} {second.maker}"
        return
    if first.version != second.version:
        yield f"{name}: VERSION {first.version} or {second.version}"
    for path, a, b in _unequal(first.params, second.params):
        shown = (
            "(not there)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
            for value in (a, b)
        )
        yield f"{name}: {path} {' or '.join(shown)}"
    for fact in ("precision", "base_precision"):
        a, b = getattr(first, fact), getattr(second, fact)
        if a != b:
            yield f"{name}: {fact} {a} or {b}"
    for data in sorted(first.digests.keys() | second.digests.keys()):
        a, b = (found.digests.get(data) for found in (first, second))
        if a != b:
            digests = " or ".join("none" if found is None else found[:12] for found in (a, b))
            yield f"{name}: the data {data} differs ({digests})"
    if first.task is not None and second.task is not None:
        yield from _own_causes(first.task, second.task)


def _in_one_alone(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names that the first or the second mapping alone has, and which it is."""
    yield from ((name, "first") for name in sorted(one.keys() - two.keys()))
    yield from ((name, "second") for name in sorted(two.keys() - one.keys()))


def _causes(first: tuple[Trial, Plan], second: tuple[Trial, Plan]) -> Iterator[str]:
    """Yield what differs in the stages behind two trials of one point."""
    (trial, plan), (other, its_plan) = first, second
    walk = Walk((plan, its_plan))
    if trial.aligned in plan.stages and other.aligned in its_plan.stages:
        yield from walk.causes(trial.aligned, other.aligned)
    for task in sorted(trial.evaluations.keys() & other.evaluations.keys()):
        yield from walk.causes(trial.evaluations[task], other.evaluations[task])
    for task, side in _in_one_alone(trial.evaluations, other.evaluations):
        yield f"the task {task} is in the {side} only"


def _unequal(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places in which nested params differ, with both values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in sorted(first.keys() | second.keys()):
            inner = f"{path}.{name}" if path else str(name)
            yield from _unequal(first.get(name, _ABSENT), second.get(name, _ABSENT), inner)
    elif first != second:
        yield path, first, second


def _some(lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return [*lines[:_MOST], *more]
