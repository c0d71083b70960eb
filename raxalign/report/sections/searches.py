"""What each search chose on development sets, and what fresh seeds say about it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from raxalign.analysis.cells import MEANS, Cell, cells
from raxalign.analysis.search import best_so_far, expected_best, expected_best_interval
from raxalign.measured import Declared, spoken
from raxalign.plan.estimates.cost import duration
from raxalign.plan.names import plain
from raxalign.plan.study import Study
from raxalign.plan.study_record import (
    StudyRecord,
    Tried,
    beats,
    gain_of,
    measured_record,
    saved_words,
)
from raxalign.plan.values.results import rows
from raxalign.report.cells.names import symbol
from raxalign.report.cells.numbers import NumberFormat, unit_of
from raxalign.report.document import Entry, Line, Part, Share, Table
from raxalign.report.figures.panels import Panel, Series, Sketch
from raxalign.report.render import caption
from raxalign.report.sections.base import Material, Section
from raxalign.report.studies import confirming

_FEW = 3  # trials below which a search has no figures
_MEANS = {**MEANS, "avg_zero_shot": "zero-shot mean"}
_COLUMNS = (
    *("dev", "dev, fresh seeds", "test, fresh seeds"),
    *("better than", "trials", "worker time"),
)
_TITLES = {
    "search-history": "Scores over the trials of each search",
    "search-expected-best": "Expected best of so many trials",
    "search-importance": "Importance of the params",
    "search-fronts": "Two metrics at once",
}


@dataclass(frozen=True)
class Seen:
    """A study with what it tried, its colour, and what is declared of its metrics."""

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

    def unit(self, objective: int = 0) -> NumberFormat:
        """Return the unit of an objective."""
        entry = self.study.objectives[objective]
        every = (other.scores[objective] for other in self.record.done)
        return unit_of(self.measured(entry.task, entry.metric), every)

    def signed(self, values: Sequence[float]) -> list[float]:
        """Return values of the first objective with the sign that makes larger ones better."""
        return [-v if self.study.objectives[0].lower else v for v in values]

    def expected(self) -> tuple[list[float], list[tuple[float, float]]]:
        """Return the expected best of 1, 2, ... trials by the first objective, and the ends of its
        95 % intervals, the lower one first.
        """
        scores = self.signed([score for _, score in self.spent()])
        low, high = (self.signed(ends) for ends in expected_best_interval(scores))
        pairs = [(min(ends), max(ends)) for ends in zip(low, high, strict=True)]
        return self.signed(expected_best(scores)), pairs

    def axis(self, objective: int = 0) -> str:
        """Return the name of an objective on an axis: ``xnli accuracy, en, dev (%)``."""
        lower = ", lower is better" if self.study.objectives[objective].lower else ""
        percent = " (%)" if self.unit(objective).sign else ""
        return f"{self.named(objective)}, dev{lower}{percent}"

    def named(self, objective: int = 0) -> str:
        """Return the name of an objective: ``xnli accuracy, zero-shot mean``."""
        entry = self.study.objectives[objective]
        return f"{entry.task} {spoken(entry.metric)}, {_MEANS.get(entry.lang, entry.lang)}"

    @property
    def languages(self) -> str:
        """The languages of the study."""
        return "+".join(self.study.languages)

    @property
    def group(self) -> str:
        """What studies that can be compared have in common, the encoder apart."""
        return f"{self.languages}, {self.study.sentences:,} pairs"


@final
class Searches(Section):
    """A table of what each search chose, and figures of how it came to it."""

    VERSION = 2
    place = 55

    def share(self) -> Share | None:
        """Return the table and figures; None for a grid without a search that has scores."""
        plan, storage = self.material.plan, self.material.storage
        methods = list(dict.fromkeys(study.method for study in plan.studies))
        found = [measured_record(plan, storage, s) for s in plan.studies if storage is not None]
        records = zip(plan.studies, found, strict=False)
        seen = [
            Seen(study, record, methods.index(study.method), plan.measured)
            for study, record in records
            if record.done
        ]
        if not seen:
            return None
        several = [entry for entry in seen if len(entry.record.done) >= _FEW]
        makers = (history, expectations, importances, fronts)
        sketches = (
            Sketch(name, title, caption(name), make(several))
            for (name, title), make in zip(_TITLES.items(), makers, strict=True)
        )
        figures, table = self.drawn(sketches), _table(self.material, seen)
        lead, remarks = caption("searches"), tuple(equal_effort(seen))
        return Share((Part("searches", "Searches", lead, (table,), figures, remarks),))


def _table(material: Material, seen: Sequence[Seen]) -> Table:
    """The table of the chosen points. The best point by one metric is better than all others, so
    that the column which counts them is for two.
    """
    two = any(len(entry.study.objectives) == 2 for entry in seen)
    kept = [place for place, name in enumerate(_COLUMNS) if two or name != "better than"]
    lines = tuple(
        replace(line, entries=tuple(line.entries[place] for place in kept))
        for entry in seen
        for line in _lines(material, entry)
    )
    metrics = dict.fromkeys(
        f"{objective.name}{' (lower is better)' if objective.lower else ''}"
        for entry in seen
        for objective in entry.study.objectives
    )
    saved = [
        f"{entry.study.method} {entry.languages}: {words}."
        for entry in seen
        if (words := saved_words(entry.record))
    ]
    about = caption("search_table", metrics=metrics, two=two, saved=saved)
    columns = tuple(_COLUMNS[place] for place in kept)
    title, corner = "Chosen by search", "chosen point"
    return Table("searches", title, columns, lines, about, corner=corner)


def _lines(material: Material, seen: Seen) -> Iterator[Line]:
    """Yield a line per chosen point: several where there are two objectives."""
    study, record = seen.study, seen.record
    gains = [gain_of(study, entry) for entry in record.done]
    taken = sum(entry.measured for entry in record.done)
    failed = sum(entry.state == "failed" for entry in record.tried)
    count = [f"{len(record.done)}"]
    count += [f"{taken} of them from earlier grids"] if taken else []
    count += [f"{failed} more failed"] if failed else []
    count += [f"{len(record.pruned)} more pruned"] if record.pruned else []
    count += [] if record.finished else ["not finished"]
    for entry in record.chosen:
        beaten = sum(beats(gain_of(study, entry), gain) for gain in gains)
        shown = (
            Entry(", ".join(seen.unit(n).show(score) for n, score in enumerate(entry.scores))),
            _fresh(material, seen, entry, "dev"),
            _fresh(material, seen, entry, "test"),
            Entry(f"{beaten} of {len(gains)}"),
            Entry(", ".join(count)),
            Entry(duration(record.seconds)),
        )
        values = (f"{symbol(name)}={plain(value)}" for name, value in entry.values.items())
        yield Line(f"{study.method} {' '.join(values)}", shown, seen.group)


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
            spreads.append(material.judge.shown(cell, name, unit))
    return Entry(", ".join(means) or f"no {split} values", ", ".join(filter(None, spreads)))


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


def history(seen: Sequence[Seen]) -> list[Panel]:
    """Return a panel per group of languages: the score of every trial that came to its end, and the
    best so far of each method from the first of these, over all trials: a pruned one raises
    nothing.
    """
    panels = []
    for title, group in _groups(seen).items():
        lines, points = [], []
        for entry in group:
            done = {tried.number: entry.shown(tried) for tried in entry.record.done}
            numbers = [tried.number for tried, _ in entry.spent() if tried.number >= min(done)]
            known, values = done[min(done)], []
            for number in numbers:
                known = done.get(number, known)
                values.append(known)
            best = entry.signed(best_so_far(entry.signed(values)))
            name, colour, xs = entry.study.method, entry.colour, [n + 1 for n in numbers]
            lines.append(Series(name, xs, best, look="post", colour=colour))
            xs = [number + 1 for number in done]
            points.append(Series("", xs, list(done.values()), look="dots", colour=colour))
        panels.append(Panel(title, "trial", group[0].axis(), [*lines, *points], whole=True))
    return panels


def expectations(seen: Sequence[Seen]) -> list[Panel]:
    """Return a panel per group of languages: the expected best of n trials."""
    panels = []
    for title, group in _groups(seen).items():
        curves = []
        for entry in group:
            best, ends = entry.expected()
            xs = range(1, len(best) + 1)
            curves.append(Series(entry.study.method, xs, best, colour=entry.colour, band=ends))
        panels.append(Panel(title, "number of trials", group[0].axis(), curves, whole=True))
    return panels


def equal_effort(seen: Sequence[Seen]) -> list[str]:
    """Return the expected best of as many trials as every method has, in words."""
    told = []
    for title, group in _groups(seen).items():
        count = min(len(entry.record.done) for entry in group)
        found = []
        for entry in group:
            best, ends = entry.expected()
            at, (low, high) = best[count - 1], ends[count - 1]
            shown = replace(entry.unit(), scale=1.0)  # they are scaled already
            found.append(f"{entry.study.method} {shown.show(at)} {shown.show_interval(low, high)}")
        if len(group) > 1:
            what = f"expected best of {count} trials"
            told.append(f"{title}: {what} of each, {group[0].axis()}: {', '.join(found)}.")
    return told


def importances(seen: Sequence[Seen]) -> list[Panel]:
    """Return a panel per method with the share of the scores' variance that each param explains."""
    panels = []
    enough = [entry for entry in seen if entry.record.importance]
    for method, group in _grouped(enough, lambda entry: entry.study.method).items():
        names = [space.name for space in group[0].study.spaces]
        dots: list[Series] = []
        for entry in group:
            for place, objective in enumerate(entry.study.objectives):
                if (shares := entry.record.importance.get(objective.name)) is not None:
                    values = [100 * shares.get(name, math.nan) for name in names]
                    label = f"{entry.languages}: {entry.named(place)}"
                    dots.append(Series(label, (), values, look="dots", colour=len(dots)))
        panels.append(Panel(method, "", "share of variance (%)", dots, list(map(symbol, names))))
    return panels


