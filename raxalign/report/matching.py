"""From a published row to the cell of the grid that measures it, by the rules of its data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from raxalign.analysis.cells import Cell, Name
from raxalign.catalog import Catalog
from raxalign.grid.published import Publication, PublishedTable, Rule
from raxalign.languages import respelled
from raxalign.tasks.translation.counts import shift_point
from raxalign.values.scoreboard import Scoreboard, why_untouched

_FILES = "local files"
_LAYER = re.compile(r"layer(\d+)_(\w+)")


@dataclass(frozen=True)
class RowMatch:
    """The cell that measures a row, how it differs from the published one, and was chosen."""

    cell: Cell
    differs: tuple[str, ...]
    chosen: str = ""


@dataclass(frozen=True)
class Matcher:
    """Finds the cells of a grid, and their values, that measure the rows of a publication."""

    results: Scoreboard
    publication: Publication

    def match(self, table: PublishedTable, row: str) -> RowMatch | None:
        """Return the cell for a row: of those for which all that must hold holds, one with the
        fewest differences, then the best on dev.
        """
        rules = [
            self.stand_in(rule)
            for column in table.columns
            if column not in table.means and (rule := table.rule(row, column)) is not None
        ]
        if not rules:
            return None
        look = self.sweep if rules[0].stem or rules[0].best_of else self.find
        fitting = [
            cell
            for cell in self.results.cells
            if self._fits(cell, rules[0])
            and any(rule.means_trials or look(cell, rule, table.split) for rule in rules)
        ]
        fitting = _of_size(fitting, table, row, rules[0])
        if not fitting:
            return None
        differences = {
            id(cell): Matcher.differing(cell.params, rules[0].prefers) for cell in fitting
        }
        fewest = min(len(found) for found in differences.values())
        nearest = [cell for cell in fitting if len(differences[id(cell)]) == fewest]
        best, how = self._best_on_dev(nearest, rules)
        if (param := rules[0].per_language) is not None:
            there = self.choices(best, rules[0])
            others = any(cell not in there for cell in nearest)
            rest = ", other params as the best on dev" if others else ""
            how = f"the grid's only {param}, which nothing chose{rest}"
            if len(there) > 1:
                how = (
                    f"{param} chosen for each language on its own dev set among {len(there)}"
                    f" values{rest}, so this is not a purely zero-shot result"
                )
        return RowMatch(best, tuple(differences[id(best)]), how)

    def stand_in(self, rule: Rule) -> Rule:
        """Return a rule without its encoder, where that is one of the publication's and the grid
        has none of these: any encoder then stands in for it.
        """
        named = rule.encoder is not None and {*rule.encoder} <= {*self.publication.encoder}
        if named and all(_differs(cell, self.publication.encoder) for cell in self.results.cells):
            return rule.model_copy(update={"encoder": None, "not_encoder": None})
        return rule

    def untouched(self, rule: Rule) -> str | None:
        """Return why what a rule means is not run: its task is untouched; else None."""
        tasks = [task for task in self.results.tasks if self._is_task(task, rule)]
        cells = [cell for cell in self.results.cells if self._fits(cell, rule)]
        reasons = (why_untouched(self.results.plan, cell, task) for cell in cells for task in tasks)
        return next((reason for reason in reasons if reason is not None), None)

    def find(self, cell: Cell, rule: Rule, split: str) -> list[Name]:
        """Return the names of a cell's values that a rule means, one for each of its metrics; on
        the other split where this one has none.
        """
        metrics = rule.metrics or ((rule.metric,) if rule.metric else ())
        for where in (split, "dev" if split == "test" else "test"):
            names = [self._name(cell, rule, metric, where) for metric in metrics]
            if found := [name for name in names if name is not None]:
                return found
        return []

    def sweep(self, cell: Cell, rule: Rule, split: str) -> dict[tuple[int, float], Name]:
        """Return of a rule over a sweep (layer, weight) -> the name of its score."""
        own, points = respelled(rule.lang or "", self.results.plan.languages), {}
        for name in cell.values:
            task, lang, metric, where = name
            point = _point(metric) if (where, lang) == (split, own) else None
            stem = rule.best_of or rule.stem
            if point is not None and point[2] == stem and self._is_task(task, rule):
                points[point[:2]] = name
        return points

    def other_encoder(self, rule: Rule | None, cell: Cell) -> str | None:
        """Return the encoder that was published, where that of a cell is another; else None."""
        labels = self.publication.encoder
        if rule is not None and rule.encoder is not None and {*rule.encoder} <= {*labels}:
            labels = rule.encoder
        return labels[0] if _differs(cell, labels) else None

    def choices(self, cell: Cell, rule: Rule) -> list[Cell]:
        """Return the cells that fit a rule and differ in nothing but the param that is chosen."""
        there = self.results.line(cell, rule.per_language or "")
        return [other for other in there if self._fits(other, rule)]

    def _name(self, cell: Cell, rule: Rule, metric: str, split: str) -> Name | None:
        """The value of the task that is most as expected; of equals the grid's first."""
        lang = respelled(rule.lang or "", self.results.plan.languages)
        names = [(task, lang, metric, split) for task in self.results.tasks]
        names = [name for name in names if name in cell.values and self._is_task(name[0], rule)]

        def differences(name: Name) -> int:
            return len(Matcher.differing(self.results.task_params.get(name[0], {}), rule.expects))

        return min(names, key=differences, default=None)

    def _is_task(self, task: str, rule: Rule) -> bool:
        if (
            rule.task is not None
            and Catalog.name_of(self.results.tasks.get(task, task)) not in rule.task
        ):
            return False
        if rule.name is not None and task not in rule.name:
            return False
        if self.results.plan.home_of(task) != self.results.plan.pivot:
            return False  # papers train on the pivot
        return _hold(self.results.task_params.get(task, {}), rule.task_params)

    def _fits(self, cell: Cell, rule: Rule) -> bool:
        kind = Catalog.name_of(self.results.kinds.get(cell.method, cell.method))
        if rule.method is not None and kind not in rule.method:
            return False
        if rule.encoder is not None and not any(part in cell.encoder for part in rule.encoder):
            return False
        if rule.not_encoder is not None and any(part in cell.encoder for part in rule.not_encoder):
            return False
        return _hold(cell.params, rule.params) and not any(
            _is(given(cell.params, name), value) for name, value in rule.not_params.items()
        )

    def _best_on_dev(self, cells: Sequence[Cell], rules: Sequence[Rule]) -> tuple[Cell, str]:
        """Of cells that fit alike the best on dev, else the first; and how it was chosen."""
        if len(cells) == 1:
            return cells[0], ""
        means = []
        for cell in cells:
            found = (name for rule in rules for name in self.find(cell, rule, "dev"))
            signed = [
                self.results.plan.measured(name[0], name[2]).sign * cell.values[name].mean
                for name in found
                if name[3] == "dev"
            ]
            means.append(math.fsum(signed) / len(signed) if signed else -math.inf)
        best = max(range(len(cells)), key=lambda index: means[index])
        if means[best] == -math.inf:
            return cells[0], f"the first of {len(cells)} configurations that fit"
        return cells[best], f"the best on dev of {len(cells)} configurations"

    @staticmethod
    def differing(have: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
        """Return what is not as wanted, in words; what has no such option does not differ."""
        return [
            f"{name}: {_shown(given(have, name))} (published: {_shown(value)})"
            for name, value in wanted.items()
            if name.partition(".")[0] in have and not _is(given(have, name), value)
        ]


def given(have: Mapping[str, Any], name: str) -> Any:
    """Return the value of an option, or a part of one that is a mapping (`freeze.blocks`).

    >>> given({"freeze": {"blocks": "lower"}}, "freeze.blocks"), given({}, "freeze")
    ('lower', None)
    """
    whole, _, part = name.partition(".")
    value = have.get(whole)
    if not part:
        return value
    return value.get(part) if isinstance(value, Mapping) else None


def _differs(cell: Cell, labels: Sequence[str]) -> bool:
    return not any(label in cell.encoder for label in labels)


def _point(metric: str) -> tuple[int, float, str] | None:
    """The layer, weight and stem of a score of a shift, or of a layer, which has no weight."""
    found = _LAYER.fullmatch(metric)
    return shift_point(metric) or ((int(found[1]), 0.0, found[2]) if found else None)


def _hold(have: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """An option that is not there counts as null, and as false."""
    return all(
        _is(given(have, name), value) or (name not in have and value is False)
        for name, value in wanted.items()
    )


def _is(have: Any, wanted: Any) -> bool:
    """Data given as files count as `local files`."""
    have = _FILES if isinstance(have, Mapping) else have
    return have in wanted if isinstance(wanted, tuple | list) else bool(have == wanted)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return _FILES
    if isinstance(value, tuple | list):
        return " or ".join(map(_shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _but_size(rule: Rule) -> dict[str, Any]:
    return rule.model_dump(exclude={"sentences"})


def _of_size(fitting: Sequence[Cell], table: PublishedTable, row: str, rule: Rule) -> list[Cell]:
    """Return the cells of the size that represents the row's: the same size, where the grid has any
    published one; else by rank from the largest, where the grid has as many sizes and all are
    smaller; else the nearest, each size representing one row.
    """
    if rule.sentences is None:
        return list(fitting)
    there = sorted({cell.sentences for cell in fitting if cell.sentences is not None})
    rules = [entry.match for entry in table.rows.values() if entry.match is not None]
    own = table.rows[row].match
    sizes = {found.sentences for found in rules if own and _but_size(found) == _but_size(own)}
    wanted = sorted(size for size in sizes if size is not None)
    size: int | None
    if not there or set(there) & set(wanted):
        size = rule.sentences if rule.sentences in there else None
    elif len(there) >= len(wanted) and there[-1] < wanted[0]:
        size = there[wanted.index(rule.sentences) - len(wanted)]
    else:
        # the nearest pairs first (by their ratio), each size of the grid for one published one
        pairs = ((abs(math.log(max(a, 1) / b)), -b, a) for a, b in product(there, wanted))
        nearest: dict[int, int] = {}
        for _, other, known in sorted(pairs):
            if -other not in nearest and known not in nearest.values():
                nearest[-other] = known
        size = nearest.get(rule.sentences)
    return [cell for cell in fitting if cell.sentences is None or cell.sentences == size]
