"""What methods gain, what that costs in the pivot, and how retrieval goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.correlation import Correlation
from raxalign.plan.values.numbers import FEW, NumberFormat
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Ends, Panel, Series, Sketch
from raxalign.report.sections.base import Section

_R = NumberFormat(1, 2)
_NAMED = 12  # languages of a cloud whose points are named


@final
class Transfer(Section):
    """Three figures with a panel per transfer task, and a table of all correlations: the gain of
    each language over its baseline, a cloud per method; the pivot's score against the mean over the
    other languages, with the Pareto front; and word retrieval against the task.
    """

    VERSION = 1
    place = 40

    def share(self) -> Share | None:
        """Return the figures and the table; None where there is nothing to compare."""
        some = f"{self.of_encoder()}{self.of_methods(self.MOST_CURVES)}"
        gain = "Gain over the baseline against the baseline", self.gain_panels()
        shown = (
            ("gain-over-baseline", *gain),
            ("pivot-transfer", "The pivot against transfer", list(self.pareto_panels())),
            (
                "retrieval-transfer",
                "Retrieval against transfer",
                self.transfer_panels(self.MOST_CURVES),
            ),
        )
        sketches = (
            Sketch(name, title, caption(name) + some, panels) for name, title, panels in shown
        )
        return self.one_part(Part("figures", "Figures"), sketches, self.transfer_tables())

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
            base = results.baseline(task, metric)
            cells = results.best_on_dev(self.MOST_CURVES, task, metric) if base is not None else []
            clouds = []
            for cell in cells:
                assert base is not None
                if cell is not base and (cloud := self._gains((task, metric), cell, base)):
                    clouds.append(cloud)
            lower = results.plan.measured(task, metric).better == "lower"
            points = " (points)" if results.unit(task, metric).sign else ""
            if clouds:
                n = _counted((len(cloud.x) for cloud in clouds), "languages")
                x = f"baseline {results.axis(task, metric)}, {n}"
                y = f"difference{', lower is better' if lower else ''}{points}"
                panels.append(Panel(results.titled(task), x, y, clouds, zero=True))
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
            split, scale = results.split(task), results.unit(task, metric).scale
            axes: list[Name] = [(task, lang, metric, split) for lang in (pivot, "avg_zero_shot")]
            points = []
            for cell in results.best_on_dev(self.MOST_CURVES, task, metric):
                if all(name in cell.values for name in axes):
                    x, y = ([scale * cell.values[name].mean] for name in axes)
                    ends = [[self.results.ends(cell, name, scale)] for name in reversed(axes)]
                    points.append(self._cloud(cell, (x, y), [cell.method], ends))
            if len(points) > 1:
                label, sign = (
                    results.axis(task, metric),
                    results.plan.measured(task, metric).sign,
                )
                x_label, y_label = f"{pivot}, the pivot: {label}", f"mean over the others: {label}"
                links = list(_front(points, sign))
                yield Panel(results.titled(task), x_label, y_label, points, links=links)

    def transfer_panels(self, most: int) -> list[Panel]:
        """Return a panel per transfer task: the scores of methods against word retrieval."""
        results, panels = self.results, []
        for task, metric in results.transfer_tasks():
            retrieval, clouds = self._clouds((task, metric), most)
            if clouds:
                n = _counted((len(cloud.x) for cloud in clouds), "languages")
                x, y = f"{results.axis(*retrieval)}, {n}", results.axis(task, metric)
                panels.append(Panel(results.titled(task), x, y, clouds))
        return panels

    def transfer_tables(self) -> Iterator[Table]:
        """Yield the table of Pearson's r of every method and transfer task, with Spearman's ρ and
        the number of languages under it, where there is something to correlate.
        """
        found: dict[str, dict[str, Correlation]] = {}
        columns = []
        for measure in self.results.transfer_tasks():
            _, clouds = self._clouds(measure, len(self.results.kinds))
            columns += [self.results.titled(measure[0])] if clouds else []
            for cloud in clouds:
                found.setdefault(cloud.label, {})[columns[-1]] = Correlation.of(cloud.x, cloud.y)
        lines = tuple(
            Line(method, tuple(_correlation(row.get(column)) for column in columns))
            for method, row in found.items()
        )
        about = caption("correlations") + self.of_encoder()
        title = "Correlation of retrieval and transfer"
        if columns:
            yield Table("retrieval-transfer", title, tuple(columns), lines, about)

    def _clouds(self, measure: tuple[str, str], most: int) -> tuple[tuple[str, str], list[Series]]:
        """The (task, metric) of retrieval, and the languages of at most `most` methods by it and by
        a (task, metric). It is contextual accuracy over unseen pairs, or over all where these are
        too few.
        """
        results, (task, metric) = self.results, measure
        retrieval, clouds = results.of_kind("retrieval") or "", list[Series]()
        cells = results.best_on_dev(most, task, metric) if retrieval else []
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
