"""How methods transfer: what they gain over the original encoder in each language, what that costs
in the pivot, and how strongly word retrieval goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.correlation import Correlation, correlate
from raxalign.report.cells.choice import (
    baseline,
    best_on_dev,
    colour_of,
    of_encoder,
    of_methods,
    single_languages,
    titled,
    transfer_tasks,
)
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.numbers import FEW, Unit
from raxalign.report.cells.results import Results
from raxalign.report.document import EMPTY, Entry, Line, Part, Share, Table
from raxalign.report.figures.curves import MOST_CURVES, axis_of, counted
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Ends, Panel, Points, Sketch
from raxalign.report.sections.base import Section

_RETRIEVAL = "retrieval"
_R = Unit(1, 2)
_NAMED = 12  # languages of a cloud whose points are named
_GAIN = (
    "One point per language; the baseline is the original encoder (as in Kulshreshtha et al. 2020,"
    " Figure 2). Methods at their largest training set and the point that dev chooses. Error bars:"
    " the 95 % interval of the difference over runs and examples; one that leaves the panel is"
    " longer than it shows."
)
_PIVOT = (
    "One point per method: its score in the pivot, and its mean over the other languages. Dotted:"
    " the Pareto front, that is, the methods that no other one beats in both. Error bars: 95 %"
    " intervals over runs and examples; one that leaves the panel is longer than it shows."
)
_TRANSFER = (
    "One point per language (as in Cao et al. 2020, Figure 2, which shows only the original"
    " encoder). The table above has all correlations. Error bars: 95 % intervals over runs and"
    " examples; one that leaves the panel is longer than it shows."
)


@final
class Transfer(Section):
    """Three figures with a panel per transfer task, and a table of all correlations: the gain of
    each language over its baseline, a cloud per method; the pivot's score against the mean over the
    other languages, with the Pareto front; and word retrieval against the task.
    """

    VERSION = 1
    place = 40

    def share(self) -> Share | None:
        """Return the figures and the table; None where there is no transfer task with several
        methods, or with word retrieval.
        """
        results, judge = self.material.results, self.material.judge
        some = f"{of_encoder(results)}{of_methods(results, MOST_CURVES)}"
        title = "Gain over the baseline against the baseline"
        pivot = list(pareto_panels(results, judge))
        transfer = transfer_panels(results, MOST_CURVES, judge)
        sketches = (
            Sketch("gain-over-baseline", title, _GAIN + some, gain_panels(results, judge)),
            Sketch("pivot-transfer", "The pivot against transfer", _PIVOT + some, pivot),
            Sketch("retrieval-transfer", "Retrieval against transfer", _TRANSFER + some, transfer),
        )
        table = transfer_table(results)
        tables = (table,) if table is not None else ()
        figures = drawn(sketches, self.material.figures)
        return Part("figures", "Figures", tables=tables, figures=figures).alone()


def gain_panels(results: Results, judge: Judge) -> list[Panel]:
    """Return one panel per transfer task: the gain of each language, one cloud per method."""
    panels = []
    for task, metric in transfer_tasks(results):
        base = baseline(results, task, metric)
        clouds = []
        for cell in best_on_dev(results, MOST_CURVES, task, metric):
            if base is not None and cell is not base:
                cloud = _gains(results, judge, (task, metric), (cell, base))
                clouds += [cloud] if cloud.x else []
        lower = results.plan.measured(task, metric).better == "lower"
        points = " (points)" if results.unit(task, metric).sign else ""
        if clouds:
            n = counted((len(cloud.x) for cloud in clouds), "languages")
            x = f"baseline {axis_of(results, task, metric)}, {n}"
            y = f"difference{', lower is better' if lower else ''}{points}"
            panels.append(Panel(titled(results, task), x, y, points=clouds, zero=True))
    return panels


def _gains(
    results: Results, judge: Judge, measure: tuple[str, str], pair: tuple[Cell, Cell]
) -> Points:
    """The cloud of a cell by a (task, metric), over the languages that its baseline has too; `pair`
    is the cell and its baseline.
    """
    (task, metric), (cell, base) = measure, pair
    scale, split = results.unit(task, metric).scale, results.split(task)
    langs = single_languages(results, task, metric, cell)
    names: list[Name] = [(task, lang, metric, split) for lang in langs]
    names = [name for name in names if name in base.values]
    x = [scale * base.values[name].mean for name in names]
    y = [scale * cell.values[name].mean - a for name, a in zip(names, x, strict=True)]
    ends: list[Ends] = []
    for name in names:
        found = judge.of(cell, name)
        test = found.comparison if found is not None else None
        known = test is not None and test.low is not None and test.high is not None
        ends.append((scale * test.low, scale * test.high) if known else None)  # type: ignore[operator, union-attr]
    shown = [name[1] for name in names] if len(names) <= _NAMED else ()
    return Points(cell.method, x, y, shown, colour_of(results, cell), y_ends=ends)


def pareto_panels(results: Results, judge: Judge) -> Iterator[Panel]:
    """Yield a panel per transfer task with values of the pivot for at least two methods."""
    pivot = results.plan.pivot
    for task, metric in transfer_tasks(results):
        split, scale = results.split(task), results.unit(task, metric).scale
        names: list[Name] = [(task, lang, metric, split) for lang in (pivot, "avg_zero_shot")]
        cells = best_on_dev(results, MOST_CURVES, task, metric)
        points = []
        for cell in cells:
            if all(name in cell.values for name in names):
                x, y = ([scale * cell.values[name].mean] for name in names)
                ends = ([judge.ends(cell, name, scale)] for name in names)
                colour = colour_of(results, cell)
                points.append(Points(cell.method, x, y, [cell.method], colour, *ends))
        if len(points) > 1:
            yield Panel(
                titled(results, task),
                f"{pivot}, the pivot: {axis_of(results, task, metric)}",
                f"mean over the others: {axis_of(results, task, metric)}",
                points=points,
                links=list(_front(points, results.plan.measured(task, metric).sign)),
            )


def _front(points: Sequence[Points], sign: int) -> Iterator[tuple[float, float, float, float]]:
    """Lines between the points that no other one beats in both, from left to right; larger values
    beat where `sign` is 1, smaller ones where it is -1, and none where it is 0.
    """
    spots = sorted({(cloud.x[0], cloud.y[0]) for cloud in points})

    def is_beaten(x: float, y: float) -> bool:
        others = (spot for spot in spots if spot != (x, y))
        return any(a * sign >= x * sign and b * sign >= y * sign for a, b in others)

    for (x, y), (a, b) in pairwise(spot for spot in spots if not is_beaten(*spot)):
        yield x, y, a, b


@dataclass(frozen=True)
class _Cloud:
    """The languages of one cell, by retrieval (x) and by a task (y), as figures show them."""

    cell: Cell
    langs: Sequence[str]
    names: tuple[Sequence[Name], Sequence[Name]]
    x: Sequence[float]
    y: Sequence[float]


def transfer_panels(results: Results, most: int, judge: Judge) -> list[Panel]:
    """Return one panel per transfer task: its scores against word retrieval, of at most `most`
    methods.
    """
    panels = []
    for task, metric in transfer_tasks(results):
        found = list(_clouds(results, task, metric, most))
        clouds = []
        for cloud in found:
            ends = (
                [judge.ends(cloud.cell, name, _scale(results, name)) for name in names]
                for names in cloud.names
            )
            names = cloud.langs if len(cloud.langs) <= _NAMED else ()
            colour = colour_of(results, cloud.cell)
            clouds.append(Points(cloud.cell.method, cloud.x, cloud.y, names, colour, *ends))
        if clouds:
            n = counted((len(cloud.x) for cloud in clouds), "languages")
            x = f"{axis_of(results, *found[0].names[0][0][::2])}, {n}"
            y = axis_of(results, task, metric)
            panels.append(Panel(titled(results, task), x, y, points=clouds))
    return panels


def transfer_table(results: Results) -> Table | None:
    """Return Pearson's r of every method and transfer task, Spearman's ρ and the number of
    languages under it; None where there is nothing to correlate.
    """
    found: dict[str, dict[str, Correlation]] = {}
    columns = []
    for task, metric in transfer_tasks(results):
        clouds = list(_clouds(results, task, metric, len(results.kinds)))
        columns += [titled(results, task)] if clouds else []
        for cloud in clouds:
            row = found.setdefault(cloud.cell.method, {})
            row[titled(results, task)] = correlate(cloud.x, cloud.y)
    if not columns:
        return None
    lines = tuple(
        Line(method, tuple(_correlation(row.get(column)) for column in columns))
        for method, row in found.items()
    )
    caption = (
        "Pearson's r over languages; under it Spearman's ρ and the number of languages n. The"
        " methods are those of the figure below, and those for which it has no room. A correlation"
        f" over three or four languages means little.{of_encoder(results)}"
    )
    title = "Correlation of retrieval and transfer"
    return Table("retrieval-transfer", title, tuple(columns), lines, caption)


def _correlation(found: Correlation | None) -> Entry:
    if found is None:
        return EMPTY
    if found.pearson is None or found.spearman is None:
        return Entry("–", below=f"n = {found.n}", state="empty")
    return Entry(_R.show(found.pearson), below=f"ρ = {_R.show(found.spearman)}, n = {found.n}")


def _clouds(results: Results, task: str, metric: str, most: int) -> Iterator[_Cloud]:
    """The clouds of at most `most` methods; all of them are of one metric of retrieval."""
    retrieval = results.of_kind(_RETRIEVAL)
    cells = best_on_dev(results, most, task, metric) if retrieval is not None else []
    measured = _retrieval_metric(results, cells, retrieval or "")
    if retrieval is None or measured is None:
        return
    for cell in cells:
        places: dict[str, Name] = {
            lang: (retrieval, f"{lang}-{results.plan.pivot}", measured, "test")
            for lang in single_languages(results, task, metric, cell)
        }
        langs = [lang for lang, place in places.items() if place in cell.values]
        if len(langs) > 1:
            ys: list[Name] = [(task, lang, metric, results.split(task)) for lang in langs]
            names = [places[lang] for lang in langs], ys
            x, y = ([_scale(results, n) * cell.values[n].mean for n in axis] for axis in names)
            yield _Cloud(cell, langs, names, x, y)


def _scale(results: Results, name: Name) -> float:
    return results.unit(name[0], name[2]).scale


def _retrieval_metric(results: Results, cells: Sequence[Cell], task: str) -> str | None:
    """Contextual accuracy over unseen pairs, or over all where the unseen are too few."""
    values = {name: value for cell in cells for name, value in cell.values.items()}
    names = [name for name in values if name[0] == task and name[3] == "test"]
    for metric in ("contextual_accuracy", "contextual_accuracy_all"):
        there = any(name[2] == metric for name in names)
        counted = results.plan.count_of(task, metric)
        counts = [values[name].mean for name in names if name[2] == counted]
        if there and (not counts or min(counts) >= FEW):
            return metric
    return None
