"""Every method in every language: a figure per task."""

from __future__ import annotations

import math
from typing import final

from raxalign.analysis.cells import MEANS
from raxalign.measured import spoken
from raxalign.plan.values.scoreboard import TableKey
from raxalign.report.document import Part, Share, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.report.tables import ShownLines

_MOST_DOTS = 80  # of a panel


@final
class Languages(Section):
    """A figure per task: the value of each method in each language, with its interval."""

    VERSION = 1
    place = 8

    def share(self) -> Share | None:
        """Return the figures; None where every value is over too few pairs."""
        sketches = map(self._sketch, self.results.leading_tables())
        return self.one_part(Part("languages", "Methods by language"), sketches)

    def _sketch(self, table: TableKey) -> Sketch:
        results, (task, metric, split) = self.results, table
        shown = ShownLines.of(results, table)
        cells, labels, scale = shown.cells, shown.labels, results.unit(task, metric).scale
        every = results.names_of(table)
        each = math.ceil(len(every) / math.ceil(len(every) * len(cells) / _MOST_DOTS))
        panels = []
        for start in range(0, len(every), each):  # about equally many languages per panel
            names = every[start : start + each]
            dots = []
            for place, (label, cell) in enumerate(zip(labels, cells, strict=True)):
                found = [cell.values.get(name) for name in names]
                means = [scale * value.mean if value else math.nan for value in found]
                ends = [results.ends(cell, name, scale) for name in names]
                dots.append(Series(label, (), means, ends, "dots", place))
            heads = [MEANS.get(name[1], name[1]).replace(", ", ",\n") for name in names]
            panels.append(Panel("", "", results.axis(task, metric), dots, heads))
        about = caption("by_language", split=split) + shown.one_per_method
        about += shown.untouched(task)
        return Sketch(f"languages-{task}", f"{task}: {spoken(metric)}", about, panels)