def fronts(seen: Sequence[Seen]) -> list[Panel]:
    """Return a panel per group of languages: the points of two objectives, and the fronts."""
    panels = []
    two = [entry for entry in seen if len(entry.study.objectives) == 2]
    for title, group in _groups(two).items():
        lines, clouds = [], []
        for entry in group:
            front = sorted(entry.record.chosen, key=lambda done: done.scores[0])
            xs, ys = ([entry.shown(done, axis) for done in front] for axis in (0, 1))
            name, colour = entry.study.method, entry.colour
            if entry.study.objectives[0].lower:
                lines.append(Series(name, xs, ys, look="post", colour=colour))
            else:
                lines.append(Series(name, xs, ys, look="pre", colour=colour))
            every = entry.scores(0), entry.scores(1)
            clouds.append(Series("", *every, look="dots", colour=colour))
        panels.append(Panel(title, group[0].axis(0), group[0].axis(1), [*lines, *clouds]))
    return panels


def _groups(seen: Sequence[Seen]) -> Mapping[str, list[Seen]]:
    """Studies that can be compared: of one encoder, languages and number of sentences."""
    several = len({entry.study.encoder for entry in seen}) > 1
    enough = [entry for entry in seen if len(entry.record.done) >= _FEW]
    return _grouped(enough, lambda e: f"{e.group} [{e.study.encoder}]" if several else e.group)


def _grouped(seen: Sequence[Seen], by: Callable[[Seen], str]) -> Mapping[str, list[Seen]]:
    groups: dict[str, list[Seen]] = defaultdict(list)
    for entry in seen:
        groups[by(entry)].append(entry)
    return groups
