"""What the geometry of spaces looks like: language identity and anisotropy over layers, and words
as points before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS
from raxalign.report._analyses import MOST_LANGUAGES, MOST_METHODS, Asked, read_predictions
from raxalign.report._plots import Curve, Panel, Points
from raxalign.report._results import Results
from raxalign.report._shown import best_on_dev, of_methods, representatives
from raxalign.report.document import Analysis

if TYPE_CHECKING:
    from raxalign.analysis.cells import Cell
    from raxalign.store.ledger import Ledger

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
        "Of the vectors of different words of the other language.",
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


def space_analyses(results: Results, ledger: Ledger) -> Iterator[Analysis]:
    """Figures of the representation task; nothing where the grid has none."""
    task = next((name for name, kind in results.tasks.items() if kind == "representation"), None)
    metric = None if task is None else results.main_metric(task)
    if task is None or metric is None:
        return
    cells = best_on_dev(representatives(results, task, metric), MOST_METHODS, task, metric)
    for name, (title, label, caption) in _SAID.items():
        panels = _layer_panels(cells, task, name, label)
        if panels:
            about = f"A panel a language pair. {caption}{of_methods(results, MOST_METHODS)}"
            yield Analysis(title, panels=panels, stem=f"layers-{name}", caption=about)
    asked = [
        entry
        for entry in (read_predictions(ledger, cell, task, _COLUMNS) for cell in cells)
        if entry.tables
    ]
    for kind, title, where in _DRAWN:
        panels = _clouds(results, asked, kind)
        if panels:
            caption = (
                f"Two dimensions of the joint space of both languages, {where}; each panel has a"
                " plane of its own."
            )
            yield Analysis(title, panels=panels, stem=f"words-{kind}", caption=caption)


def _layer_panels(cells: list[Cell], task: str, wanted: str, label: str) -> list[Panel]:
    panels = []
    langs = sorted(
        {
            name[1]
            for cell in cells
            for name in cell.values
            if name[0] == task and name[1] not in MEANS
        }
    )
    for lang in langs[:MOST_LANGUAGES]:
        curves = []
        for colour, cell in enumerate(cells):
            points = {}
            for (t, other, metric, split), value in cell.values.items():
                found = _LAYER.fullmatch(metric)
                if found is not None and (t, other, found[2], split) == (
                    task,
                    lang,
                    wanted,
                    "test",
                ):
                    points[int(found[1])] = 100 * value.mean
            layers = sorted(points)
            if len(layers) > 1:
                curves.append(
                    Curve(cell.method, layers, [points[layer] for layer in layers], colour=colour)
                )
        if curves:
            panels.append(
                Panel(
                    lang,
                    "layer",
                    label,
                    curves,
                    ticks=curves[0].x if len(curves[0].x) <= 13 else (),
                )
            )
    return panels


def _clouds(results: Results, asked: list[Asked], kind: str) -> list[Panel]:
    """A panel a method, for the first language pair; the encoder as it was comes first."""
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
