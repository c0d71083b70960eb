"""Scores over the number of sentence pairs, over a numeric param of a method, and of encoders; and
what methods gain, what that costs in the pivot, and how retrieval goes with it.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, final

from raxalign.analysis.cells import Cell, Name, Value
from raxalign.analysis.correlation import Correlation
from raxalign.measured import FEW, spoken
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Ends, Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.values.comparisons import baseline_cells
from raxalign.values.numbers import NumberFormat
from raxalign.values.scoreboard import TableKey

_SIZE = re.compile(r" ?\bmax_sentences=(\d+)")
_SEED = re.compile(r" ?\bseed=\d+")
_R = NumberFormat(1, 2)
_NAMED = 12  # languages of a cloud whose points are named


@final
class Curves(Section):
    """A figure with a panel per task, and one per task with a panel per language: a curve per
    method that was run at several sizes; a figure per method and numeric param of several values:
    test and dev over its values; and one per task with a dot per encoder and language, in grids
    with several encoders.

    Three figures with a panel per transfer task, and a table of all correlations: the gain of each
    language over its baseline, a cloud per method; the pivot's score against the mean over the
    other languages, with the Pareto front; and word retrieval against the task.
    """

    VERSION = 2
    place = 30

    def share(self) -> Share | None:
        """Return the figures and the table; None where there is nothing to draw."""
        results = self.results
        title = "Learning curves over the number of sentence pairs"
        sketches = [Sketch("data-size", title, caption("by_size"), self.size_panels())]
        for method, axis in self.numeric_axes():
            panels, title = self.axis_panels(method, axis), f"{method}: {self.results.symbol(axis)}"
            sketches.append(Sketch(f"curve-{method}-{axis}", title, caption("by_param"), panels))
        for task in results.tasks:
            panels, title = self.encoder_panels(task), f"{results.titled(task)}: encoders"
            basis = results.basis(task, baseline_cells(results.cells, results.plan))
            sketches.append(Sketch(f"encoders-{task}", title, caption("by_encoder"), panels, basis))
        sketches += self._of_transfer()
        found = self.one_part(Part("figures", "Figures"), sketches, self.transfer_tables())
        each = self.one_part(Part("languages", "Methods by language"), self._of_languages())
        parts = [part for share in (each, found) if share is not None for part in share.parts]
        return Share(tuple(parts)) if parts else None

    def _of_languages(self) -> Iterator[Sketch]:
        """Yield a figure per task, with a panel per language: curves over sizes."""
        for table in self.results.leading_tables():
            task, metric, split = table
            about = caption("by_language_and_size", split=split)
            title, langs = f"{task}: {spoken(metric)} by size", self.results.transferred(table)
            panels, basis = self._size_panels(table, langs)
            if len(panels) > 1:  # one language has its curves among those of all tasks
                yield Sketch(f"sizes-{task}", title, about, panels, basis)

    def _of_transfer(self) -> Iterator[Sketch]:
        """Yield what methods gain, what that costs in the pivot, and how retrieval goes with it."""
        shown = (
            (
                "gain-over-baseline",
                "Gain over the baseline against the baseline",
                self.gain_panels(),
            ),
            ("pivot-transfer", "The pivot against transfer", list(self.pareto_panels())),
            ("retrieval-transfer", "Retrieval against transfer", self.transfer_panels()),
        )
        for name, title, panels in shown:
            yield Sketch(name, title, caption(name), panels)

    def _measures(self) -> list[tuple[str, str]]:
        """The (task, main metric) of the tasks that have one."""
        main = self.results.main_metric
        return [(task, metric) for task in self.results.tasks if (metric := main(task))]

    def _curve(
        self, points: Mapping[Any, Cell], table: TableKey, lang: str = "", **look: Any
    ) -> Series:
        """The curve of the values of some cells in a language, or of their means over languages,
        each at its place.
        """
        xs, means, ends = sorted(points), list[float](), list[Ends]()
        scale = self.results.unit(*table[:2]).scale
        for cell in map(points.__getitem__, xs):
            name = _named(table, lang) if lang else cell.compared_mean(*table)
            value = cell.values.get(name) if name is not None else None
            means.append(math.nan if value is None else scale * value.mean)
            ends.append(self.results.ends(cell, name, scale))
        return Series(x=xs, y=means, ends=ends, **look)

    def _level(self, table: TableKey, lang: str = "", encoder: str = "") -> list[Series]:
        """The first baseline, of an encoder where one is given, as a horizontal line; nothing where
        the grid has no value of it.
        """
        bases = baseline_cells(self.results.cells, self.results.plan)
        there = (c for c in bases if encoder in ("", c.encoder) and c.mean(*table))
        base, scale = next(there, None), self.results.unit(*table[:2]).scale
        if base is None:
            return []
        value = base.values.get(_named(table, lang)) if lang else base.mean(*table)
        level = [] if value is None else [scale * value.mean]
        return [Series(self.label(base), (), [y], look="level", colour=7) for y in level]

    def size_panels(self) -> list[Panel]:
        """Return a panel per task: curves of methods that were run at several sizes."""
        tables = ((task, metric, self.results.split(task)) for task, metric in self._measures())
        return [panel for table in tables for panel in self._size_panels(table)[0]]

    def _size_panels(self, table: TableKey, langs: Sequence[str] = ()) -> tuple[list[Panel], str]:
        """A panel of curves over several sizes for each language, without languages one of their
        means, and what the panels stand on; none where nothing has several sizes.
        """
        results, lines = self.results, defaultdict[str, dict[int, Cell]](dict)
        for cell in results.measured_cells(*table[:2]):
            if cell.sentences is not None:
                lines[self.label(cell)][cell.sentences] = cell
        several = {name: points for name, points in lines.items() if len(points) > 1}
        names, some = self.fitting_curves(several, table)
        cells = [cell for name in names for cell in lines[name].values()]
        every = [*cells, *filter(None, [results.baseline(*table[:2])])]
        basis = results.basis(table[0], every)
        means = [(cell, cell.compared_mean(*table)) for cell in every]
        uneven = not langs and Cell.shared(means, results.plan.pivot) is not None
        some += f" Means: {caption('uneven')}." if uneven else ""
        places = list(dict.fromkeys(map(self.label, results.cells)))
        x, y = "sentence pairs per language", results.axis(*table[:2])
        ticks, panels = sorted({size for name in names for size in lines[name]}), []
        for lang in langs or [""] if names else ():
            series = [
                self._curve(lines[name], table, lang, label=name, colour=places.index(name))
                for name in names
            ]
            series += self._level(table, lang)
            title = results.column(lang) if lang else basis
            panels.append(Panel(title, x, y, series, log=True, ticks=ticks, said=some))
        return panels, basis

    def numeric_axes(self) -> Iterator[tuple[str, str]]:
        """Yield the (method, param) of the grid that has several values, all of them numbers."""
        plan = self.results.plan
        searched = {study.method for study in plan.studies}  # their points lie in no line
        for method, axes in plan.axes.items():
            cells = [cell for cell in self.results.cells if cell.method == method]
            for axis in axes if method not in searched else ():
                values = {_number(cell, axis) for cell in cells}
                if len(values) > 1 and None not in values:
                    yield method, axis

    def axis_panels(self, method: str, axis: str) -> list[Panel]:
        """Return a panel per task: test and dev over the values of a numeric param; encoder and
        other params are those of the best point on dev.
        """
        every = [cell for cell in self.results.cells if cell.method == method]
        own = {id(c): (c, x) for c in every if (x := _number(c, axis)) is not None}
        largest = max((cell.sentences or 0 for cell, _ in own.values()), default=0)
        cells = [cell for cell, _ in own.values() if (cell.sentences or 0) == largest]
        panels: list[Panel] = []
        for task, metric in self._measures() if cells else ():
            line, others, some = self._one_line(cells, axis, (task, metric))
            curves = []
            for split, look in (("test", "line"), ("dev", "dashed")):
                table = (task, metric, split)
                points = {own[id(cell)][1]: cell for cell in line if cell.mean(*table)}
                if len(points) > 1:
                    curves.append(self._curve(points, table, label=split, look=look, colour=1))
            if curves:
                xs = [float(x) for x in curves[0].x]
                title = f"{self.results.basis(task, line)}{others}"
                y = self.results.axis(task, metric)
                shown = (task, metric, self.results.split(task))
                series = [*curves, *self._level(shown, encoder=line[0].encoder)]
                log, ticks = min(xs) > 0 and max(xs) / min(xs) >= 8, xs if len(xs) <= 7 else ()
                over = self.results.symbol(axis)
                panels.append(Panel(title, over, y, series, log=log, ticks=ticks, said=some))
        return panels

    def _one_line(
        self, cells: Sequence[Cell], axis: str, measure: tuple[str, str]
    ) -> tuple[list[Cell], str, str]:
        """Of cells that differ in more than an axis, those of one line along it that has several
        points, the one with the best value on dev; what else varies among the lines, as it is in
        this one; and what the caption says of the others.
        """
        lines: dict[str, list[Cell]] = defaultdict(list)
        for cell in cells:
            rest = {name: value for name, value in cell.params.items() if name != axis}
            lines[json.dumps({"encoder": cell.encoder, **rest}, sort_keys=True)].append(cell)

        several = [line for line in lines if len(lines[line]) > 1] or list(lines)
        devs = {k: max(self.results.dev_of(cell, *measure) for cell in lines[k]) for k in several}
        which = "the best on dev" if max(devs.values()) > -math.inf else "the first of the grid"
        what = "settings of the encoder and the other options"
        (best,), some = self.fitting(several, 1, what, devs.__getitem__, which)
        every = [json.loads(line) for line in lines]
        varying = [
            f"{name}={value}"
            for name, value in json.loads(best).items()
            if any(other.get(name) != value for other in every)
        ]
        return lines[best], "".join(f", {value}" for value in varying), some

    def encoder_panels(self, task: str) -> list[Panel]:
        """Return a panel per size of the encoders' training text that has several encoders: the
        main metric of each encoder in each language.
        """
        results = self.results
        table = (task, results.main_metric(task) or "", results.split(task))
        langs, scale = results.transferred(table), results.unit(*table[:2]).scale
        names = [(task, lang, *table[1:]) for lang in langs]
        bases = baseline_cells(results.cells, results.plan)
        cells = [cell for cell in bases if any(name in cell.values for name in names)]
        sizes = {id(c): int(m[1]) if (m := _SIZE.search(c.encoder)) else None for c in cells}
        labels = {id(cell): _SEED.sub("", _SIZE.sub("", cell.encoder)) for cell in cells}
        colours = list(dict.fromkeys(labels.values()))
        panels = []
        for size in sorted(set(sizes.values()) - {None}, key=lambda n: n or 0) or [None]:
            alike: dict[str, list[Cell]] = defaultdict(list)  # apart from their training's seed
            for cell in cells:
                if sizes[id(cell)] in (size, None):
                    alike[labels[id(cell)]].append(cell)
            dots = []
            for label, found in alike.items():
                means, ends = zip(*(self._mean(found, name, scale) for name in names), strict=True)
                dots.append(Series(label, (), means, ends, "dots", colours.index(label)))
            title = "" if size is None else f"{size:,} sentences per language"
            if len(dots) > 1:
                panels.append(Panel(title, "", results.axis(*table[:2]), dots, langs))
        return panels

    def _mean(self, cells: Sequence[Cell], name: Name, scale: float) -> tuple[float, Ends]:
        """The mean of a value over encoders that are alike (NaN: none has it), and its interval."""
        there = [cell for cell in cells if name in cell.values]
        if not there:
            return math.nan, None
        over, alone = Value.of([cell.values[name].mean for cell in there]), len(there) == 1
        ends = self.results.ends(there[0], name, scale) if alone else over.ends(scale)
        return scale * over.mean, ends

    def _cloud(
        self,
        cell: Cell,
        values: tuple[Sequence[float], Sequence[float]],
        langs: Sequence[str],
        ends: Sequence[Sequence[Ends]],
    ) -> Series:
        """The languages of a cell as points; `ends` are those of y and, if any, of x."""
        names = langs if len(langs) <= _NAMED else ()
        colour, x_ends = self.results.colour_of(cell), ends[1] if len(ends) > 1 else ()
        return Series(cell.method, *values, ends[0], "dots", colour, names, x_ends)

    def gain_panels(self) -> list[Panel]:
        """Return a panel per transfer task: the gain of each language, a cloud per method."""
        results, panels = self.results, []
        for task, metric in results.transfer_tasks():
            base, clouds = results.baseline(task, metric), list[Series]()
            cells, some = self.cells_of(task, metric, self.MOST_CURVES)
            for cell in cells if base is not None else ():
                assert base is not None
                if cell is not base and (cloud := self._gains((task, metric), cell, base)):
                    clouds.append(cloud)
            lower = results.plan.measured(task, metric).better == "lower"
            points = " (points)" if results.unit(task, metric).sign else ""
            if clouds:
                n = _counted((len(cloud.x) for cloud in clouds), "languages")
                x = f"baseline {results.axis(task, metric)}, {n}"
                y = f"difference{', lower is better' if lower else ''}{points}"
                some += _unnamed(clouds)
                panels.append(Panel(results.basis(task, cells), x, y, clouds, zero=True, said=some))
        return panels

    def _gains(self, measure: tuple[str, str], cell: Cell, base: Cell) -> Series | None:
        """The cloud of a cell by a (task, metric), over the languages that its baseline has too."""
        results, (task, metric) = self.results, measure
        langs, scale = results.single_languages(*measure, cell), results.unit(*measure).scale
        names = [(task, lang, metric, results.split(task)) for lang in langs]
        names = [name for name in names if name in base.values]
        x = [scale * base.values[name].mean for name in names]
        y = [scale * cell.values[name].mean - a for name, a in zip(names, x, strict=True)]
        ends: list[Ends] = []
        for name in names:
            test = found.comparison if (found := results.at(cell, name)) is not None else None
            low, high = (test.low, test.high) if test is not None else (None, None)
            ends.append(None if low is None or high is None else (scale * low, scale * high))
        return self._cloud(cell, (x, y), [name[1] for name in names], [ends]) if names else None

    def pareto_panels(self) -> Iterator[Panel]:
        """Yield a panel per transfer task with values of the pivot for at least two methods."""
        results, pivot = self.results, self.results.plan.pivot
        for task, metric in results.transfer_tasks():
            home = results.plan.home_of(task)
            split, scale = results.split(task), results.unit(task, metric).scale
            axes: list[Name] = [(task, lang, metric, split) for lang in (home, "avg_zero_shot")]
            points, (cells, some) = [], self.cells_of(task, metric, self.MOST_CURVES)
            for cell in cells:
                if all(name in cell.values for name in axes):
                    x, y = ([scale * cell.values[name].mean] for name in axes)
                    ends = [[self.results.ends(cell, name, scale)] for name in reversed(axes)]
                    points.append(self._cloud(cell, (x, y), [cell.method], ends))
            if len(points) > 1:
                label, sign = (
                    results.axis(task, metric),
                    results.plan.measured(task, metric).sign,
                )
                x_label = f"{home}, {'the pivot' if home == pivot else 'trained on'}: {label}"
                y_label = f"mean over the others: {label}"
                links = list(_front(points, sign))
                title = results.basis(task, cells)
                yield Panel(title, x_label, y_label, points, links=links, said=some)

    def transfer_panels(self) -> list[Panel]:
        """Return a panel per transfer task: the scores of methods against word retrieval."""
        results, panels = self.results, []
        for task, metric in results.transfer_tasks():
            cells, some = self.cells_of(task, metric, self.MOST_CURVES)
            retrieval, clouds = self._clouds((task, metric), cells)
            if clouds:
                n = _counted((len(cloud.x) for cloud in clouds), "languages")
                x, y = f"{results.axis(*retrieval)}, {n}", results.axis(task, metric)
                some += _unnamed(clouds)
                panels.append(Panel(results.basis(task, cells), x, y, clouds, said=some))
        return panels

    def transfer_tables(self) -> Iterator[Table]:
        """Yield the table of Pearson's r of every method and transfer task, with Spearman's ρ and
        the number of languages under it, where there is something to correlate.
        """
        found: dict[str, dict[str, Correlation]] = {}
        columns: dict[str, str] = {}
        for measure in self.results.transfer_tasks():
            cells, some = self.cells_of(*measure, len(self.results.kinds))
            _, clouds = self._clouds(measure, cells)
            column = self.results.titled(measure[0])
            columns |= {column: some} if clouds else {}
            for cloud in clouds:
                found.setdefault(cloud.label, {})[column] = Correlation.of(cloud.x, cloud.y)
        lines = tuple(
            Line(method, tuple(_correlation(row.get(column)) for column in columns))
            for method, row in found.items()
        )
        about = caption("correlations") + self.joined(columns)
        title = "Correlation of retrieval and transfer"
        if columns:
            yield Table("retrieval-transfer", title, tuple(columns), lines, about)

    def _clouds(
        self, measure: tuple[str, str], cells: Sequence[Cell]
    ) -> tuple[tuple[str, str], list[Series]]:
        """The (task, metric) of retrieval, and the languages of some cells by it and by a (task,
        metric). It is contextual accuracy over unseen pairs, or over all where these are too few.
        """
        results, (task, metric) = self.results, measure
        retrieval, clouds = results.of_kind("retrieval") or "", list[Series]()
        values = {n: v for c in cells for n, v in c.values.items() if n[::3] == (retrieval, "test")}
        for found in ("contextual_accuracy", "contextual_accuracy_all"):
            count = results.plan.count_of(retrieval, found)
            counts = [value.mean for name, value in values.items() if name[2] == count]
            if any(n[2] == found for n in values) and (not counts or min(counts) >= FEW):
                break
        else:
            return (retrieval, ""), []
        x_scale, y_scale = results.unit(retrieval, found).scale, results.unit(task, metric).scale
        for cell in cells:
            places: dict[str, Name] = {
                lang: (retrieval, f"{lang}-{results.plan.pivot}", found, "test")
                for lang in results.single_languages(task, metric, cell)
            }
            langs = [lang for lang, place in places.items() if place in cell.values]
            xs = [places[lang] for lang in langs]
            ys: list[Name] = [(task, lang, metric, results.split(task)) for lang in langs]
            if len(langs) > 1:
                axes = ((ys, y_scale), (xs, x_scale))
                y, x = ([scale * cell.values[n].mean for n in names] for names, scale in axes)
                ends = [[self.results.ends(cell, n, scale) for n in names] for names, scale in axes]
                clouds.append(self._cloud(cell, (x, y), langs, ends))
        return (retrieval, found), clouds


def _named(table: TableKey, lang: str) -> Name:
    return table[0], lang, *table[1:]


def _unnamed(clouds: Iterable[Series]) -> str:
    """What a caption says of clouds of which the points have no names."""
    left_out = any(len(cloud.x) > _NAMED for cloud in clouds)
    return f" Points of more than {_NAMED} languages have no names." if left_out else ""


def _number(cell: Cell, axis: str) -> float | None:
    value = cell.params.get(axis)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _front(points: Sequence[Series], sign: int) -> Iterator[tuple[float, float, float, float]]:
    """Lines between the points that no other one beats in both, from left to right; larger values
    beat where `sign` is 1, smaller ones where it is -1, and none where it is 0.
    """
    spots = sorted({(cloud.x[0], cloud.y[0]) for cloud in points})
    front = [
        (x, y)
        for x, y in spots
        if not any(
            a * sign >= x * sign and b * sign >= y * sign for a, b in spots if (a, b) != (x, y)
        )
    ]
    for (x, y), (a, b) in pairwise(front):
        yield x, y, a, b


def _correlation(found: Correlation | None) -> Entry:
    if found is None:
        return Entry.EMPTY
    if found.pearson is None or found.spearman is None:
        return Entry("–", below=f"n = {found.n}", state="empty")
    return Entry(_R.show(found.pearson), below=f"ρ = {_R.show(found.spearman)}, n = {found.n}")


def _counted(numbers: Iterable[int], what: str) -> str:
    """The sizes behind the points of a panel: ``n = 3 to 4 languages``."""
    found = sorted(numbers)
    more = f" to {found[-1]}" if found[0] != found[-1] else ""
    return f"n = {found[0]}{more} {what}"
