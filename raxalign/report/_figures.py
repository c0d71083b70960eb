"""What the figures show: curves over data size and over a param, sweeps over layers and weights,
gains against the baseline, retrieval against transfer. Values are taken from the grid's cells;
drawing is `_plots`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from raxalign.analysis.cells import MEANS, Cell, Value
from raxalign.analysis.metrics import spoken
from raxalign.report._own import named
from raxalign.report._plots import Curve, Heat, Panel, Points, draw
from raxalign.report._results import Results
from raxalign.report._shown import (
    baseline,
    best_on_dev,
    colour_of,
    dev_of,
    of_methods,
    representatives,
    single_languages,
    titled,
    transfer_tasks,
    value_of,
)
from raxalign.report._transfer import transfer_panels, transfer_table
from raxalign.report.document import Figure, Section
from raxalign.tasks.translation.samples import shift_point

MOST_CURVES = 8
MOST_PANELS = 12
_GREEK = {"lambda": "λ", "alpha": "α"}


def figures_section(results: Results, folder: Path) -> Section | None:
    """Draws every figure for which there are values; None where there is none."""
    made = [
        Figure(
            f"figure-{name}",
            title,
            name,
            draw(panels[:MOST_PANELS], folder, name),
            _counted(caption, panels),
        )
        for name, title, caption, panels in _planned(results)
        if panels
    ]
    table = transfer_table(results)
    return (
        Section(
            "figures", "Figures", tables=(table,) if table is not None else (), figures=tuple(made)
        )
        if made
        else None
    )


def _counted(caption: str, panels: Sequence[Panel]) -> str:
    return (
        f"{caption} The first {MOST_PANELS} of {len(panels)} panels."
        if len(panels) > MOST_PANELS
        else caption
    )


def _planned(results: Results) -> Iterator[tuple[str, str, str, list[Panel]]]:
    band = (
        "Bands and bars are one standard deviation over runs to each side; dashed level: the"
        " encoder as it was."
    )
    fewer = of_methods(results, MOST_CURVES)
    yield (
        "data-size",
        "Learning curves over the number of sentence pairs",
        f"Mean over languages. {band}{fewer}",
        size_panels(results),
    )
    for method, axis in _numeric_axes(results):
        title = f"{method}: {_GREEK.get(axis, axis)}"
        caption = (
            "Mean over languages, largest training set, other options as dev chooses them. Filled:"
            f" test; hollow, dashed: dev, on which a value is to be chosen. {band}"
        )
        yield (f"curve-{method}-{axis}", title, caption, axis_panels(results, method, axis))
    for task, stem in _sweeps(results):
        caption = (
            "A panel a language pair; in percent. Rows are layers, columns the weight of the shift"
            " (as in Liu et al. 2020, Figures 7 and 8)."
        )
        yield (
            f"heat-{task}-{stem}",
            f"{task}: {spoken(stem)} over layers and weights",
            caption,
            heat_panels(results, task, stem),
        )
    yield (
        "gain-over-baseline",
        "Gain over the baseline against the baseline",
        (
            "A point a language; the baseline is the encoder as it was (as in Kulshreshtha et al."
            " 2020, Figure 2). Methods at their largest training set and the point that dev"
            f" chooses.{fewer}"
        ),
        gain_panels(results),
    )
    yield (
        "retrieval-transfer",
        "Retrieval against transfer",
        (
            "A point a language (as in Cao et al. 2020, Figure 2, there for the encoder as it was"
            f" alone); the table above has all correlations.{fewer}"
        ),
        transfer_panels(results, MOST_CURVES),
    )


def size_panels(results: Results) -> list[Panel]:
    """A panel a task: curves of methods that were run at several sizes."""
    panels = []
    for task in results.tasks:
        metric = results.main_metric(task)
        if metric is None:
            continue
        lines: dict[str, dict[int, Value]] = defaultdict(dict)
        ranks: dict[str, float] = defaultdict(lambda: -math.inf)
        for cell in _some(results, task, metric):
            if (
                cell.sentences is not None
                and (value := value_of(cell, task, metric, results.split(task))) is not None
            ):
                lines[_named(results, cell)][cell.sentences] = value
                ranks[_named(results, cell)] = max(
                    ranks[_named(results, cell)], dev_of(cell, task, metric)
                )
        best = sorted(
            (name for name, points in lines.items() if len(points) > 1),
            key=lambda name: -ranks[name],
        )[:MOST_CURVES]
        curves = []
        for colour, (name, points) in enumerate(
            [(name, points) for name, points in lines.items() if name in best], 1
        ):
            sizes = sorted(points)
            spread = [points[size].sd for size in sizes]
            curves.append(
                Curve(
                    name,
                    sizes,
                    [100 * points[size].mean for size in sizes],
                    [h and 100 * h for h in spread],
                    colour=colour,
                )
            )
        if curves:
            ticks = sorted({size for curve in curves for size in curve.x})
            curves += _levels(results, task, metric)
            panels.append(
                Panel(
                    titled(results, task),
                    "sentence pairs a language",
                    _in_percent(metric),
                    curves,
                    log=True,
                    ticks=ticks,
                )
            )
    return panels


def axis_panels(results: Results, method: str, axis: str) -> list[Panel]:
    """A panel a task: test and dev over the values of one numeric param; encoder and other params
    are those of the best point on dev.
    """
    panels = []
    for task in results.tasks:
        metric = results.main_metric(task)
        cells = [
            cell
            for cell in results.cells
            if cell.method == method and _number(cell.params.get(axis)) is not None
        ]
        if metric is None or not cells:
            continue
        largest = max((cell.sentences or 0) for cell in cells)
        cells, others = _one_line(
            [cell for cell in cells if (cell.sentences or 0) == largest], axis, task, metric
        )
        curves = []
        for split, dashed in (("test", False), ("dev", True)):
            best: dict[float, Value] = {}
            for cell in cells:
                value, x = value_of(cell, task, metric, split), _number(cell.params.get(axis))
                if value is not None and x is not None:
                    best[x] = value
            xs = sorted(best)
            if len(xs) > 1:
                halves = [None if dashed else (h and 100 * h) for h in (best[x].sd for x in xs)]
                curves.append(
                    Curve(
                        split, xs, [100 * best[x].mean for x in xs], halves, dashed=dashed, colour=1
                    )
                )
        if curves:
            xs = [float(x) for x in curves[0].x]
            log = min(xs) > 0 and max(xs) / min(xs) >= 8
            curves += _levels(results, task, metric)
            panels.append(
                Panel(
                    f"{titled(results, task)}{others}",
                    _GREEK.get(axis, axis),
                    _in_percent(metric),
                    curves,
                    log=log,
                    ticks=xs if len(xs) <= 7 else (),
                )
            )
    return panels


def _one_line(cells: Sequence[Cell], axis: str, task: str, metric: str) -> tuple[list[Cell], str]:
    """Of cells that differ in more than an axis, those of one line along it that has several
    points, the one with the best value on dev; and what else varies among the lines, as it is in
    this one.
    """
    lines: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        rest = {
            "encoder": cell.encoder,
            **{name: value for name, value in cell.params.items() if name != axis},
        }
        lines[json.dumps(rest, sort_keys=True)].append(cell)
    best = max(
        lines,
        key=lambda line: (
            len(lines[line]) > 1,
            max(dev_of(cell, task, metric) for cell in lines[line]),
        ),
    )
    facts = [json.loads(line) for line in lines]
    own = json.loads(best)
    varying = [
        f"{name}={own[name]}"
        for name in own
        if any(other.get(name) != own[name] for other in facts)
    ]
    return lines[best], f" ({', '.join(varying)})" if varying else ""


def heat_panels(results: Results, task: str, stem: str) -> list[Panel]:
    """A panel a language: values over layers and weights of the first cell that has them."""
    panels = []
    for cell in results.cells:
        grids: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
        for (t, lang, metric, split), value in cell.values.items():
            point = shift_point(metric)
            if t == task and point is not None and point[2] == stem and split == "test":
                grids[lang][point[:2]] = value.mean
        for lang in sorted(grids, key=lambda lang: (lang not in MEANS, lang)):
            layers, weights = (sorted(set(axis)) for axis in zip(*grids[lang], strict=True))
            values = [
                [100 * grids[lang].get((layer, weight), math.nan) for weight in weights]
                for layer in layers
            ]
            heat = Heat(
                values, [str(layer) for layer in layers], [f"{weight:g}" for weight in weights]
            )
            panels.append(Panel({"avg": "mean"}.get(lang, lang), "weight α", "layer", heat=heat))
        if panels:
            break
    return panels


def gain_panels(results: Results) -> list[Panel]:
    """One panel a transfer task: a cloud a method."""
    panels = []
    for task, metric in transfer_tasks(results):
        base = baseline(results, task, metric)
        clouds = []
        for cell in best_on_dev(representatives(results, task, metric), MOST_CURVES, task, metric):
            if base is None or cell is base:
                continue
            langs = [
                lang
                for lang in single_languages(results, task, metric, cell)
                if (task, lang, metric, results.split(task)) in base.values
            ]
            x = [100 * base.values[task, lang, metric, results.split(task)].mean for lang in langs]
            y = [
                100 * cell.values[task, lang, metric, results.split(task)].mean - a
                for lang, a in zip(langs, x, strict=True)
            ]
            if langs:
                clouds.append(
                    Points(
                        cell.method,
                        x,
                        y,
                        langs if len(langs) <= 12 else (),
                        colour_of(results, cell),
                    )
                )
        if clouds:
            panels.append(
                Panel(
                    titled(results, task),
                    f"baseline {_in_percent(metric)}",
                    "difference (points)",
                    points=clouds,
                    zero=True,
                )
            )
    return panels


def _levels(results: Results, task: str, metric: str) -> list[Curve]:
    base = baseline(results, task, metric)
    value = value_of(base, task, metric, results.split(task)) if base is not None else None
    return (
        [Curve(base.method, (), [100 * value.mean], level=True, colour=7)]
        if base is not None and value is not None
        else []
    )


def _some(results: Results, task: str, metric: str) -> Sequence[Cell]:
    """All cells, or where they make too many curves, for each method and size the one that dev
    chooses.
    """
    cells = [
        cell
        for cell in results.cells
        if value_of(cell, task, metric, results.split(task)) is not None
    ]
    if len({_named(results, cell) for cell in cells}) <= MOST_CURVES:
        return cells
    best: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for cell in cells:
        best[cell.method, cell.encoder][_named(results, cell)] += dev_of(cell, task, metric)
    kept = {max(points, key=lambda name: points[name]) for points in best.values()}
    return [cell for cell in cells if _named(results, cell) in kept]


def _named(results: Results, cell: Cell) -> str:
    name = named(cell, results.plan)
    return (
        f"{name} [{cell.encoder}]" if len({other.encoder for other in results.cells}) > 1 else name
    )


def _numeric_axes(results: Results) -> Iterator[tuple[str, str]]:
    for method, axes in results.plan.axes.items():
        for axis in axes:
            values = {
                _number(cell.params.get(axis)) for cell in results.cells if cell.method == method
            }
            if len(values) > 1 and None not in values:
                yield method, axis


def _sweeps(results: Results) -> Iterator[tuple[str, str]]:
    found = dict.fromkeys(
        (task, point[2])
        for task, _, metric, split in results.names
        if split == "test" and (point := shift_point(metric))
    )
    yield from found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _in_percent(metric: str) -> str:
    return f"{spoken(metric)} (%)"
