"""Searches: what each one chose on development sets and what fresh seeds say about it, at which
effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.plan.cost import duration
from raxalign.plan.names import plain
from raxalign.plan.saved import saved_words
from raxalign.plan.study import Study
from raxalign.plan.tried import Tried, beats, gain_of, read_record
from raxalign.report.cells.names import symbol
from raxalign.report.cells.numbers import Unit, metric_unit
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.figures import search_panels as panels
from raxalign.report.figures.drawn import Sketch, drawn
from raxalign.report.figures.search_panels import Seen
from raxalign.report.sections.base import Material, Section

_LEAD = (
    "A search suggests params, and judges them by development sets alone. The point that it chose"
    " was run again with fresh seeds: only those runs' test values are shown, here and in the other"
    " tables, where such a point is marked as searched."
)
_COLUMNS = ("chosen point", "dev", "test, fresh seeds", "better than", "trials", "worker time")
_TOLD = {
    "history": (
        "Scores over the trials of each search",
        "Points: the dev score of each trial; one that was pruned has none. Lines: the best so far"
        " over all trials, the pruned ones included.",
        panels.history,
    ),
    "expected-best": (
        "Expected best of so many trials",
        "The expected best dev score of n trials that are drawn from those of the search (Dodge et"
        " al. 2019), with its 95 % bootstrap interval. It holds exactly for trials that are"
        " independent (`random`); samplers that learn are better late than early. A pruned trial"
        " counts with its last score before it was pruned, so that with pruned trials the curve is"
        " a lower bound.",
        panels.expectations,
    ),
    "importance": (
        "Importance of the params",
        "The share of the dev scores' variance that each param explains (fANOVA).",
        panels.importances,
    ),
    "slices": ("Scores over each param", "One point per trial.", panels.slices),
    "contours": (
        "Scores over the two most important params",
        "Mean dev score of the trials in each part of the space. Empty: no trial was there.",
        panels.contours,
    ),
    "fronts": (
        "Two metrics at once",
        "Points: all trials. Lines: the Pareto front, the trials that no other trial is better than"
        " by one metric without being worse by the other.",
        panels.fronts,
    ),
}


@final
class Searches(Section):
    """A table of what each search chose, and figures of how it came to it."""

    VERSION = 1
    place = 55

    def share(self) -> Share | None:
        """Return the table and figures; None for a grid without a search that has scores."""
        seen = _seen(self.material)
        if not seen:
            return None
        lines = [line for entry in seen for line in _lines(self.material, entry)]
        table = Table("searches", "Chosen by search", _COLUMNS, tuple(lines), _caption(seen))
        figures = drawn(list(_sketches(seen)), self.material.figures)
        return Share((Part("searches", "Searches", _LEAD, (table,), figures),))


def _seen(material: Material) -> list[Seen]:
    """Return the studies that have scores, with one colour per method."""
    if material.ledger is None:
        return []
    methods = list(dict.fromkeys(study.method for study in material.plan.studies))
    records = [(study, read_record(material.ledger.root, study)) for study in material.plan.studies]
    return [
        Seen(study, record, methods.index(study.method)) for study, record in records if record.done
    ]


def _sketches(seen: Sequence[Seen]) -> Iterator[Sketch]:
    several = [entry for entry in seen if len(entry.record.done) >= panels.FEW]
    for name, (title, caption, make) in _TOLD.items():
        yield Sketch(f"search-{name}", title, caption, make(several))


def _lines(material: Material, seen: Seen) -> Iterator[Line]:
    """Yield one line per chosen point: several where there are two objectives."""
    study, record = seen.study, seen.record
    gains = [gain_of(study, entry) for entry in record.done]
    for entry in record.chosen:
        beaten = sum(beats(gain_of(study, entry), gain) for gain in gains)
        shown = (
            Entry(_values(entry)),
            Entry(_dev(seen, entry)),
            _test(material, seen, entry),
            Entry(f"{beaten} of {len(gains)}"),
            Entry(_trials(seen)),
            Entry(duration(record.seconds)),
        )
        yield Line(study.method, shown, f"{'+'.join(study.languages)}, {study.sentences:,} pairs")


def _trials(seen: Seen) -> str:
    """The number of trials with scores, and of those that were pruned."""
    record = seen.record
    pruned = f", {len(record.pruned)} pruned" if record.pruned else ""
    return f"{len(record.done)}{pruned}" + ("" if record.finished else ", not finished")


def _values(entry: Tried) -> str:
    return " ".join(f"{symbol(name)}={plain(value)}" for name, value in entry.values.items())


def _unit(seen: Seen, objective: int) -> Unit:
    return metric_unit(entry.scores[objective] for entry in seen.record.done)


def _dev(seen: Seen, entry: Tried) -> str:
    return ", ".join(_unit(seen, n).show(score) for n, score in enumerate(entry.scores))


def _test(material: Material, seen: Seen, entry: Tried) -> Entry:
    """The test scores of the runs that confirm a point, with the interval of the first."""
    cell = _confirming(material, seen.study, entry)
    if cell is None:
        return Entry("not run", state="empty")
    means, spread = [], ""
    for number, objective in enumerate(seen.study.objectives):
        name = (objective.task, objective.lang, objective.metric, "test")
        if name in cell.values:
            unit = _unit(seen, number)
            means.append(unit.show(cell.values[name].mean))
            around = material.judge.interval(cell, name)
            spread = spread or (unit.show_interval(*around) if around is not None else "")
    return Entry(", ".join(means) or "no test values", spread)


def _confirming(material: Material, study: Study, entry: Tried) -> Cell | None:
    keys = {
        asked.trial
        for asked in material.plan.asked
        if asked.confirmed and (asked.study, asked.number) == (study.name, entry.number)
    }
    return next((cell for cell in material.results.cells if keys & set(cell.trials)), None)


def _caption(seen: Sequence[Seen]) -> str:
    names = dict.fromkeys(
        f"{objective.name}{' (lower is better)' if objective.lower else ''}"
        for entry in seen
        for objective in entry.study.objectives
    )
    saved = "".join(
        f" {entry.study.method} {'+'.join(entry.study.languages)}: {words}."
        for entry in seen
        if (words := saved_words(entry.record))
    )
    return (
        f"Chosen by {', then '.join(names)} on dev. “Better than”: the trials of the search that"
        f" this point is better than, by all metrics.{saved}"
    )
