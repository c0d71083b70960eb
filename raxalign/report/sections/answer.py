"""What a reader sees first: the answer in one sentence, and which method is better in which
language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.metrics import spoken
from raxalign.measured import Measured
from raxalign.plan.values.comparisons import Compared
from raxalign.report.answer import answer, compared_tables
from raxalign.report.cells.names import in_columns, named, under
from raxalign.report.cells.numbers import LOWER, Unit
from raxalign.report.document import Headline, Judged, Line, Share, Table
from raxalign.report.paper.lines import one_per_method, shown_lines
from raxalign.report.sections.base import Section

_SHADES = 4
_Entry = tuple[str, str, str]


@final
class Answer(Section):
    """The answer in one sentence, and a matrix of methods and languages per task and metric that is
    compared with a baseline: each value with its difference, and whether it is better or worse.
    """

    VERSION = 1
    place = 5

    def share(self) -> Share:
        """Return the sentence and the matrices, that of the main task first."""
        results, compared = self.material.results, self.material.judge.compared
        first = compared_tables(compared, results)
        found = {(f.name[0], *f.name[2:]) for f in compared if f.baseline is not None}
        others = [e for e in results.tables if e in found and e not in first]
        entries = [*first, *(entry for entry in others if not results.few(entry))]
        matrices = tuple(self._matrix(entry) for entry in entries)
        return Share(headline=Headline(answer(compared, results), matrices))

    def _matrix(self, entry: _Entry) -> Table:
        """The matrix of a (task, metric, split)."""
        results = self.material.results
        task, metric, split = entry
        names = [(task, lang, metric, split) for lang in _ordered(results.by_table[entry])]
        cells, left_out = shown_lines(results, self.material.judge.compared, entry)
        unit = results.unit(task, metric)
        most = max((abs(f.difference or 0.0) for f in self._compared(cells, names)), default=0.0)
        lines = tuple(
            Line(
                named(cell, results.plan),
                tuple(self._judged(cell, name, unit, most) for name in names),
                under(results, cell, entry),
            )
            for cell in cells
        )
        return Table(
            f"answer-{task}-{metric}-{split}",
            f"{task}: {spoken(metric)}{'' if split == 'test' else ' (dev set)'}",
            tuple(in_columns(lang) for _, lang, _, _ in names),
            lines,
            _caption(results.plan.measured(task, metric), left_out),
        )

    def _compared(self, cells: Sequence[Cell], names: Sequence[Name]) -> Iterator[Compared]:
        for cell in cells:
            found = (self.material.judge.of(cell, name) for name in names)
            yield from (entry for entry in found if entry is not None)

    def _judged(self, cell: Cell, name: Name, unit: Unit, most: float) -> Judged:
        """A value with its difference and what the test says; `most` is the largest difference."""
        value = cell.values.get(name)
        if value is None:
            return Judged("–", state="empty")
        shown, found = unit.show(value.mean), self.material.judge.of(cell, name)
        if found is None or found.baseline is None or found.baseline is cell:
            around = self.material.judge.interval(cell, name) or (None, None)
            baseline = any(cell is base for base in self.material.judge.baselines)
            return Judged(
                shown, unit.show_interval(*around), verdict="baseline" if baseline else ""
            )
        if found.difference is None:
            return Judged(shown, verdict="cannot tell")
        test = found.comparison
        spread = unit.show_interval(test.low, test.high) if test is not None else ""
        good = found.difference * found.measured.sign > 0
        size = _SHADES * abs(found.difference) / most if most else 0.0
        shade = max(1, round(size)) if found.is_significant else 0
        return Judged(
            shown,
            spread,
            delta=unit.show_difference(found.difference),
            verdict=found.verdict or "cannot tell",
            shade=shade if good else -shade,
        )


def _ordered(langs: Sequence[str]) -> list[str]:
    """The means first, since they are what a reader looks for."""
    return sorted(langs, key=lambda lang: lang not in MEANS)


def _caption(measured: Measured, left_out: int) -> str:
    percent = " in percent" if measured.unit == "share" else ""
    text = f"Values{percent}, each with its difference to the baseline and the 95 % interval of the"
    text += f" difference.{LOWER if measured.better == 'lower' else ''}"
    return text + one_per_method(left_out)
