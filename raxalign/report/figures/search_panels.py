"""Searches as panels: what was found over time, what can be expected of so many trials, and what
the params have to do with it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raxalign.analysis.search import best_so_far, expected_best, expected_best_interval
from raxalign.config.spaces import Space, Value
from raxalign.measured import Declared, spoken
from raxalign.plan.study import Study
from raxalign.plan.tried import StudyRecord, Tried
from raxalign.report.cells.names import symbol
from raxalign.report.cells.numbers import Unit, unit_of
from raxalign.report.figures.panels import Curve, Dots, Panel, Points

FEW = 3
"""Trials below which a search has no figures."""
_MEANS = {"avg": "mean", "avg_zero_shot": "zero-shot mean"}


@dataclass(frozen=True)
class Seen:
    """A study with what it tried, its place among the methods (which gives its colour), and what is
    declared of its metrics.
    """

    study: Study
    record: StudyRecord
    colour: int
    measured: Declared

    def scores(self, objective: int = 0) -> list[float]:
        """Return the scores of all points that are done, in their order; shares in percent."""
        return [self.shown(entry, objective) for entry in self.record.done]

    def shown(self, entry: Tried, objective: int = 0) -> float:
        """Return a score of a point, in percent where it is a share."""
        return entry.scores[objective] * self.unit(objective).scale

    def spent(self) -> list[tuple[Tried, float]]:
        """Return the points that are done or pruned, in their order, each with its score. That of a
        pruned one is its last: at least that much it was worth.
        """
        last = [(entry, entry.stopped.score) for entry in self.record.pruned if entry.stopped]
        points = [*((entry, entry.scores[0]) for entry in self.record.done), *last]
        points.sort(key=lambda point: point[0].number)
        return [(entry, score * self.unit().scale) for entry, score in points]

    def unit(self, objective: int = 0) -> Unit:
        """Return the unit of an objective."""
        entry = self.study.objectives[objective]
        every = (other.scores[objective] for other in self.record.done)
        return unit_of(self.measured(entry.task, entry.metric), every)

    def signed(self, values: Sequence[float], objective: int = 0) -> list[float]:
        """Return values with the sign that makes larger ones better."""
        return [-v if self.study.objectives[objective].lower else v for v in values]

    def expected(self) -> tuple[list[float], list[tuple[float, float]]]:
        """Return the expected best of 1, 2, ... trials by the first objective, and the ends of its
        95 % intervals, the lower one first.
        """
        scores = self.signed([score for _, score in self.spent()])
        low, high = (self.signed(ends) for ends in expected_best_interval(scores))
        pairs = [(min(ends), max(ends)) for ends in zip(low, high, strict=True)]
        return self.signed(expected_best(scores)), pairs

    def named(self, objective: int = 0) -> str:
        """Return the name of an objective: ``xnli accuracy, zero-shot mean``."""
        entry = self.study.objectives[objective]
        return f"{entry.task} {spoken(entry.metric)}, {_MEANS.get(entry.lang, entry.lang)}"

    def axis(self, objective: int = 0) -> str:
        """Return the name of an objective on an axis: ``xnli accuracy, en, dev (%)``."""
        lower = ", lower is better" if self.study.objectives[objective].lower else ""
        percent = " (%)" if self.unit(objective).sign else ""
        return f"{self.named(objective)}, dev{lower}{percent}"

    @property
    def languages(self) -> str:
        """The languages of the study."""
        return "+".join(self.study.languages)

    @property
    def group(self) -> str:
        """What studies that can be compared have in common, the encoder apart."""
        return f"{self.languages}, {self.study.sentences:,} pairs"


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
            name, colour = entry.study.method, entry.colour
            curves.append(Curve(name, *_best_so_far(entry), colour=colour, steps="post"))
            points.append(Points("", numbers, scores, colour=colour))
        panels.append(Panel(title, "trial", group[0].axis(), curves, points, whole=True))
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
    its interval. Pruned trials count with their last scores, so that it is a lower bound where
    there are some.
    """
    panels = []
    for title, group in _groups(seen).items():
        curves = []
        for entry in group:
            best, ends = entry.expected()
            numbers = list(range(1, len(best) + 1))
            curves.append(Curve(entry.study.method, numbers, best, colour=entry.colour, band=ends))
        panels.append(Panel(title, "number of trials", group[0].axis(), curves, whole=True))
    return panels


