"""Encoders next to each other, language by language (Liu et al. 2020, Figures 1 to 5), and what a
short window of their training costs (Figure 6).
"""

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
_WINDOW = re.compile(r" ?\bwindow=(\d+)")
_BATCH = re.compile(r" ?\bbatch_size=\d+")
_CAPTION = (
    "One group of bars per language, one bar per encoder as it was; the encoders of one panel are"
    " trained on as much text per language (as in Liu et al. 2020, Figures 1 to 5). An encoder that"
    " names no size stands in every panel."
)
_LOSS = (
    "How much lower a value is if the encoder was trained with a shorter window, in percent of the"
    " value with the longest window (as in Liu et al. 2020, Figure 6b). The encoders differ in"
    " nothing else but the rows per batch. Below 0 the shorter window is better."
)


def bar_sketches(results: Results) -> Iterator[Sketch]:
    """Yield two bar charts per task: the main metric of each encoder in each language, and what
    shorter windows cost. They have no panels in grids with one encoder or one window.
    """
    for task in results.tasks:
        title = f"{titled(results, task)}: encoders"
        yield Sketch(f"encoders-{task}", title, _CAPTION, bar_panels(results, task))
        title = f"{titled(results, task)}: loss from a shorter window"
        yield Sketch(f"windows-{task}", title, _LOSS, loss_panels(results, task))


def bar_panels(results: Results, task: str) -> list[Panel]:
    """Make one panel per size of the encoders' training text, where it has several encoders."""
    entry, langs, cells = _asked(results, task)
    colours = {label: place for place, label in enumerate(dict.fromkeys(map(_label, cells)))}
    sizes: list[int | None] = [*sorted({n for cell in cells if (n := _size(cell)) is not None})]
    panels = []
    for size in sizes or [None]:
        shown = [cell for cell in cells if _size(cell) in (size, None)]
        bars = [_bars(cell, entry, langs, colours[_label(cell)]) for cell in shown]
        title = "" if size is None else f"{size:,} sentences per language"
        if len(bars) > 1:
            panels.append(Panel(title, "", in_percent(entry[1]), bars=bars, names=langs))
    return panels


def loss_panels(results: Results, task: str) -> list[Panel]:
    """Make one panel with the loss of each encoder that has a shorter window than its like, or
    none.
    """
    entry, langs, cells = _asked(results, task)
    alike: dict[str, dict[int, Cell]] = {}
    for cell in cells:
        if (found := _WINDOW.search(cell.encoder)) is not None:
            rest = _BATCH.sub("", _WINDOW.sub("", cell.encoder))
            alike.setdefault(rest, {})[int(found[1])] = cell
    bars: list[Bars] = []
    for rest, by_window in alike.items():
        longest = max(by_window)
        long = _bars(by_window[longest], entry, langs, 0).values
        for window in sorted(by_window.keys() - {longest}):
            short = _bars(by_window[window], entry, langs, 0).values
            losses = [
                100 * (a - b) / a if a else math.nan for a, b in zip(long, short, strict=True)
            ]
            bars.append(Bars(f"{rest}, window {longest} to {window}", losses, len(bars)))
    return [Panel("", "", "loss (%)", bars=bars, names=langs)] if bars else []


def _asked(results: Results, task: str) -> tuple[tuple[str, str, str], list[str], list[Cell]]:
    """The (task, metric, split) of the bars, the languages, and the encoders that have values."""
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
    return entry, langs, cells


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
