"""Retrieval against transfer (Cao et al. 2020, Figure 2): one point per language, and how
strongly the two are correlated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

from raxalign.analysis.cells import Cell, Name
from raxalign.analysis.correlation import Correlation, correlate
from raxalign.report.cells.choice import (
    best_on_dev,
    colour_of,
    of_encoder,
    of_methods,
    single_languages,
    titled,
    transfer_tasks,
)
from raxalign.report.cells.judge import Judge, ends_of
from raxalign.report.cells.numbers import FEW, Unit
from raxalign.report.cells.results import Results
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.figures.curves import MOST_CURVES, axis_of, counted
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Panel, Points
from raxalign.report.sections.base import Section

_TASK = "retrieval"
_R = Unit(1, 2)


@final
class Transfer(Section):
    """Word retrieval against transfer tasks: a figure with a panel per task, and a table of all
    correlations.
    """

    VERSION = 1
    place = 45

    def share(self) -> Share | None:
        """Return the figure and the table; None where the grid does not have both."""
        results = self.material.results
        caption = (
            "One point per language (as in Cao et al. 2020, Figure 2, which shows only the original"
            " encoder). The table above has all correlations. Error bars: 95 % intervals over runs"
            " and examples; one that leaves the panel is longer than it shows."
            f"{of_encoder(results)}{of_methods(results, MOST_CURVES)}"
        )
        panels = transfer_panels(results, MOST_CURVES, self.material.judge)
        sketch = Sketch("retrieval-transfer", "Retrieval against transfer", caption, panels)
        table = transfer_table(results)
        if table is None:
            return None
        figures = drawn([sketch], self.material.figures)
        return Share((Part("figures", "Figures", tables=(table,), figures=figures),))


@dataclass(frozen=True)
class _Cloud:
    """The languages of one cell, by retrieval (x) and by a task (y), as figures show them."""

    cell: Cell
    langs: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]
    x_names: Sequence[Name]
    y_names: Sequence[Name]


def transfer_panels(results: Results, most: int, judge: Judge) -> list[Panel]:
    """Return one panel per transfer task: its scores against word retrieval, of at most `most`
    methods.
    """
    panels = []
    for task, metric in transfer_tasks(results):
        found = list(_clouds(results, task, metric, most))
        clouds = [
            Points(
                cloud.cell.method,
                cloud.x,
                cloud.y,
                cloud.langs if len(cloud.langs) <= 12 else (),
                colour_of(results, cloud.cell),
                *(
                    [ends_of(judge, cloud.cell, name, _scale(results, name)) for name in names]
                    for names in (cloud.x_names, cloud.y_names)
                ),
            )
            for cloud in found
        ]
        if clouds:
            panels.append(
                Panel(
                    titled(results, task),
                    f"{axis_of(results, *found[0].x_names[0][::2])},"
                    f" {counted((len(cloud.x) for cloud in clouds), 'languages')}",
                    axis_of(results, task, metric),
                    points=clouds,
                )
            )
    return panels


def transfer_table(results: Results) -> Table | None:
    """Pearson's r of every method and transfer task, Spearman's ρ and the number of languages under
    it; None where there is nothing to correlate.
    """
    found: dict[str, dict[str, Correlation]] = {}
    columns = []
    for task, metric in transfer_tasks(results):
        clouds = list(_clouds(results, task, metric, len(results.kinds)))
        columns += [titled(results, task)] if clouds else []
        for cloud in clouds:
            found.setdefault(cloud.cell.method, {})[titled(results, task)] = correlate(
                cloud.x, cloud.y
            )
    if not columns:
        return None
    lines = tuple(
        Line(method, tuple(_entry(row.get(column)) for column in columns))
        for method, row in found.items()
    )
    caption = (
        "Pearson's r over languages; under it Spearman's ρ and the number of languages n. The"
        " methods are those of the figure below, and those for which it has no room. A correlation"
        f" over three or four languages means little.{of_encoder(results)}"
    )
    return Table(
        "retrieval-transfer",
        "Correlation of retrieval and transfer",
        tuple(columns),
        lines,
        caption,
    )


def _entry(found: Correlation | None) -> Entry:
    if found is None:
        return Entry("–", state="empty")
    if found.pearson is None or found.spearman is None:
        return Entry("–", below=f"n = {found.n}", state="empty")
    return Entry(_R.show(found.pearson), below=f"ρ = {_R.show(found.spearman)}, n = {found.n}")


def _clouds(results: Results, task: str, metric: str, most: int) -> Iterator[_Cloud]:
    """The clouds of at most `most` methods; all of them are of one metric of retrieval."""
    retrieval = results.of_kind(_TASK)
    if retrieval is None:
        return
    cells = best_on_dev(results, most, task, metric)
    measured = _retrieval_metric(results, cells, retrieval)
    for cell in cells if measured is not None else ():
        assert measured is not None
        places: dict[str, Name] = {
            lang: (retrieval, f"{lang}-{results.plan.pivot}", measured, "test")
            for lang in single_languages(results, task, metric, cell)
        }
        langs = [lang for lang, place in places.items() if place in cell.values]
        if len(langs) > 1:
            xs = [places[lang] for lang in langs]
            ys: list[Name] = [(task, lang, metric, results.split(task)) for lang in langs]
            x, y = ([_scale(results, n) * cell.values[n].mean for n in names] for names in (xs, ys))
            yield _Cloud(cell, langs, x, y, xs, ys)


def _scale(results: Results, name: Name) -> float:
    return results.unit(name[0], name[2]).scale


def _retrieval_metric(results: Results, cells: Sequence[Cell], task: str) -> str | None:
    """Contextual accuracy over unseen pairs, or over all where the unseen are too few."""
    values = {name: value for cell in cells for name, value in cell.values.items()}
    names = [name for name in values if name[0] == task and name[3] == "test"]
    for metric in ("contextual_accuracy", "contextual_accuracy_all"):
        there = [name for name in names if name[2] == metric]
        counted = results.plan.count_of(task, metric)
        counts = [values[name].mean for name in names if name[2] == counted]
        if there and (not counts or min(counts) >= FEW):
            return metric
    return None
