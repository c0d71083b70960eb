"""Encoders next to each other, language by language (Liu et al. 2020, Figures 1 to 5), and what a
short window of their training costs (Figure 6).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from raxalign.analysis.cells import Cell, over_runs
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.report.cells.choice import titled
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results, TableKey
from raxalign.report.figures.curves import axis_of, over_runs_alone
from raxalign.report.figures.panels import Dots, Ends, Panel, Sketch

_SIZE = re.compile(r" ?\bmax_sentences=(\d+)")
_WINDOW = re.compile(r" ?\bwindow=(\d+)")
_BATCH = re.compile(r" ?\bbatch_size=\d+")
_SEED = re.compile(r" ?\bseed=\d+")
_CAPTION = (
    "One group of dots per language, one dot per encoder as it was; the encoders of one panel are"
    " trained on as much text per language (as in Liu et al. 2020, Figures 1 to 5). An encoder that"
    " names no size stands in every panel. Error bars: 95 % intervals over runs and examples; where"
    " encoders differ in their seed alone, over these (Student's t)."
)
_LOSS = (
    "How much worse a value is if the encoder was trained with a shorter window, in percent of the"
    " value with the longest window (as in Liu et al. 2020, Figure 6b). The encoders differ in"
    " nothing else but the rows per batch. Below 0 the shorter window is better."
    " Of several seeds, the loss is that of the means. Error bars: 95 % intervals, propagated from"
    " those of both values."
)


def encoder_sketches(results: Results, judge: Judge) -> Iterator[Sketch]:
    """Yield two figures per task: the main metric of each encoder in each language, and what
    shorter windows cost. They have no panels in grids with one encoder or one window.
    """
    for task in results.tasks:
        title = f"{titled(results, task)}: encoders"
        yield Sketch(f"encoders-{task}", title, _CAPTION, encoder_panels(results, judge, task))
        title = f"{titled(results, task)}: loss from a shorter window"
        yield Sketch(f"windows-{task}", title, _LOSS, loss_panels(results, judge, task))


def encoder_panels(results: Results, judge: Judge, task: str) -> list[Panel]:
    """Make one panel per size of the encoders' training text, where it has several encoders."""
    table, langs, cells = _asked(results, task)
    colours = {label: place for place, label in enumerate(dict.fromkeys(map(_label, cells)))}
    sizes: list[int | None] = [*sorted({n for cell in cells if (n := _size(cell)) is not None})]
    scale, panels = results.unit(*table[:2]).scale, []
    for size in sizes or [None]:
        alike: dict[str, list[Cell]] = {}  # apart from the seed of their own training
        for cell in cells:
            if _size(cell) in (size, None):
                alike.setdefault(_label(cell), []).append(cell)
        dots = []
        for label, found in alike.items():
            means, ends = _means(judge, found, table, langs)
            shown = [end and (scale * end[0], scale * end[1]) for end in ends]
            dots.append(Dots(label, [scale * mean for mean in means], colours[label], shown))
        title = "" if size is None else f"{size:,} sentences per language"
        if len(dots) > 1:
            panels.append(Panel(title, "", axis_of(results, *table[:2]), dots=dots, names=langs))
    return panels


def loss_panels(results: Results, judge: Judge, task: str) -> list[Panel]:
    """Make one panel with the loss of each encoder that has a shorter window than its like, or
    none.
    """
    table, langs, cells = _asked(results, task)
    sign = results.plan.measured(*table[:2]).sign
    alike: dict[str, dict[int, list[Cell]]] = {}
    for cell in cells if sign else ():
        if (found := _WINDOW.search(cell.encoder)) is not None:
            rest = _SEED.sub("", _BATCH.sub("", _WINDOW.sub("", cell.encoder)))
            alike.setdefault(rest, {}).setdefault(int(found[1]), []).append(cell)
    dots: list[Dots] = []
    for rest, by_window in alike.items():
        longest = max(by_window)
        long = list(zip(*_means(judge, by_window[longest], table, langs), strict=True))
        for window in sorted(by_window.keys() - {longest}):
            short = zip(*_means(judge, by_window[window], table, langs), strict=True)
            losses = [_loss(*both, sign) for both in zip(long, short, strict=True)]
            label = f"{rest}, window {longest} to {window}"
            values, ends = [loss for loss, _ in losses], [end for _, end in losses]
            dots.append(Dots(label, values, len(dots), ends))
    return [Panel("", "", "loss (%)", dots=dots, names=langs, zero=True)] if dots else []


def _loss(long: tuple[float, Ends], short: tuple[float, Ends], sign: int) -> tuple[float, Ends]:
    """The loss from the value with the long window to that with the short one, and its interval:
    the half widths of both, propagated.
    """
    (a, ends_a), (b, ends_b) = long, short
    if not a:
        return math.nan, None
    loss = sign * 100 * (a - b) / a
    if ends_a is None and ends_b is None:
        return loss, None
    half_a, half_b = ((end[1] - end[0]) / 2 if end else 0.0 for end in (ends_a, ends_b))
    apart = 100 * math.hypot(half_b / a, half_a * b / a**2)
    return loss, (loss - apart, loss + apart)


def _asked(results: Results, task: str) -> tuple[TableKey, list[str], list[Cell]]:
    """The (task, metric, split) of the dots, the languages, and the encoders that have values."""
    table = (task, results.main_metric(task) or "", results.split(task))
    langs, bases = results.transferred(table), baseline_cells(results.cells, results.plan)
    names = [(task, lang, *table[1:]) for lang in langs]
    return table, langs, [cell for cell in bases if any(name in cell.values for name in names)]


def _means(
    judge: Judge, cells: Sequence[Cell], table: TableKey, langs: Sequence[str]
) -> tuple[list[float], list[Ends]]:
    """The mean of each language over encoders that are alike (NaN: none has a value), and its
    interval: over them, or that of a single one.
    """
    means: list[float] = []
    ends: list[Ends] = []
    for lang in langs:
        name = (table[0], lang, *table[1:])
        there = [cell for cell in cells if name in cell.values]
        over = over_runs([cell.values[name].mean for cell in there]) if there else None
        means.append(math.nan if over is None else over.mean)
        alone = judge.ends(there[0], name, 1) if len(there) == 1 else None
        ends.append(alone if over is None or len(there) == 1 else over_runs_alone(over, 1))
    return means, ends


def _size(cell: Cell) -> int | None:
    """The sentences per language that an encoder's label names."""
    found = _SIZE.search(cell.encoder)
    return int(found[1]) if found else None


def _label(cell: Cell) -> str:
    return _SEED.sub("", _SIZE.sub("", cell.encoder))
