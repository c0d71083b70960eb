"""Encoders next to each other, language by language (Liu et al. 2020, Figures 1 to 4)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from raxalign.analysis.cells import MEANS, Cell
from raxalign.plan.comparisons import baseline_cells
from raxalign.report.cells.choice import titled
from raxalign.report.cells.results import Results
from raxalign.report.figures.curves import in_percent
from raxalign.report.figures.drawn import Sketch
from raxalign.report.figures.panels import Bars, Panel

_SIZE = re.compile(r" ?\bmax_sentences=(\d+)")
_CAPTION = (
    "One group of bars per language, one bar per encoder as it was; the encoders of one panel are"
    " trained on as much text per language (as in Liu et al. 2020, Figures 1 to 4). An encoder that"
    " names no size stands in every panel."
)


def bar_sketches(results: Results) -> Iterator[Sketch]:
    """Yield a bar chart per task: the main metric of each encoder in each language; it has no
    panels in grids with one encoder.
    """
    for task in results.tasks:
        title = f"{titled(results, task)}: encoders"
        yield Sketch(f"encoders-{task}", title, _CAPTION, bar_panels(results, task))


def bar_panels(results: Results, task: str) -> list[Panel]:
    """Make one panel per size of the encoders' training text, where it has several encoders."""
    metric = results.main_metric(task) or ""
    entry = (task, metric, results.split(task))
    langs = [
        lang
        for lang in results.by_table.get(entry, ())
        if lang not in MEANS and lang != results.plan.pivot
    ]
    cells = [
        cell
        for cell in baseline_cells(results.cells, results.plan)
        if any((task, lang, *entry[1:]) in cell.values for lang in langs)
    ]
    colours = {label: place for place, label in enumerate(dict.fromkeys(map(_label, cells)))}
    sizes: list[int | None] = [*sorted({n for cell in cells if (n := _size(cell)) is not None})]
    panels = []
    for size in sizes or [None]:
        shown = [cell for cell in cells if _size(cell) in (size, None)]
        bars = [_bars(cell, entry, langs, colours[_label(cell)]) for cell in shown]
        title = "" if size is None else f"{size:,} sentences per language"
        if len(bars) > 1:
            panels.append(Panel(title, "", in_percent(metric), bars=bars, names=langs))
    return panels


def _bars(cell: Cell, entry: tuple[str, str, str], langs: Sequence[str], colour: int) -> Bars:
    """The bars of an encoder; NaN where it has no value in a language."""
    task, metric, split = entry
    found = [cell.values.get((task, lang, metric, split)) for lang in langs]
    values = [math.nan if value is None else 100 * value.mean for value in found]
    return Bars(_label(cell), values, colour)


def _size(cell: Cell) -> int | None:
    """The sentences per language that an encoder's label names."""
    found = _SIZE.search(cell.encoder)
    return int(found[1]) if found else None


def _label(cell: Cell) -> str:
    return _SIZE.sub("", cell.encoder)
