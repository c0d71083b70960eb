"""Token translation by mean shifts: its scores over layers and weights, as curves and heat maps
(Liu et al. 2020, Figures 7 and 8), and translated sentences as stored predictions keep them (their
Table 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.languages import pair_of
from raxalign.measured import spoken
from raxalign.plan.names import ordered
from raxalign.report.cells.results import Results
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.figures.curves import MOST_CURVES
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Curve, Heat, Panel, Sketch
from raxalign.report.sections.base import Section
from raxalign.tasks.translation.counts import shift_point

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.store.ledger import Ledger

Points = Mapping[tuple[int, float], float]
"""(layer, weight) -> value."""
_MOST_DIRECTIONS = 12
_MOST_SENTENCES = 3
_COLUMNS = {"layer", "alpha", "id", "source_text", "output_text", "reference_text"}


@final
class TokenTranslations(Section):
    """Figures per score of a sweep over layers and weights, with a heat map and curves per language
    pair, and the first translated sentences where their texts are kept (`samples`).

    Scores of such a sweep are named as token translation names them (``layer10_alpha2_bleu1``).
    """

    VERSION = 1
    place = 95

    def share(self) -> Share | None:
        """Return the figures and sentences; None where no task of the grid sweeps over layers and
        weights.
        """
        results = self.material.results
        found = (
            (task, point[2])
            for task, _, metric, split in results.names
            if split == "test" and (point := shift_point(metric))
        )
        sweeps = list(dict.fromkeys(found))
        sketches = [sketch for sweep in sweeps for sketch in _sketches(results, *sweep)]
        figures = drawn(sketches, self.material.figures)
        tables = tuple(self._sentences(dict.fromkeys(task for task, _ in sweeps)))
        parts = (
            Part("figures", "Figures", figures=figures),
            Part("translations", "Translated sentences", tables=tables),
        )
        shown = tuple(part for part in parts if part.figures or part.tables)
        return Share(shown) if shown else None

    def _sentences(self, tasks: Iterable[str]) -> Iterator[Table]:
        """The tables of kept texts of each task, of the first cell that has some."""
        ledger, languages = self.material.ledger, self.material.plan.languages
        for task in tasks if ledger is not None else ():
            assert ledger is not None
            cells = self.material.results.cells
            made = (list(sample_tables(cell, task, ledger, languages)) for cell in cells)
            yield from next((tables for tables in made if tables), ())


def _sketches(results: Results, task: str, stem: str) -> Iterator[Sketch]:
    """The figures of one score: over layers and weights, over weights, and over layers, by the
    values of the first cell that has some.
    """
    title, rate = f"{task}: {spoken(stem)}", stem == "convert_rate"
    found = next((grids for cell in results.cells if (grids := _grids(cell, task, stem))), {})
    langs = sorted(ordered(found, results.plan), key=lambda lang: lang not in MEANS)
    grids = {{"avg": "mean"}.get(lang, lang): found[lang] for lang in langs}
    heats = [Panel(name, "weight α", "layer", heat=_heat(grid)) for name, grid in grids.items()]
    caption = (
        "One panel per language pair, in percent. Rows are layers, columns weights of the shift"
        " (as in Liu et al. 2020, Figures 7 and 8)."
    )
    yield Sketch(f"heat-{task}-{stem}", f"{title} over layers and weights", caption, heats)
    for axis, make, figure in (
        ("weights", over_weights, "7" if rate else "8a"),
        ("layers", over_layers, "" if rate else "8b"),
    ):
        made = [make(name, f"{spoken(stem)} (%)", grid) for name, grid in grids.items()]
        caption = "One panel per language pair, in percent, on test."
        caption += f" As in Liu et al. 2020, Figure {figure}." if figure else ""
        panels = [panel for panel in made if panel is not None]
        yield Sketch(f"{axis}-{task}-{stem}", f"{title} over {axis}", caption, panels)


def _grids(cell: Cell, task: str, stem: str) -> dict[str, Points]:
    """Language -> (layer, weight) -> value on test."""
    grids: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
    for (t, lang, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if t == task and point is not None and point[2] == stem and split == "test":
            grids[lang][point[:2]] = value.mean
    return dict(grids)


def _heat(points: Points) -> Heat:
    layers, weights = (sorted(set(axis)) for axis in zip(*points, strict=True))
    values = [
        [100 * points.get((layer, weight), math.nan) for weight in weights] for layer in layers
    ]
    return Heat(values, [str(layer) for layer in layers], [f"{weight:g}" for weight in weights])


def over_weights(title: str, label: str, points: Points) -> Panel | None:
    """Make a panel with a curve per layer over the weights; None where there is one weight."""
    return _panel(title, label, "weight α", list(_curves(points, "weight")))


def over_layers(title: str, label: str, points: Points) -> Panel | None:
    """Make a panel with a curve per weight over the layers; None where there is one layer."""
    return _panel(title, label, "layer", list(_curves(points, "layer")))


def _panel(title: str, label: str, x: str, curves: Sequence[Curve]) -> Panel | None:
    if not curves:
        return None
    xs = curves[0].x
    return Panel(title, x, label, curves, ticks=xs if len(xs) <= 13 else ())


def _curves(points: Points, axis: Literal["layer", "weight"]) -> Iterator[Curve]:
    """Yield the curves along one axis, one per value of the other; of many the most even choice."""
    layers, weights = (sorted(set(found)) for found in zip(*points, strict=True))
    along, others = (layers, weights) if axis == "layer" else (weights, layers)
    if len(along) < 2:
        return
    for colour, other in enumerate(_even(others)):
        ys = [
            100 * points.get((x, other) if axis == "layer" else (int(other), x), math.nan)
            for x in along
        ]
        label = f"α {other:g}" if axis == "layer" else f"layer {other:g}"
        if not any(math.isnan(y) for y in ys):
            yield Curve(label, [float(x) for x in along], ys, colour=colour)


def _even(values: Sequence[float]) -> list[float]:
    """Choose at most `MOST_CURVES` values, the first and the last among them."""
    if len(values) <= MOST_CURVES:
        return list(values)
    step = (len(values) - 1) / (MOST_CURVES - 1)
    return [values[round(place * step)] for place in range(MOST_CURVES)]


def sample_tables(
    cell: Cell, task: str, ledger: Ledger, languages: Sequence[str]
) -> Iterator[Table]:
    """Yield a table per direction: the first test sentences with their outputs at every weight of
    the layer that dev chooses, or of the last one without dev values, and their references.

    Args:
        cell: the cell that was evaluated.
        task: the grid's name of the task.
        ledger: where the predictions are.
        languages: those that a direction is between.
    """
    evaluations: dict[str, str] = {}
    for (name, lang, metric, split), seeds in cell.evaluations.items():
        shifted = (name, split) == (task, "test") and shift_point(metric) is not None
        if shifted and pair_of(lang, languages):
            evaluations[lang] = seeds[min(seeds, key=str)][0]
    for lang in sorted(evaluations)[:_MOST_DIRECTIONS]:
        table = ledger.predictions(evaluations[lang])
        if table is not None and set(table.column_names) >= _COLUMNS:
            between = pair_of(lang, languages) or ("", "")
            yield from _sentences_of(table, lang, _chosen_shift(cell, task, lang), between)


def _chosen_shift(cell: Cell, task: str, lang: str) -> tuple[int, float | None]:
    """The layer and weight with the best BLEU-1 on dev, the first of equals; without dev values the
    last layer, and no weight.
    """
    points: dict[str, dict[tuple[int, float], float]] = {"dev": {}, "test": {}}
    for (t, direction, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if (t, direction) == (task, lang) and point is not None and point[2] == "bleu1":
            points[split][point[:2]] = value.mean
    if points["dev"]:
        return max(points["dev"], key=lambda point: points["dev"][point])
    return max(layer for layer, _ in points["test"]), None


def _sentences_of(
    table: pa.Table, lang: str, shift: tuple[int, float | None], sides: tuple[str, str]
) -> Iterator[Table]:
    """The table of a direction, where it has kept texts."""
    import pyarrow.compute as pc

    layer, chosen = shift
    here = pc.and_(pc.equal(table["lang"], lang), pc.equal(table["layer"], layer))
    rows = table.filter(pc.and_(here, pc.is_valid(table["source_text"]))).to_pylist()
    ids = list(dict.fromkeys(row["id"] for row in rows))[:_MOST_SENTENCES]
    lines: list[Line] = []
    for number, id_ in enumerate(ids, 1):
        own = sorted((row for row in rows if row["id"] == id_), key=lambda row: row["alpha"])
        first = next(row for row in rows if row["id"] == id_)
        texts = [(f"input ({sides[0]})", first["source_text"], "")]
        for row in own:
            sub = "chosen on dev" if row["alpha"] == chosen else ""
            texts.append((f"{lang}, α={row['alpha']:g}", row["output_text"], sub))
        texts.append((f"reference ({sides[1]})", first["reference_text"], ""))
        lines += [Line(label, (Entry(text),), sub, (), f"{number}") for label, text, sub in texts]
    why = "the last layer of the sweep, since no development set chooses one"
    why = why if chosen is None else f"which dev chooses with α={chosen:g}"
    caption = (
        f"The first test sentences, shifted after layer {layer}, {why} (as in Liu et al. 2020,"
        " Table 1)."
    )
    title = f"Token translation, {lang}"
    if lines:
        yield Table("", title, ("text",), tuple(lines), caption, corner="sentence")
