"""What the comparisons that a grid will make can see: from the spread that its storage has
measured, or from assumptions before anything has run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell, cells, mean_name
from raxalign.analysis.power import POINTS, Assumed, at, design, runs_for
from raxalign.analysis.significance import Spread
from raxalign.catalog import catalog
from raxalign.plan.estimates.cost import trial_seconds
from raxalign.plan.names import cell_name
from raxalign.plan.values.claims import judged_in
from raxalign.plan.values.comparisons import Compared, comparisons
from raxalign.plan.values.predictions import Predictions
from raxalign.plan.values.results import rows
from raxalign.printing import counted

if TYPE_CHECKING:
    from raxalign.plan.load import Opened
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial
    from raxalign.store.storage import Storage

MEASURED, ONE_RUN, ASSUMED = "measured", "examples measured, runs assumed", "assumed"


@dataclass(frozen=True)
class PlannedComparison:
    """The mean over languages of one cell and task against its baseline, as a plan will make it.

    `spread` is at the planned number of runs, `source` says where it comes from, and `seconds` are
    those of one more run of the cell in all languages (0: not known yet).
    """

    task: str
    metric: str
    cell: str
    runs: tuple[int, ...]
    spread: Spread
    source: str
    seconds: float

    @property
    def smallest(self) -> float:
        """The smallest true difference that four of five such comparisons call real."""
        return design(self.spread).smallest()

    def more_runs_for(self, effect: float) -> int | None:
        """Return how many more runs find an effect; None where no number does."""
        needed = runs_for(self.spread, effect)
        return None if needed is None else max(0, needed - max(self.runs, default=needed))


def planned_comparisons(plan: Plan, storage: Storage, given: Assumed) -> list[PlannedComparison]:
    """Return the comparisons of a plan, of the main metric of each task where it is a share, with
    the method that leaves the encoder as it is.
    """
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in plan.trials:
        groups[trial.cell].append(trial)
    known = catalog("methods")
    bases = {
        group[0].encoder: group
        for group in groups.values()
        if group[0].kind in known and known[group[0].kind].is_baseline
    }
    measured = _measured(plan, storage)
    reader = _Reader(plan, storage, given, measured)
    return [
        made
        for text, group in groups.items()
        if (base := bases.get(group[0].encoder)) is not None and base is not group
        for task in group[0].evaluations
        if task in base[0].evaluations and (made := reader.one(text, group, base, task)) is not None
    ]


def claim_power_lines(opened: Opened, given: Assumed) -> Iterator[str]:
    """Yield for each claim of a grid the smallest difference that its comparison can see with the
    planned runs, from what the storage has measured; over languages, with the runs that are there.
    """
    plan = opened.plan
    for found in judged_in(opened):
        seen = []
        for test in found.tests:
            sample = test.entry.over_languages
            if found.claim.over_languages:
                seen += [sample.detectable] if sample and sample.detectable is not None else []
                continue
            spread = test.entry.comparison.spread if test.entry.comparison else None
            if spread is None:
                continue
            keys = {cell.key for cell in (test.entry.cell, test.entry.baseline) if cell}
            seeds = len({trial.seed for trial in plan.trials if trial.cell in keys})
            counts = [max(seeds, 2)] * len(spread.trained)
            seen.append(design(at(filled(spread, given), counts)).smallest())
        scale = found.tests[0].entry.measured.scale if found.tests else 1
        told = (
            f"can see {scale * max(seen):.2g}" if seen else "a first run will show what it can see"
        )
        yield f"claim: {found.claim.text} ({told}; {found.written})"


def filled(spread: Spread, given: Assumed) -> Spread:
    """Return a spread in which what one run does not show is assumed."""
    sd = given.run_sd[0] / POINTS
    sides = [
        side if side.runs > 1 else replace(side, between=(side.weight * sd) ** 2)
        for side in spread.trained
    ]
    return replace(spread, trained=tuple(sides))


def _measured(plan: Plan, storage: Storage) -> dict[tuple[str, str], Compared]:
    """The comparisons of means that results are there for, by cell and task."""
    found = cells(rows(plan, storage.ledger), plan.pivot, plan.measured)
    mains = {(task, plan.main_metric(task)) for task in {n[0] for c in found for n in c.values}}
    names = {name for cell in found for name in cell.values if (name[0], name[2]) in mains}
    tables = {(task, metric, split) for task, _, metric, split in names}
    return {
        (entry.cell.key, entry.name[0]): entry
        for entry in comparisons(found, plan, storage.ledger, tables=tables)
        if entry.comparison is not None
        and entry.name == mean_name(entry.cell, entry.name[0], *entry.name[2:])
    }


@dataclass(frozen=True)
class _Reader:
    plan: Plan
    storage: Storage
    given: Assumed
    measured: dict[tuple[str, str], Compared]

    def one(
        self, text: str, group: Sequence[Trial], base: Sequence[Trial], task: str
    ) -> PlannedComparison | None:
        """The comparison of one cell in one task; None where the metric is not a share."""
        metric = self.plan.main_metric(task)
        if metric is None or self.plan.measured(task, metric).unit != "share":
            return None
        sides = [group] if self._paired(group[0], base, task) else [group, base]
        chance = [self._has_chance(side[0], task) for side in sides]
        runs = [len({trial.seed for trial in side}) for side in sides]
        counts = tuple(n for n, trained in zip(runs, chance, strict=True) if trained)
        spread, source = self._spread(text, task, group[0].encoder, chance)
        took: dict[int | None, float] = defaultdict(float)
        for trial in group:
            took[trial.seed] += trial_seconds(self.plan, trial, self.storage)
        done = [seconds for seconds in took.values() if seconds]
        seconds = sum(done) / len(done) if done else 0.0
        first = group[0]
        cell = Cell(first.method, first.params, first.encoder, first.sentences, (first.key,), {})
        name = cell_name(cell, self.plan)
        name += f" with {first.sentences:,} pairs" if first.sentences else ""
        planned = at(spread, counts)
        return PlannedComparison(task, metric, name, counts, planned, source, seconds)

    def _has_chance(self, trial: Trial, task: str) -> bool:
        return Predictions(self.plan, None).has_chance(trial.evaluations[task])

    def _paired(self, trial: Trial, base: Sequence[Trial], task: str) -> bool:
        """Whether both share their task's training, seed by seed."""
        keys = [trial.evaluations[task]]
        keys += [other.evaluations[task] for other in base if other.seed == trial.seed]
        trained = [self.plan.stages[key].inputs.get("trained") for key in keys]
        return len(trained) > 1 and trained[0] is not None and trained[0] == trained[1]

    def _spread(
        self, text: str, task: str, encoder: str, chance: Sequence[bool]
    ) -> tuple[Spread, str]:
        """The spread of a comparison, and where it comes from: its own results, those of another
        method on the same encoder, or assumptions.
        """
        others = [e for (_, of), e in self.measured.items() if of == task]
        of_encoder = [e for e in others if e.cell.encoder == encoder]
        own = self.measured.get((text, task))
        for entry in (own, *of_encoder):
            spread = entry.comparison.spread if entry and entry.comparison else None
            if entry is None or spread is None or len(spread.trained) != sum(chance):
                continue
            source = MEASURED if all(s.runs > 1 for s in spread.trained) else ONE_RUN
            of = "" if entry is own else f" for {cell_name(entry.cell, self.plan)}"
            return filled(spread, self.given), source + of
        deviations = [self.given.run_sd[0] if trained else 0.0 for trained in chance]
        sds = tuple(deviations) if len(deviations) == 2 else (*deviations, 0.0)
        return replace(self.given, run_sd=sds).spread(2), ASSUMED


