"""Which layer carries it: measures of representations by layer and method, against transfer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.correlation import GroupedCorrelation
from raxalign.analysis.significance import Interval
from raxalign.measured import spoken
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Ends, Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.values.numbers import NumberFormat
from raxalign.values.predictions import Predictions
from raxalign.values.scoreboard import Scoreboard

_KIND = "representation"
_OLD = {"language_probe", "anisotropy"}  # which have figures by language
_OF_PIVOT = "anisotropy_pivot"  # the same for all languages
_LAYER = re.compile(r"layer(\d+)_(\w+)")
_R = NumberFormat(1, 2)
FEWEST = 5
"""Languages below which a correlation says nothing of languages."""


@final
class Layers(Section):
    """Measures of representations by layer: a figure and a table by method, and their correlations
    with each transfer task over languages and methods.
    """

    VERSION = 2
    place = 45

    def share(self) -> Share | None:
        """Return figures and tables; None where no task measures pairs of translations."""
        results, parts = self.results, []
        for task in (name for name, kind in results.tasks.items() if kind == _KIND):
            profile = self.profile(task)
            if set(profile.measures) - _OLD:
                parts.append(self._part(profile))
        return Share(tuple(parts)) if parts else None

    def profile(self, task: str) -> _Profile:
        """Return the values of a task by measure and layer."""
        results, metric = self.results, self.results.main_metric(task)
        cells, some = self.cells_of(task, metric, self.MOST_METHODS)
        predictions = Predictions(results.plan, self.material.ledger)
        return _Profile(results, predictions, task, cells, some, self.of_encoder(cells))

    def _part(self, profile: _Profile) -> Part:
        task = profile.task
        found = list(profile.correlations())
        panels, about = profile.panels(), caption("layer_profile") + profile.some
        basis = self.results.basis(task, profile.cells)
        against, over = profile.correlated_panels(found), "Correlation with transfer by layer"
        by_layer = caption("correlation_by_layer") + profile.on
        sketches = (
            Sketch(f"{task}-by-layer", "Measures by layer", about, panels, basis),
            Sketch(f"{task}-transfer-by-layer", over, by_layer, against),
        )
        tables = (profile.table(), *profile.correlation_tables(found))
        figures = self.drawn(sketches)
        return Part("layers", "Layers", tables=tables, figures=figures)


@dataclass(frozen=True)
class _Correlated:
    """A measure at some layers, in words, against a transfer task; `layer` where it is one."""

    measure: str
    where: str
    task: str
    layer: int | None
    found: GroupedCorrelation


@dataclass(frozen=True)
class _Profile:
    """The values of one task by measure and layer. `cells` are one per method, `some` is what
    captions say of others, and `on` what they say of the encoder.
    """

    results: Scoreboard
    predictions: Predictions
    task: str
    cells: Sequence[Cell]
    some: str
    on: str

    @cached_property
    def measures(self) -> dict[str, list[int]]:
        """The measures with their layers."""
        found: dict[str, set[int]] = {}
        for task, _, metric, split in self.results.names:
            if (task, split) == (self.task, "test") and (at := _LAYER.fullmatch(metric)):
                found.setdefault(at[2], set()).add(int(at[1]))
        return {name: sorted(layers) for name, layers in found.items() if name != _OF_PIVOT}

    @property
    def of_encoder(self) -> list[Cell]:
        """All cells of the encoder that `cells` are of."""
        encoders = {cell.encoder for cell in self.cells}
        return [cell for cell in self.results.cells if cell.encoder in encoders]

    def stays(self, cell: Cell, metric: str) -> bool:
        """Whether the value of a method is that of the original encoder by construction."""
        plan, at = self.results.plan, _LAYER.fullmatch(metric)
        assert at is not None
        known = [plan.by_key[key] for key in cell.trials if key in plan.by_key]
        params = self.results.task_params.get(self.task, {})
        depth = max(map(max, self.measures.values())) if params.get("layers") == "all" else None
        place = None if depth is None else (int(at[1]), depth)
        return bool(known) and plan.stays(known[0], self.task, metric, place)

    def panels(self) -> list[Panel]:
        """Return a panel per measure, with a line per method."""
        made = []
        for measure, layers in self.measures.items():
            series = [line for cell in self.cells if (line := self._line(cell, measure, layers)).x]
            label = self.results.axis(self.task, measure)
            ticks = layers if len(layers) <= 13 else ()
            if series:
                made.append(Panel(spoken(measure), "layer", label, series, ticks=ticks))
        return made

    def _line(self, cell: Cell, measure: str, layers: Sequence[int]) -> Series:
        scale = self.results.unit(self.task, measure).scale
        names: dict[int, Name] = {}
        for layer in layers:
            metric = f"layer{layer}_{measure}"
            name = cell.mean_name(self.task, metric, "test")
            if name is not None and not self.stays(cell, metric):
                names[layer] = name
        around = self.intervals(cell, list(names.values()))
        ys = [scale * cell.values[name].mean for name in names.values()]
        ends: list[Ends] = []
        for name in names.values():
            pair = around.get(name)
            both = None if pair is None else (scale * pair[0], scale * pair[1])
            ends.append(both or cell.values[name].ends(scale))
        return Series(cell.method, list(names), ys, ends, colour=self.results.colour_of(cell))

    def intervals(self, cell: Cell, names: Sequence[Name]) -> dict[Name, Ends]:
        """Return the intervals of those values that have one."""
        found: dict[Name, Ends] = {}
        for name, runs in self.predictions.runs(cell, names).items():
            around = Interval.of(runs)
            if around is not None:
                found[name] = (around.low, around.high)
        return found

    def table(self) -> Table:
        """Return a table with a line per measure and method, and a column per layer."""
        every = sorted({layer for layers in self.measures.values() for layer in layers})
        lines = []
        for measure in self.measures:
            unit = self.results.unit(self.task, measure)
            group = f"{spoken(measure)}{', %' if unit.sign else ''}"
            for cell in self.cells:
                entries = tuple(self._entry(cell, f"layer{n}_{measure}", unit) for n in every)
                lines.append(Line(cell.method, entries, group=group))
        title = f"{self.results.titled(self.task)}: measures by layer, test"
        columns = tuple(f"layer {layer}" for layer in every)
        basis = self.results.basis(self.task, self.cells)
        about = f"{caption('layer_table')}{self.some} Of {basis}."
        return Table(f"{self.task}-layers", title, columns, tuple(lines), about)

    def _entry(self, cell: Cell, metric: str, unit: NumberFormat) -> Entry:
        name = cell.mean_name(self.task, metric, "test")
        if name is None:
            return Entry.EMPTY
        if self.stays(cell, metric):
            return Entry("=")
        return Entry(unit.show(cell.values[name].mean))

    def correlations(self) -> Iterator[_Correlated]:
        """Yield the correlation of each measure with each transfer task: of its mean and of its
        largest value over layers, as in Kargaran et al. (2024), and of each layer.
        """
        for measure, layers in self.measures.items():
            for task, metric in self.results.transfer_tasks():
                points = list(self._points(measure, layers, task, metric))
                if not points:
                    continue
                langs, rows, ys = zip(*points, strict=True)
                pooled = {
                    "mean over layers": [fmean(row) for row in rows],
                    "largest over layers": [max(row) for row in rows],
                }
                for where, xs in pooled.items() if len(layers) > 1 else ():
                    found = GroupedCorrelation.of(xs, ys, langs)
                    yield _Correlated(measure, where, task, None, found)
                for place, layer in enumerate(layers):
                    found = GroupedCorrelation.of([row[place] for row in rows], ys, langs)
                    yield _Correlated(measure, f"layer {layer}", task, layer, found)

    def _points(
        self, measure: str, layers: Sequence[int], task: str, metric: str
    ) -> Iterator[tuple[str, list[float], float]]:
        """Yield (language, the measure at each layer, the task's value) of the grid's points."""
        metrics = [f"layer{layer}_{measure}" for layer in layers]
        split = self.results.split(task)
        for cell in self.of_encoder:
            if all(self.stays(cell, name) for name in metrics):
                continue
            for lang in self.results.single_languages(task, metric, cell):
                pair = f"{lang}-{self.results.plan.pivot}"
                names: list[Name] = [(self.task, pair, name, "test") for name in metrics]
                if all(name in cell.values for name in names):
                    value = cell.values[task, lang, metric, split].mean
                    yield lang, [cell.values[name].mean for name in names], value

    def correlation_tables(self, found: Sequence[_Correlated]) -> Iterator[Table]:
        """Yield the table of correlations, where there is a transfer task; that of layers alone
        where there is one layer.
        """
        shown = [one for one in found if one.layer is None] or found
        tasks = tuple(dict.fromkeys(one.task for one in shown))
        lines = []
        for measure, where in dict.fromkeys((one.measure, one.where) for one in shown):
            own = {
                one.task: one.found for one in shown if (one.measure, one.where) == (measure, where)
            }
            entries = tuple(_correlation(own.get(task)) for task in tasks)
            lines.append(Line(where, entries, group=spoken(measure)))
        if lines:
            title = f"{self.results.titled(self.task)}: correlation with transfer"
            columns = tuple(self.results.titled(task) for task in tasks)
            about, anchor = caption("layer_correlations", fewest=FEWEST), f"{self.task}-transfer"
            about += self.on
            yield Table(anchor, title, columns, tuple(lines), about, corner="layers")

    def correlated_panels(self, found: Sequence[_Correlated]) -> list[Panel]:
        """Return a panel per transfer task: the correlation of each measure by layer."""
        panels = []
        for task in dict.fromkeys(one.task for one in found):
            lines = []
            for colour, measure in enumerate(self.measures):
                own = {
                    one.layer: one.found.found.pearson
                    for one in found
                    if (one.task, one.measure) == (task, measure) and one.layer is not None
                    if one.found.groups >= FEWEST and one.found.found.pearson is not None
                }
                if len(own) > 1:
                    lines.append(
                        Series(spoken(measure), list(own), list(own.values()), colour=colour)
                    )
            if lines:
                title = self.results.basis(task, self.of_encoder)
                panels.append(Panel(title, "layer", "Pearson's r", lines, zero=True, whole=True))
        return panels


def _correlation(grouped: GroupedCorrelation | None) -> Entry:
    if grouped is None:
        return Entry.EMPTY
    n = f"n = {grouped.found.n}, {grouped.groups} languages"
    r, rho = grouped.found.pearson, grouped.found.spearman
    if grouped.groups < FEWEST or r is None or rho is None:
        why = "too few" if grouped.groups < FEWEST else "one side is always the same"
        return Entry("–", below=f"{n}: {why}", state="empty")
    spread = _R.show_interval(*(grouped.interval or (None, None)))
    return Entry(_R.show(r), spread=spread, below=f"ρ = {_R.show(rho)}, {n}")
