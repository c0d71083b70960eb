"""A search as the report sees it: its scores in the units and names of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raxalign.analysis.metrics import spoken
from raxalign.analysis.search import expected_best, expected_best_interval
from raxalign.measured import Declared
from raxalign.plan.study import Study
from raxalign.plan.tried import StudyRecord, Tried
from raxalign.report.cells.numbers import Unit, unit_of

_MEANS = {"avg": "mean", "avg_zero_shot": "zero-shot mean"}


@dataclass(frozen=True)
class Seen:
    """A study with what it tried, its place among the methods (which gives its colour), and what is
    declared of its metrics.
    """

    study: Study
    record: StudyRecord
    colour: int
    measured: Declared

    def scores(self, objective: int = 0) -> list[float]:
        """Return the scores of all points that are done, in their order; shares in percent."""
        return [self.shown(entry, objective) for entry in self.record.done]

    def shown(self, entry: Tried, objective: int = 0) -> float:
        """Return a score of a point, in percent where it is a share."""
        return entry.scores[objective] * self.unit(objective).scale

    def spent(self) -> list[tuple[Tried, float]]:
        """Return the points that are done or pruned, in their order, each with its score. That of a
        pruned one is its last: at least that much it was worth.
        """
        last = [(entry, entry.stopped.score) for entry in self.record.pruned if entry.stopped]
        points = [*((entry, entry.scores[0]) for entry in self.record.done), *last]
        points.sort(key=lambda point: point[0].number)
        return [(entry, score * self.unit().scale) for entry, score in points]

    def unit(self, objective: int = 0) -> Unit:
        """Return the unit of an objective."""
        entry = self.study.objectives[objective]
        every = (other.scores[objective] for other in self.record.done)
        return unit_of(self.measured(entry.task, entry.metric), every)

    def signed(self, values: Sequence[float], objective: int = 0) -> list[float]:
        """Return values with the sign that makes larger ones better."""
        return [-v if self.study.objectives[objective].lower else v for v in values]

    def expected(self) -> tuple[list[float], list[tuple[float, float]]]:
        """Return the expected best of 1, 2, ... trials by the first objective, and the ends of its
        95 % intervals, the lower one first.
        """
        scores = self.signed([score for _, score in self.spent()])
        low, high = (self.signed(ends) for ends in expected_best_interval(scores))
        pairs = [(min(ends), max(ends)) for ends in zip(low, high, strict=True)]
        return self.signed(expected_best(scores)), pairs

    def named(self, objective: int = 0) -> str:
        """Return the name of an objective: ``xnli accuracy, zero-shot mean``."""
        entry = self.study.objectives[objective]
        return f"{entry.task} {spoken(entry.metric)}, {_MEANS.get(entry.lang, entry.lang)}"

    def axis(self, objective: int = 0) -> str:
        """Return the name of an objective on an axis: ``xnli accuracy, en, dev (%)``."""
        lower = ", lower is better" if self.study.objectives[objective].lower else ""
        percent = " (%)" if self.unit(objective).sign else ""
        return f"{self.named(objective)}, dev{lower}{percent}"
