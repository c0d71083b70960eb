"""The geometry of spaces: language identity and anisotropy over layers, and words
as points before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.report.cells.choice import of_methods
from raxalign.report.cells.results import Results
from raxalign.report.document import Part, Share
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Curve, Panel, Points
from raxalign.report.predictions.read import (
    MOST_LANGUAGES,
    MOST_METHODS,
    Asked,
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
        "mean cosine (× 100)",
        "Between the vectors of different words of the other language.",
    ),
}
_COLUMNS = {"kind", "side", "word", "x", "y"}
MOST_PANELS = 6
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
    place = 140

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
            panels = _layer_panels(cells, (task, name), label)
            caption = f"One panel per language pair. {about}{of_methods(results, MOST_METHODS)}"
            yield Sketch(f"layers-{name}", title, caption, panels)
        asked = self.material.predictions.of_all(cells, task, _COLUMNS)
        for kind, title, where in _DRAWN:
            caption = (
                f"Two dimensions of the joint space of both languages, {where}; each panel has a"
                " plane of its own."
            )
            yield Sketch(f"words-{kind}", title, caption, _clouds(results, asked, kind))


def _layer_panels(cells: Sequence[Cell], measure: tuple[str, str], label: str) -> list[Panel]:
    """A panel per language pair of what a (task, name) measures: a curve per method."""
    names = [name for cell in cells for name in cell.values]
    langs = sorted({name[1] for name in names if name[0] == measure[0] and name[1] not in MEANS})
    panels = []
    for lang in langs[:MOST_LANGUAGES]:
        curves = [
            curve
            for colour, cell in enumerate(cells)
            for curve in _layer_curves(cell, measure, lang, colour)
        ]
        if curves:
            ticks = curves[0].x if len(curves[0].x) <= 13 else ()
            panels.append(Panel(lang, "layer", label, curves, ticks=ticks))
    return panels


def _layer_curves(cell: Cell, measure: tuple[str, str], lang: str, colour: int) -> Iterator[Curve]:
    """The curve of a cell over its layers on test, where it has several."""
    points = {}
    for (task, other, metric, split), value in cell.values.items():
        found = _LAYER.fullmatch(metric)
        if found is not None and (task, found[2], other, split) == (*measure, lang, "test"):
            points[int(found[1])] = 100 * value.mean
    layers = sorted(points)
    if len(layers) > 1:
        yield Curve(cell.method, layers, [points[layer] for layer in layers], colour=colour)


def _clouds(results: Results, asked: list[Asked], kind: str) -> list[Panel]:
    """One panel per method, for the first language pair; the original encoder comes first."""
    panels = []
    for entry in asked[:MOST_PANELS]:
        lang, table = next(iter(entry.tables.items()))
        clouds = []
        for colour, (side, code) in enumerate(
            (("src", lang.partition("-")[0]), ("tgt", results.plan.pivot))
        ):
            rows = [
                row
                for row in table.select(sorted(_COLUMNS)).to_pylist()
                if (row["kind"], row["side"]) == (kind, side)
            ]
            names = [row["word"] for row in rows] if kind == "type" else ()
            if rows:
                clouds.append(
                    Points(
                        code, [row["x"] for row in rows], [row["y"] for row in rows], names, colour
                    )
                )
        if clouds:
            panels.append(Panel(entry.cell.method, "", "", points=clouds))
    return panels
