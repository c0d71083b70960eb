"""Encoders next to each other, language by language (Liu et al. 2020, Figures 1 to 6)."""

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
_SEED = re.compile(r" ?\bseed=\d+")
_CAPTION = (
    "One group of dots per language, one dot per encoder as it was; the encoders of one panel are"
    " trained on as much text per language (as in Liu et al. 2020, Figures 1 to 5). An encoder that"
    " names no size stands in every panel. Error bars: 95 % intervals over runs and examples; where"
    " encoders differ in their seed alone, over these (Student's t)."
)


def encoder_sketches(results: Results, judge: Judge) -> Iterator[Sketch]:
    """Yield a figure per task: the main metric of each encoder in each language. It has no panels
    in a grid with one encoder.
    """
    for task in results.tasks:
        title = f"{titled(results, task)}: encoders"
        yield Sketch(f"encoders-{task}", title, _CAPTION, encoder_panels(results, judge, task))


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
