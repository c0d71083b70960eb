"""What a reader sees first: the answer in one sentence, and which method is better in which
language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.metrics import spoken
from raxalign.plan.values.comparisons import Compared, baseline_cells
from raxalign.report.answer import answer, compared_tables, leader
from raxalign.report.cells.choice import dev_of
from raxalign.report.cells.names import named, under
from raxalign.report.cells.numbers import Unit, metric_unit
from raxalign.report.document import Headline, Judged, Line, Share, Table
from raxalign.report.sections.base import Section

_MOST_LINES = 10  # points of the grid in a matrix; of more, one per method and encoder is shown
_SHADES = 4
_MEANS = {"avg": "mean", "avg_zero_shot": "mean, zero-shot"}
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

    @cached_property
    def _leaders(self) -> list[Cell]:
        """The cell that the sentence is about; none where nothing is compared."""
        compared = self.material.judge.compared
        tables = compared_tables(compared, self.material.results)
        return [leader(compared, tables[0])[0]] if tables else []

    def _matrix(self, entry: _Entry) -> Table:
        """The matrix of a (task, metric, split)."""
        results = self.material.results
        task, metric, split = entry
        names = [(task, lang, metric, split) for lang in _ordered(results.by_table[entry])]
        there = [cell for cell in results.cells if any(name in cell.values for name in names)]
        cells = self._shown(there, entry)
        unit = metric_unit(cell.values[n].mean for cell in there for n in names if n in cell.values)
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
            tuple(_MEANS.get(lang, lang) for _, lang, _, _ in names),
            lines,
            _caption(unit, len(there) - len(cells)),
        )

    def _compared(self, cells: Sequence[Cell], names: Sequence[Name]) -> Iterator[Compared]:
        for cell in cells:
            found = (self.material.judge.of(cell, name) for name in names)
            yield from (entry for entry in found if entry is not None)

    def _shown(self, cells: Sequence[Cell], entry: _Entry) -> list[Cell]:
        """The lines of a matrix, the baselines first; of many points of a method and encoder the
        one that dev chooses at the largest training set, and the one that the sentence is about.
        """
        results = self.material.results
        bases = baseline_cells(cells, results.plan)
        kept = list(cells)
        if len(cells) > _MOST_LINES:
            best: dict[tuple[str, str], Cell] = {}
            for cell in cells:
                rival = best.setdefault((cell.method, cell.encoder), cell)
                if _rank(cell, entry) > _rank(rival, entry):
                    best[cell.method, cell.encoder] = cell
            chosen = {id(cell) for cell in (*best.values(), *self._leaders)}
            kept = [cell for cell in cells if id(cell) in chosen]
        first = [cell for cell in kept if any(cell is base for base in bases)]
        return [*first, *(cell for cell in kept if not any(cell is base for base in bases))]

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
        good = found.verdict == "better" or (found.verdict != "worse" and found.difference > 0)
        size = _SHADES * abs(found.difference) / most if most else 0.0
        shade = max(1, round(size)) if found.verdict in ("better", "worse") else 0
        return Judged(
            shown,
            spread,
            delta=unit.show_difference(found.difference),
            verdict=found.verdict or "cannot tell",
            shade=shade if good else -shade,
        )


def _rank(cell: Cell, entry: _Entry) -> tuple[int, float]:
    """What a method's points are chosen by: the size of the training set, then dev."""
    return cell.sentences or 0, dev_of(cell, *entry[:2])


def _ordered(langs: Sequence[str]) -> list[str]:
    """The means first, since they are what a reader looks for."""
    return sorted(langs, key=lambda lang: lang not in MEANS)


def _caption(unit: Unit, left_out: int) -> str:
    text = f"Values{' in percent' if unit.sign else ''}, each with its difference to the baseline"
    text += " and the 95 % interval of the difference."
    if left_out:
        text += (
            f" One line per method: the point that dev chooses at the largest training set;"
            f" {left_out} more points are in the grid's own tables."
        )
    return text
