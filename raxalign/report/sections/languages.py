"""Every method in every language: a figure per task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

from raxalign.analysis.metrics import spoken
from raxalign.report.cells.judge import ends_of
from raxalign.report.cells.names import in_columns
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import INTERVALS, axis_of
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.panels import Dots, Panel
from raxalign.report.paper.lines import line_labels, one_per_method, shown_lines, untouched
from raxalign.report.sections.base import Section

_MOST_DOTS = 80  # of a panel


@final
class Languages(Section):
    """A figure per task: the value of each method in each language, with its interval."""

    VERSION = 1
    place = 8

    def share(self) -> Share | None:
        """Return the figures; None where every value is over too few pairs."""
        results = self.material.results
        entries = [entry for task in results.tasks if (entry := results.leading(task))]
        figures = drawn([self._sketch(entry) for entry in entries], self.material.figures)
        return (
            Share((Part("languages", "Methods by language", figures=figures),)) if figures else None
        )

    def _sketch(self, entry: tuple[str, str, str]) -> Sketch:
        """The figure of a (task, metric, split)."""
        task, metric, split = entry
        results, judge = self.material.results, self.material.judge
        cells, left_out = shown_lines(results, judge.compared, entry)
        labels, scale = line_labels(results, cells), results.unit(task, metric).scale
        panels = []
        for langs in _parts(results.by_table[entry], len(cells)):
            names = [(task, lang, metric, split) for lang in langs]
            dots = []
            for place, (label, cell) in enumerate(zip(labels, cells, strict=True)):
                found = [cell.values.get(name) for name in names]
                means = [scale * value.mean if value else math.nan for value in found]
                ends = [ends_of(judge, cell, name, scale) for name in names]
                dots.append(Dots(label, means, place, ends))
            heads = [in_columns(lang).replace(", ", ",\n") for lang in langs]
            panels.append(Panel("", "", axis_of(results, task, metric), dots=dots, names=heads))
        on = "test" if split == "test" else "development"
        caption = f"On the {on} set. {INTERVALS}{one_per_method(left_out)}"
        caption += untouched(results, task)
        return Sketch(f"languages-{task}", f"{task}: {spoken(metric)}", caption, panels)


def _parts(langs: tuple[str, ...], lines: int) -> Iterator[tuple[str, ...]]:
    """Yield the languages of each panel, about equally many."""
    panels = math.ceil(len(langs) * lines / _MOST_DOTS)
    each = math.ceil(len(langs) / panels)
    for start in range(0, len(langs), each):
        yield langs[start : start + each]