def power_lines(
    found: Sequence[PlannedComparison], given: Assumed, effect: float | None
) -> Iterator[str]:
    """Yield what each comparison can see, and what an `effect` in points takes."""
    from raxalign.plan.estimates.cost import roughly

    if not found:
        yield "no comparison with a baseline is planned of a metric that is a share"
        return
    yield "smallest difference of means that 4 of 5 such grids find, in points:"
    for one in found:
        runs = " and ".join(map(str, one.runs))
        line = f"  {one.task} ({one.metric}), {one.cell}: {POINTS * one.smallest:.2g}"
        line += f" with {runs} runs" if one.runs else ""
        line += f" ({one.source})"
        if effect is not None:
            more = one.more_runs_for(effect / POINTS)
            time = f", {roughly(more * one.seconds)} of work" if more and one.seconds else ""
            line += f"; a difference of {effect:g} "
            line += (
                "is beyond any number of runs"
                if more is None
                else f"takes {counted(more, 'more seed')}{time}"
                if more
                else "is found"
            )
        yield line
    if any(one.source != MEASURED for one in found):
        yield (
            f"assumed where not measured: runs differ by {given.run_sd[0]:g} points (--run-sd), and"
            f" before a first run {given.examples[0]:,} examples, on {given.disagree:g} % of which"
            " one method alone is right"
        )
