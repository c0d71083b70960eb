"""The geometry of spaces: language identity and anisotropy over layers, and words
as points before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.plan.names import ordered
from raxalign.report.cells.choice import of_methods
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import over_runs_alone
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Curve, Panel, Points
from raxalign.report.predictions.read import (
    MOST_LANGUAGES,
    MOST_METHODS,
    Predictions,
    shown_cells,
)
from raxalign.report.sections.base import Section

_TASK = "representation"
_LAYER = re.compile(r"layer(\d+)_(language_probe|anisotropy)")
_SAID = {
    "language_probe": (
        "Language identity by layer",
        "accuracy of a linear probe (%)",
        "50 is chance: the languages cannot be told apart.",
    ),
    "anisotropy": (
        "Anisotropy by layer",
        "mean cosine",
        "Between the vectors of different words of the other language.",
    ),
}
_COLUMNS = {"kind", "side", "word", "pair", "x", "y"}
MOST_PANELS = 6
Row = Mapping[str, Any]
"""One point of a plane, as stored predictions have it."""
_DRAWN = (
    ("occurrence", "Linked words in their sentences", "at the highest layer"),
    (
        "type",
        "The word pairs linked most often",
        "at the lowest layer, which readouts of other layers leave as it is",
    ),
)


@final
class Spaces(Section):
    """The figures of representation spaces: measures by layer, and words as points in two
    dimensions.
    """

    VERSION = 1
    place = 90

    def share(self) -> Share | None:
        """Return the figures; None without a ledger or a task that measures spaces."""
        if self.material.ledger is None:
            return None
        figures = drawn(list(self._sketches()), self.material.figures)
        return Share((Part("analyses", "Analyses", figures=figures),)) if figures else None

    def _sketches(self) -> Iterator[Sketch]:
        results = self.material.results
        task, cells = shown_cells(results, _TASK)
        for name, (title, label, about) in _SAID.items():
            scale = results.unit(task, name).scale
            panels = _layer_panels(results, cells, (task, name), label, scale)
            caption = f"One panel per language pair. {about} Error bars: 95 % intervals over runs"
            caption += f" (Student's t).{of_methods(results, MOST_METHODS)}"
            yield Sketch(f"layers-{name}", title, caption, panels)
        for kind, title, where in _DRAWN:
            linked = " A dotted line links the two words of a pair." if kind == "type" else ""
            caption = (
                f"Two dimensions of the joint space of both languages, {where}; each panel has a"
                f" plane of its own; methods with the same points share one.{linked}"
            )
            panels = panels_of(results, self.material.predictions, kind)
            yield Sketch(f"words-{kind}", title, caption, panels)


def _layer_panels(
    results: Results, cells: Sequence[Cell], measure: tuple[str, str], label: str, scale: float
) -> list[Panel]:
    """A panel per language pair of what a (task, name) measures: a curve per method."""
    names = [name for cell in cells for name in cell.values]
    found = {name[1] for name in names if name[0] == measure[0] and name[1] not in MEANS}
    langs = ordered(found, results.plan)
    panels = []
    for lang in langs[:MOST_LANGUAGES]:
        curves = [
            curve
            for colour, cell in enumerate(cells)
            for curve in _layer_curves(cell, measure, lang, (scale, colour))
        ]
        if curves:
            ticks = curves[0].x if len(curves[0].x) <= 13 else ()
            panels.append(Panel(lang, "layer", label, curves, ticks=ticks))
    return panels


def _layer_curves(
    cell: Cell, measure: tuple[str, str], lang: str, drawn_by: tuple[float, int]
) -> Iterator[Curve]:
    """The curve of a cell over its layers on test, where it has several, by a (scale, colour)."""
    scale, colour = drawn_by
    points = {}
    for (task, other, metric, split), value in cell.values.items():
        found = _LAYER.fullmatch(metric)
        if found is not None and (task, found[2], other, split) == (*measure, lang, "test"):
            points[int(found[1])] = value
    layers = sorted(points)
    if len(layers) > 1:
        values = [points[layer] for layer in layers]
        means = [scale * value.mean for value in values]
        ends = [over_runs_alone(value, scale) for value in values]
        yield Curve(cell.method, layers, means, ends, colour=colour)


def panels_of(results: Results, predictions: Predictions, kind: str) -> list[Panel]:
    """Return words as points (`occurrence` or `type`): one panel per method, for the first language
    pair; the original encoder comes first. Methods with the same points share a panel.
    """
    task, cells = shown_cells(results, _TASK)
    asked = predictions.of_all(cells, task, _COLUMNS)
    panels: dict[str, Panel] = {}
    for entry in asked:
        lang, table = next(iter(entry.tables.items()))
        rows = [row for row in table.select(sorted(_COLUMNS)).to_pylist() if row["kind"] == kind]
        sides = [[row for row in rows if row["side"] == side] for side in ("src", "tgt")]
        codes = (lang.removesuffix(f"-{results.plan.pivot}"), results.plan.pivot)
        clouds = [
            _cloud(code, side, colour, named=kind == "type")
            for colour, (code, side) in enumerate(zip(codes, sides, strict=True))
            if side
        ]
        if clouds:
            links = list(_links(*sides)) if kind == "type" else []
            made = Panel(entry.cell.method, "", "", points=clouds, links=links)
            same = panels.get(repr(clouds))
            joined = f"{same.title}, {made.title}" if same is not None else made.title
            panels[repr(clouds)] = replace(made, title=joined)
    return list(panels.values())[:MOST_PANELS]


def _cloud(code: str, rows: Sequence[Row], colour: int, *, named: bool) -> Points:
    """The points of one language."""
    names = [row["word"] for row in rows] if named else ()
    return Points(code, [row["x"] for row in rows], [row["y"] for row in rows], names, colour)


def _links(src: Sequence[Row], tgt: Sequence[Row]) -> Iterator[tuple[float, float, float, float]]:
    """A line per pair of words, as in Figure 2 of WEAM."""
    ends = {row["pair"]: row for row in tgt}
    for row in src:
        if (end := ends.get(row["pair"])) is not None:
            yield row["x"], row["y"], end["x"], end["y"]