def equal_effort(seen: Sequence[Seen]) -> list[str]:
    """Return one sentence per group of languages that several methods search: the expected best of
    as many trials as each of them has, with its 95 % interval.
    """
    told = []
    for title, group in _groups(seen).items():
        count = min(len(entry.record.done) for entry in group)
        found = []
        for entry in group:
            best, ends = entry.expected()
            at, (low, high) = best[count - 1], ends[count - 1]
            shown = replace(entry.unit(), scale=1.0)  # they are scaled already
            found.append(f"{entry.study.method} {shown.show(at)} {shown.show_interval(low, high)}")
        if len(group) > 1:
            what = f"expected best of {count} trials"
            told.append(f"{title}: {what} of each, {group[0].axis()}: {', '.join(found)}.")
    return told


def importances(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per method with the share of the scores' variance that each param
    explains.
    """
    panels = []
    for method, group in _by_method([e for e in seen if e.record.importance]).items():
        names = [space.name for space in group[0].study.spaces]
        dots: list[Dots] = []
        for entry in group:
            for place, objective in enumerate(entry.study.objectives):
                if (shares := entry.record.importance.get(objective.name)) is not None:
                    values = [100 * shares.get(name, math.nan) for name in names]
                    label = f"{entry.languages}: {entry.named(place)}"
                    dots.append(Dots(label, values, len(dots)))
        shown = [symbol(name) for name in names]
        panels.append(Panel(method, "", "share of variance (%)", dots=dots, names=shown))
    return panels


def slices(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per method and param: the score over the value, in one colour per group of
    languages.
    """
    panels = []
    for method, group in _by_method(seen).items():
        for space in group[0].study.spaces:
            clouds = []
            for number, entry in enumerate(group):
                xs = [_place(space, done.values[space.name]) for done in entry.record.done]
                name, colour = ("", entry.colour) if len(group) == 1 else (entry.group, number)
                clouds.append(Points(name, xs, entry.scores(), colour=colour))
            panel = Panel(method, symbol(space.name), group[0].axis(), points=clouds)
            panels.append(_along(panel, space))
    return panels


def _along(panel: Panel, space: Space) -> Panel:
    """The panel with the x axis of a space."""
    if space.kind == "choice":
        names = [json.dumps(c) if isinstance(c, bool) else str(c) for c in space.choices]
        panel = replace(panel, ticks=range(len(names)), tick_names=names)
    else:
        panel = replace(panel, ends=(space.low, space.high), whole=space.kind == "int")
    if space.log:
        ticks = _decades(space)
        panel = replace(panel, log=True, ticks=ticks, tick_names=[_short(tick) for tick in ticks])
    return panel


def _decades(space: Space) -> list[float]:
    """The powers of ten in a logarithmic space; of a short one its ends and its middle."""
    first, last = math.ceil(math.log10(space.low)), math.floor(math.log10(space.high))
    if last > first:
        return [10.0**power for power in range(first, last + 1)]
    return [space.low, math.sqrt(space.low * space.high), space.high]


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
            side: Literal["pre", "post"] = "post" if entry.study.objectives[0].lower else "pre"
            curves.append(Curve(entry.study.method, xs, ys, colour=entry.colour, steps=side))
            clouds.append(Points("", entry.scores(0), entry.scores(1), colour=entry.colour))
        panels.append(Panel(title, group[0].axis(0), group[0].axis(1), curves, clouds))
    return panels


def _by_method(seen: Sequence[Seen]) -> Mapping[str, list[Seen]]:
    return _grouped(seen, lambda entry: entry.study.method)


def _groups(seen: Sequence[Seen]) -> Mapping[str, list[Seen]]:
    """Studies that can be compared: of one encoder, languages and number of sentences."""
    several = len({entry.study.encoder for entry in seen}) > 1
    enough = [entry for entry in seen if len(entry.record.done) >= FEW]
    return _grouped(enough, lambda e: f"{e.group} [{e.study.encoder}]" if several else e.group)


def _grouped(seen: Sequence[Seen], by: Callable[[Seen], str]) -> Mapping[str, list[Seen]]:
    groups: dict[str, list[Seen]] = defaultdict(list)
    for entry in seen:
        groups[by(entry)].append(entry)
    return groups


def _place(space: Space, value: Value) -> float:
    return float(space.choices.index(value)) if space.kind == "choice" else float(value or 0)


def _short(value: float) -> str:
    """Two digits, in a form that is short: ``0.13``, ``1.6e-4``."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = int(exponent)
    return f"{value:.2g}" if -3 < power < 4 else f"{mantissa.removesuffix('.0')}e{power}"
