"""Encoders next to each other, language by language (Liu et al. 2020, Figures 1 to 5), and what a
short window of their training costs (Figure 6).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from raxalign.analysis.cells import MEANS, Cell, over_runs
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.report.cells.choice import titled
from raxalign.report.cells.results import Results
from raxalign.report.figures.curves import in_percent
from raxalign.report.figures.drawn import Sketch
from raxalign.report.figures.panels import Bars, Panel

_SIZE = re.compile(r" ?\bmax_sentences=(\d+)")
_WINDOW = re.compile(r" ?\bwindow=(\d+)")
_BATCH = re.compile(r" ?\bbatch_size=\d+")
_SEED = re.compile(r" ?\bseed=\d+")
_CAPTION = (
    "One group of bars per language, one bar per encoder as it was; the encoders of one panel are"
    " trained on as much text per language (as in Liu et al. 2020, Figures 1 to 5). An encoder that"
    " names no size stands in every panel. Error bars: one standard deviation over seeds."
)
_LOSS = (
    "How much lower a value is if the encoder was trained with a shorter window, in percent of the"
    " value with the longest window (as in Liu et al. 2020, Figure 6b). The encoders differ in"
    " nothing else but the rows per batch. Below 0 the shorter window is better."
    " Of several seeds, the loss is that of the means; error bars: one standard deviation."
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
        shown = _alike([cell for cell in cells if _size(cell) in (size, None)])
        bars = []
        for label, found in shown.items():
            means, spread = _means(found, entry, langs)
            bars.append(Bars(label, means, colours[label], spread))
        title = "" if size is None else f"{size:,} sentences per language"
        if len(bars) > 1:
            panels.append(Panel(title, "", in_percent(entry[1]), bars=bars, names=langs))
    return panels


def loss_panels(results: Results, task: str) -> list[Panel]:
    """Make one panel with the loss of each encoder that has a shorter window than its like, or
    none.
    """
    entry, langs, cells = _asked(results, task)
    alike: dict[str, dict[int, list[Cell]]] = {}
    for cell in cells:
        if (found := _WINDOW.search(cell.encoder)) is not None:
            rest = _SEED.sub("", _BATCH.sub("", _WINDOW.sub("", cell.encoder)))
            alike.setdefault(rest, {}).setdefault(int(found[1]), []).append(cell)
    bars: list[Bars] = []
    for rest, by_window in alike.items():
        longest = max(by_window)
        for window in sorted(by_window.keys() - {longest}):
            losses, spread = _losses(by_window[longest], by_window[window], entry, langs)
            label = f"{rest}, window {longest} to {window}"
            bars.append(Bars(label, losses, len(bars), spread))
    return [Panel("", "", "loss (%)", bars=bars, names=langs)] if bars else []


def _losses(
    long: Sequence[Cell], short: Sequence[Cell], entry: tuple[str, str, str], langs: Sequence[str]
) -> tuple[list[float], list[float | None]]:
    """The loss per language of the means over seeds, and the half widths of its error bars: the
    standard deviations of both means, propagated.
    """
    losses, halves = [], []
    for (a, sd_a), (b, sd_b) in zip(
        *(zip(*_means(cells, entry, langs), strict=True) for cells in (long, short)), strict=True
    ):
        losses.append(100 * (a - b) / a if a else math.nan)
        known = a and (sd_a is not None or sd_b is not None)
        apart = math.hypot((sd_b or 0) / a, (sd_a or 0) * b / a**2) if known else 0.0
        halves.append(100 * apart if known else None)
    return losses, halves


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


def _alike(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Group the encoders that differ in nothing but the seed of their own training."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(_label(cell), []).append(cell)
    return found


def _means(
    cells: Sequence[Cell], entry: tuple[str, str, str], langs: Sequence[str]
) -> tuple[list[float], list[float | None]]:
    """The mean of each language over encoders that are alike, in percent (NaN: none has a value),
    and the standard deviation over them, or over the runs of a single one.
    """
    task, metric, split = entry
    means: list[float] = []
    spread: list[float | None] = []
    for lang in langs:
        there = [v for cell in cells if (v := cell.values.get((task, lang, metric, split)))]
        over = over_runs([value.mean for value in there]) if there else None
        sd = over.sd if over is not None and len(there) > 1 else there[0].sd if there else None
        means.append(math.nan if over is None else 100 * over.mean)
        spread.append(None if sd is None else 100 * sd)
    return means, spread


def _size(cell: Cell) -> int | None:
    """The sentences per language that an encoder's label names."""
    found = _SIZE.search(cell.encoder)
    return int(found[1]) if found else None


def _label(cell: Cell) -> str:
    return _SEED.sub("", _SIZE.sub("", cell.encoder))
