"""Searches as panels: what was found over time, what can be expected of so many trials, and what
the params have to do with it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

from raxalign.analysis.search import best_so_far
from raxalign.config.spaces import Space, Value
from raxalign.report.cells.names import symbol
from raxalign.report.figures.panels import Curve, Dots, Heat, Panel, Points
from raxalign.report.figures.seen_search import Seen

_BINS = 5
FEW = 3
"""Trials below which a search has no figures."""


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
        dots = [
            Dots(
                f"{_languages(entry)}: {entry.named(place)}",
                [
                    100 * entry.record.importance[objective.name].get(name, math.nan)
                    for name in names
                ],
            )
            for entry in group
            for place, objective in enumerate(entry.study.objectives)
            if objective.name in entry.record.importance
        ]
        coloured = [replace(entry, colour=number) for number, entry in enumerate(dots)]
        shown = [symbol(name) for name in names]
        panels.append(Panel(method, "", "share of variance (%)", dots=coloured, names=shown))
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
                name, colour = ("", entry.colour) if len(group) == 1 else (_group(entry), number)
                clouds.append(Points(name, xs, entry.scores(), colour=colour))
            panels.append(
                _sliced(Panel(method, symbol(space.name), group[0].axis()), space, clouds)
            )
    return panels


def _sliced(panel: Panel, space: Space, clouds: Sequence[Points]) -> Panel:
    if space.kind == "choice":
        panel = replace(panel, ticks=range(len(space.choices)), tick_names=_bin_names(space))
    else:
        panel = replace(panel, ends=(space.low, space.high), whole=space.kind == "int")
    if space.log:
        ticks = _decades(space)
        panel = replace(panel, log=True, ticks=ticks, tick_names=[_short(tick) for tick in ticks])
    return replace(panel, points=clouds)


def _decades(space: Space) -> list[float]:
    """The powers of ten in a logarithmic space; of a short one its ends and its middle."""
    first, last = math.ceil(math.log10(space.low)), math.floor(math.log10(space.high))
    if last > first:
        return [10.0**power for power in range(first, last + 1)]
    return [space.low, math.sqrt(space.low * space.high), space.high]


def contours(seen: Sequence[Seen]) -> list[Panel]:
    """Return one panel per study whose importances are known: the mean score over the two params
    that explain most, in parts of equal size (of equal ratios where a space is logarithmic).
    """
    panels = []
    for entry in (entry for entry in seen if entry.record.importance):
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
    heat = Heat(means, rows, columns, entry.axis())
    return Panel(title, symbol(across.name), symbol(up.name), heat=heat)


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
    methods: dict[str, list[Seen]] = defaultdict(list)
    for entry in seen:
        methods[entry.study.method].append(entry)
    return methods


def _groups(seen: Sequence[Seen]) -> Mapping[str, list[Seen]]:
    """Studies that can be compared: of one encoder, languages and number of sentences."""
    groups: dict[str, list[Seen]] = defaultdict(list)
    several = len({entry.study.encoder for entry in seen}) > 1
    for entry in seen:
        encoder = f" [{entry.study.encoder}]" if several else ""
        if len(entry.record.done) >= FEW:
            groups[f"{_group(entry)}{encoder}"].append(entry)
    return groups


def _group(entry: Seen) -> str:
    return f"{_languages(entry)}, {entry.study.sentences:,} pairs"


def _languages(entry: Seen) -> str:
    return "+".join(entry.study.languages)


def _place(space: Space, value: Value) -> float:
    return float(space.choices.index(value)) if space.kind == "choice" else float(value or 0)


def _bin(space: Space, value: Value) -> int:
    if space.kind == "choice":
        return space.choices.index(value)
    at, bins = _place(space, value), _bins(space)
    if space.kind == "int":
        return min(int((at - space.low) / (space.high - space.low + 1) * bins), bins - 1)
    low, high = space.low, space.high
    if space.log:
        low, high, at = math.log(low), math.log(high), math.log(at)
    return min(int((at - low) / (high - low) * bins), bins - 1)


def _bins(space: Space) -> int:
    """The number of parts of a range: one per whole number where these are few."""
    return min(_BINS, int(space.high - space.low) + 1) if space.kind == "int" else _BINS


def _bin_names(space: Space) -> list[str]:
    """The choices, the whole numbers of each part, or the middle of each part."""
    if space.kind == "choice":
        return [json.dumps(c) if isinstance(c, bool) else str(c) for c in space.choices]
    if space.kind == "int":
        parts: dict[int, list[int]] = defaultdict(list)
        for value in range(int(space.low), int(space.high) + 1):
            parts[_bin(space, value)].append(value)
        ends = [(part[0], part[-1]) for _, part in sorted(parts.items())]
        return [str(low) if low == high else f"{low}-{high}" for low, high in ends]
    bins = _bins(space)
    return [_short(float(space.at((n + 0.5) / bins) or 0)) for n in range(bins)]


def _short(value: float) -> str:
    """Two digits, in a form that is short: ``0.13``, ``1.6e-4``."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = int(exponent)
    return f"{value:.2g}" if -3 < power < 4 else f"{mantissa.removesuffix('.0')}e{power}"
