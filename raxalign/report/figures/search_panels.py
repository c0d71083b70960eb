"""Searches as panels: what was found over time, what can be expected of so many trials, and what
the params have to do with it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from raxalign.analysis.effort import best_so_far, expected_best, expected_best_interval
from raxalign.analysis.metrics import spoken
from raxalign.config.spaces import Space, Value
from raxalign.plan.study import Study
from raxalign.plan.tried import StudyRecord, Tried
from raxalign.report.figures.panels import Bars, Curve, Heat, Panel, Points

_BINS = 5
FEW = 3
"""Trials below which a search has no figures."""


@dataclass(frozen=True)
class Seen:
    """A study with what it tried, and its place among the methods (which gives its colour)."""

    study: Study
    record: StudyRecord
    colour: int

    def scores(self, objective: int = 0) -> list[float]:
        """Return the scores of all points that are done, in their order; shares in percent."""
        return [self.shown(entry, objective) for entry in self.record.done]

    def shown(self, entry: Tried, objective: int = 0) -> float:
        """Return a score of a point, in percent where all are shares."""
        return entry.scores[objective] * self._factor(objective)

    def spent(self) -> list[tuple[Tried, float]]:
        """Return the points that are done or pruned, in their order, each with its score. That of a
        pruned one is its last: at least that much it was worth.
        """
        last = [(entry, entry.stopped.score) for entry in self.record.pruned if entry.stopped]
        points = [*((entry, entry.scores[0]) for entry in self.record.done), *last]
        points.sort(key=lambda point: point[0].number)
        return [(entry, score * self._factor(0)) for entry, score in points]

    def _factor(self, objective: int) -> float:
        every = [abs(other.scores[objective]) for other in self.record.done]
        return 100 if max(every) <= 1 else 1

    def signed(self, values: Sequence[float], objective: int = 0) -> list[float]:
        """Return values with the sign that makes larger ones better."""
        return [-v if self.study.objectives[objective].lower else v for v in values]

    def axis(self, objective: int = 0) -> str:
        """Return the name of an objective on an axis."""
        entry = self.study.objectives[objective]
        percent = " (%)" if self._factor(objective) == 100 else ""
        return f"{entry.task} {spoken(entry.metric)}{percent}"


def history(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per group of languages: the score of every trial that came to its end, and
    the best so far of each method, over all trials.
    """
    panels = []
    for title, group in _groups(seen).items():
        curves, points = [], []
        for entry in group:
            scores = entry.scores()
            numbers = [done.number + 1 for done in entry.record.done]
            curves.append(Curve(entry.study.method, *_best_so_far(entry), colour=entry.colour))
            points.append(Points("", numbers, scores, colour=entry.colour))
        panels.append(Panel(title, "trials", group[0].axis(), curves, points))
    return panels


def _best_so_far(entry: Seen) -> tuple[list[int], list[float]]:
    """Return the numbers of the trials from the first one that is done, and the best up to each. A
    pruned trial was spent and raises nothing.
    """
    scores = dict(zip((done.number for done in entry.record.done), entry.scores(), strict=True))
    first = min(scores)
    numbers = [tried.number for tried, _ in entry.spent() if tried.number >= first]
    known, values = scores[first], []
    for number in numbers:
        known = scores.get(number, known)
        values.append(known)
    best = entry.signed(best_so_far(entry.signed(values)))
    return [number + 1 for number in numbers], best


