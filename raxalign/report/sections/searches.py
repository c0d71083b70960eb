"""Searches: what each one chose on development sets and what fresh seeds say about it, at which
effort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import Cell, cells
from raxalign.plan.estimates.cost import duration
from raxalign.plan.names import plain
from raxalign.plan.study import Study
from raxalign.plan.tried import StudyRecord, Tried, beats, gain_of, read_record, saved_words
from raxalign.plan.values.results import rows
from raxalign.report.cells.names import symbol
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.figures import search_panels as panels
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Panel, Sketch
from raxalign.report.figures.search_panels import Seen
from raxalign.report.sections.base import Material, Section
from raxalign.report.studies import confirming

_LEAD = (
    "A search suggests params, and judges them by development sets alone. The point that it chose"
    " is run again with fresh seeds: only those runs' test values are shown, here and in the other"
    " tables, where such a point is marked as searched."
)
_COLUMNS: tuple[str, ...] = (
    *("dev", "dev, fresh seeds", "test, fresh seeds"),
    *("better than", "trials", "worker time"),
)
_TOLD: Mapping[str, tuple[str, str, Callable[[Sequence[Seen]], list[Panel]]]] = {
    "history": (
        "Scores over the trials of each search",
        "Points: the dev score of each trial; one that was pruned has none. Lines: the best so far"
        " over all trials, the pruned ones included. Of two metrics the first.",
        panels.history,
    ),
    "expected-best": (
        "Expected best of so many trials",
        "The expected best dev score of n trials that are drawn from those of the search (Dodge et"
        " al. 2019). Areas: its 95 % bootstrap interval. It holds exactly for independent trials"
        " (sampler random). The trials of samplers that learn are better late than early. A pruned"
        " trial counts with its last score before it was pruned, so that with pruned trials the"
        " curve is a lower bound.",
        panels.expectations,
    ),
    "importance": (
        "Importance of the params",
        "The share of the dev scores' variance that each param explains (fANOVA), within the"
        " space that was searched.",
        panels.importances,
    ),
    "slices": (
        "Scores over each param",
        "One point per trial. The other params differ between the points.",
        panels.slices,
    ),
    "fronts": (
        "Two metrics at once",
        "Points: all trials. Lines: the Pareto front of each method. No other trial of the method"
        " is better than a trial on it by one metric without being worse by the other.",
        panels.fronts,
    ),
}


@final
class Searches(Section):
    """A table of what each search chose, and figures of how it came to it."""

    VERSION = 2
    place = 55

    def share(self) -> Share | None:
        """Return the table and figures; None for a grid without a search that has scores."""
        plan, storage = self.material.plan, self.material.storage
        methods = list(dict.fromkeys(study.method for study in plan.studies))
        seen = []
        for study in plan.studies if storage is not None else ():
            assert storage is not None
            record = read_record(storage, study)
            if record.done:
                seen.append(Seen(study, record, methods.index(study.method), plan.measured))
        if not seen:
            return None
        several = [entry for entry in seen if len(entry.record.done) >= panels.FEW]
        sketches = (
            Sketch(f"search-{name}", title, caption, make(several))
            for name, (title, caption, make) in _TOLD.items()
        )
        figures, table = drawn(sketches, self.material.figures), _table(self.material, seen)
        remarks = tuple(panels.equal_effort(seen))
        return Share((Part("searches", "Searches", _LEAD, (table,), figures, remarks),))


def _table(material: Material, seen: Sequence[Seen]) -> Table:
    """Return the table of the chosen points. The best point by one metric is better than all
    others, so that the column which counts them is for two.
    """
    lines = [line for entry in seen for line in _lines(material, entry)]
    columns, two = _COLUMNS, any(len(entry.study.objectives) == 2 for entry in seen)
    if not two:
        at = columns.index("better than")
        columns = (*columns[:at], *columns[at + 1 :])
        lines = [
            replace(line, entries=(*line.entries[:at], *line.entries[at + 1 :])) for line in lines
        ]
    title, caption = "Chosen by search", _caption(seen, two=two)
    return Table("searches", title, columns, tuple(lines), caption, corner="chosen point")


def _lines(material: Material, seen: Seen) -> Iterator[Line]:
    """Yield one line per chosen point: several where there are two objectives."""
    study, record = seen.study, seen.record
    gains = [gain_of(study, entry) for entry in record.done]
    for entry in record.chosen:
        beaten = sum(beats(gain_of(study, entry), gain) for gain in gains)
        dev = ", ".join(seen.unit(n).show(score) for n, score in enumerate(entry.scores))
        shown = (
            Entry(dev),
            _fresh(material, seen, entry, "dev"),
            _fresh(material, seen, entry, "test"),
            Entry(f"{beaten} of {len(gains)}"),
            Entry(_count(record)),
            Entry(duration(record.seconds)),
        )
        values = (f"{symbol(name)}={plain(value)}" for name, value in entry.values.items())
        yield Line(f"{study.method} {' '.join(values)}", shown, seen.group)


def _count(record: StudyRecord) -> str:
    """The number of trials, with those that came from earlier grids, and those that failed."""
    found = [f"{len(record.done)}"]
    taken = sum(entry.measured for entry in record.done)
    failed = sum(entry.state == "failed" for entry in record.tried)
    found += [f"{taken} of them from earlier grids"] if taken else []
    found += [f"{failed} more failed"] if failed else []
    found += [f"{len(record.pruned)} more pruned"] if record.pruned else []
    return ", ".join([*found, *([] if record.finished else ["not finished"])])


def _fresh(material: Material, seen: Seen, entry: Tried, split: str) -> Entry:
    """The scores of the runs that confirm a point, with their intervals."""
    cell = _confirming(material, seen.study, entry)
    if cell is None:
        return Entry("not run", state="empty")
    means, spreads = [], []
    for number, objective in enumerate(seen.study.objectives):
        name = (objective.task, objective.lang, objective.metric, split)
        if name in cell.values:
            unit = seen.unit(number)
            means.append(unit.show(cell.values[name].mean))
            around = material.judge.interval(cell, name)
            spreads += [unit.show_interval(*around)] if around is not None else []
    return Entry(", ".join(means) or f"no {split} values", ", ".join(spreads))


def _confirming(material: Material, study: Study, entry: Tried) -> Cell | None:
    """The cell of the runs that confirm a point. Two studies of one method may choose the same
    values: their runs share a cell of the grid, and are taken apart here.
    """
    plan, keys = material.plan, confirming(material.plan, study, entry)
    cell = next((cell for cell in material.results.cells if keys & set(cell.trials)), None)
    if cell is None or keys >= set(cell.trials) or material.ledger is None:
        return cell
    own = plan.only(plan.by_key[key] for key in sorted(keys))
    return next(iter(cells(rows(own, material.ledger), plan.pivot, plan.measured)), None)


def _caption(seen: Sequence[Seen], *, two: bool) -> str:
    names = dict.fromkeys(
        f"{objective.name}{' (lower is better)' if objective.lower else ''}"
        for entry in seen
        for objective in entry.study.objectives
    )
    saved = "".join(
        f" {entry.study.method} {entry.languages}: {words}."
        for entry in seen
        if (words := saved_words(entry.record))
    )
    better = (
        " “Better than”: the trials of the search that are no better by either metric, and worse by"
        " one."
    )
    return (
        f"Chosen by {', then '.join(names)} on dev. “dev” is the score that the point was chosen"
        " by: the best of many, and so too high. “dev, fresh seeds” is the mean of its other runs."
        f"{better if two else ''}{saved}"
    )
