"""What a reader sees first: the answer, and which method is better in which language."""

from __future__ import annotations

from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.significance import Runs
from raxalign.measured import spoken
from raxalign.report.answer import answer
from raxalign.report.document import Entry, Headline, Line, Share, Table, caption, marked, unaligned
from raxalign.report.sections.base import Section
from raxalign.report.tables import ShownLines
from raxalign.values.comparisons import LEFT, Compared
from raxalign.values.curves import SizeCurves
from raxalign.values.numbers import NumberFormat
from raxalign.values.scoreboard import TableKey

_SHADES = 4


@final
class AnswerSection(Section):
    """The answer, and a matrix of methods and languages per task and metric that is compared with
    a baseline: each value with its difference, and whether it is better or worse.
    """

    VERSION = 1
    place = 5

    def share(self) -> Share:
        """Return the answer and the matrices, that of the main task first."""
        results, compared = self.results, self.results.compared
        first = results.compared_tables()
        found = {f.table for f in compared if f.baseline is not None}
        others = [table for table in results.tables if table in found and table not in first]
        tables = [*first, *(table for table in others if not results.few(table))]
        curves = SizeCurves.of_main(results, self.material.ledger)
        return Share(headline=Headline(answer(results, curves), tuple(map(self._matrix, tables))))

    def _matrix(self, table: TableKey) -> Table:
        results, (task, metric, split) = self.results, table
        # means come first, since they are what a reader looks for
        names = sorted(results.names_of(table), key=lambda name: name[1] not in MEANS)
        shown = ShownLines.of(results, table)
        cells = shown.cells
        unit, measured = results.unit(task, metric), results.plan.measured(task, metric)
        compared = (results.at(cell, name) for cell in cells for name in names)
        most = max((abs(f.difference or 0.0) for f in compared if f is not None), default=0.0)
        lines = tuple(
            Line(
                results.named(cell),
                tuple(self._judged(cell, name, unit, most) for name in names),
                self.under(cell, table),
            )
            for cell in cells
        )
        about = f"{results.lacking.short} {caption('matrix', measured=measured)}".strip()
        about += unaligned(cells) + shown.one_per_method + self.of_one_seed(table, cells)
        title = f"{task}: {spoken(metric)}{'' if split == 'test' else ' (dev set)'}"
        columns = tuple(results.column(name[1]) for name in names)
        return Table(f"answer-{task}-{metric}-{split}", title, columns, lines, about)

    def _judged(self, cell: Cell, name: Name, unit: NumberFormat, most: float) -> Entry:
        """A value with its difference and what the test says; `most` is the largest difference."""
        results, value = self.results, cell.values.get(name)
        if value is None:
            return Entry("–", state="empty")
        shown, found = marked(unit.show(value.mean), cell, name[1]), results.at(cell, name)
        if found is None or found.baseline is None or found.baseline is cell:
            base = any(cell is base for base in results.baselines)
            spread = results.shown(cell, name, unit)
            left = "left as it is" if found is not None and found.untested == LEFT else ""
            return Entry(shown, spread, below=left, verdict="baseline" if base else "")
        if found.difference is None:  # the baseline's mean is over other languages
            return Entry(shown, delta=f"over {found.untested}")
        test = found.comparison
        size = _SHADES * abs(found.difference) / most if most else 0.0
        shade = max(1, round(size)) if found.is_significant else 0
        return Entry(
            shown,
            unit.show_interval(test.low, test.high) if test is not None else "",
            below=_over_languages(found, unit),
            delta=unit.show_difference(found.difference),
            verdict=found.verdict or "cannot tell",
            says=found.says + (" (one seed)" if found.untested == Runs.ONE_RUN else ""),
            shade=shade if found.difference * found.measured.sign > 0 else -shade,
        )


def _over_languages(found: Compared, unit: NumberFormat) -> str:
    """The interval of a mean difference generalising to new languages, where there is one."""
    sample = found.over_languages
    if sample is None or sample.low is None or sample.high is None:
        return ""
    return f"new languages: {unit.show_interval(sample.low, sample.high)}"