def expectations(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per group of languages: the expected best of n trials of each method, with
    the half width of its interval. Pruned trials count with their last scores, so that it is a
    lower bound where there are some.
    """
    panels = []
    for title, group in _groups(seen).items():
        curves = []
        for entry in group:
            scores = entry.signed([score for _, score in entry.spent()])
            low, high = expected_best_interval(scores)
            spread = [(top - bottom) / 2 for bottom, top in zip(low, high, strict=True)]
            best = entry.signed(expected_best(scores))
            numbers = list(range(1, len(scores) + 1))
            curves.append(Curve(entry.study.method, numbers, best, spread, colour=entry.colour))
        panels.append(Panel(title, "trials", group[0].axis(), curves))
    return panels


def importances(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per method with the share of the scores' variance that each param
    explains.
    """
    panels = []
    methods: dict[str, list[Seen]] = defaultdict(list)
    for entry in seen:
        if entry.record.importance:
            methods[entry.study.method].append(entry)
    for method, group in methods.items():
        names = [space.name for space in group[0].study.spaces]
        bars = [
            Bars(
                f"{_languages(entry)} {objective.split('/')[1]}",
                [100 * shares.get(name, math.nan) for name in names],
                colour=number,
            )
            for number, (entry, objective, shares) in enumerate(
                (entry, objective, shares)
                for entry in group
                for objective, shares in entry.record.importance.items()
            )
        ]
        panels.append(Panel(method, "", "share of variance (%)", bars=bars, names=names))
    return panels


def slices(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per method, languages and param: the score over the value."""
    panels = []
    for entry in seen:
        for space in entry.study.spaces:
            values = [done.values[space.name] for done in entry.record.done]
            xs = [_place(space, value) for value in values]
            cloud = Points("", xs, entry.scores(), colour=entry.colour)
            title = f"{entry.study.method} {_languages(entry)}"
            label = space.name
            if space.kind == "choice":
                label += f": {', '.join(f'{n}={c}' for n, c in enumerate(space.choices))}"
            panels.append(Panel(title, label, entry.axis(), points=[cloud], log=space.log))
    return panels


def contours(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per study: the mean score over the two params that explain most, in parts of
    equal size (of equal ratios where a space is logarithmic).
    """
    panels = []
    for entry in seen:
        shares = entry.record.importance.get(entry.study.objectives[0].name, {})
        ranked = sorted(entry.study.spaces, key=lambda space: -shares.get(space.name, 0.0))
        for across, up in [*combinations(ranked[:2], 2)]:
            panels.append(_contour(entry, across, up))
    return panels


def _contour(entry: Seen, across: Space, up: Space) -> Panel:
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for done, score in zip(entry.record.done, entry.scores(), strict=True):
        cell = (_bin(up, done.values[up.name]), _bin(across, done.values[across.name]))
        cells[cell].append(score)
    rows, columns = _bin_names(up), _bin_names(across)
    means = [
        [
            sum(cells[row, column]) / len(cells[row, column])
            if (row, column) in cells
            else math.nan
            for column in range(len(columns))
        ]
        for row in range(len(rows))
    ]
    title = f"{entry.study.method} {_languages(entry)}"
    return Panel(title, across.name, up.name, heat=Heat(means, rows, columns))


def fronts(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per group of languages, of studies with two objectives: all points, and the
    front of each method.
    """
    panels = []
    two = [entry for entry in seen if len(entry.study.objectives) == 2]
    for title, group in _groups(two).items():
        curves, clouds = [], []
        for entry in group:
            front = sorted(entry.record.chosen, key=lambda done: done.scores[0])
            xs = [entry.shown(done, 0) for done in front]
            ys = [entry.shown(done, 1) for done in front]
            curves.append(Curve(entry.study.method, xs, ys, colour=entry.colour))
            clouds.append(Points("", entry.scores(0), entry.scores(1), colour=entry.colour))
        labels = [f"{o.lang} {group[0].axis(n)}" for n, o in enumerate(group[0].study.objectives)]
        panels.append(Panel(title, labels[0], labels[1], curves, clouds))
    return panels


def _groups(seen: Sequence[Seen]) -> Mapping[str, list[Seen]]:
    """Studies that can be compared: of one encoder, languages and number of sentences."""
    groups: dict[str, list[Seen]] = defaultdict(list)
    several = len({entry.study.encoder for entry in seen}) > 1
    for entry in seen:
        encoder = f" [{entry.study.encoder}]" if several else ""
        title = f"{_languages(entry)}, {entry.study.sentences:,} pairs{encoder}"
        if len(entry.record.done) >= FEW:
            groups[title].append(entry)
    return groups


def _languages(entry: Seen) -> str:
    return "+".join(entry.study.languages)


def _place(space: Space, value: Value) -> float:
    return float(space.choices.index(value)) if space.kind == "choice" else float(value or 0)


def _bin(space: Space, value: Value) -> int:
    if space.kind == "choice":
        return space.choices.index(value)
    low, high, at = space.low, space.high, _place(space, value)
    if space.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return min(int((at - low) / (high - low) * _BINS), _BINS - 1)


def _bin_names(space: Space) -> list[str]:
    if space.kind == "choice":
        return [json.dumps(c) if isinstance(c, bool) else str(c) for c in space.choices]
    ends = [space.at((number + 0.5) / _BINS) for number in range(_BINS)]
    return [f"{end:.2g}" for end in ends]
