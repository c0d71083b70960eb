"""What the comparisons that a grid will make can see: from the spread that its storage has
measured, or from assumptions before anything has run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from raxalign.analysis.cells import cells, mean_name
from raxalign.analysis.power import FEWEST, POINTS, Assumed, at, design, estimated, runs_for
from raxalign.analysis.significance import Spread
from raxalign.plan.estimates.cost import roughly, trial_seconds
from raxalign.plan.load import Opened
from raxalign.plan.names import cell_name
from raxalign.plan.plan import Plan
from raxalign.plan.values import planned
from raxalign.plan.values.claims import judged_in
from raxalign.plan.values.comparisons import MINIMUM, Compared, comparisons
from raxalign.plan.values.planned import PlannedSides, planned_sides, seen
from raxalign.plan.values.results import rows
from raxalign.printing import counted
from raxalign.store.storage import Storage

MEASURED, ASSUMED_RUNS, ASSUMED = "measured", "examples measured, runs assumed", "assumed"


@dataclass(frozen=True)
class PlannedComparison:
    """What one comparison of a plan can see."""

    sides: PlannedSides
    spread: Spread  # as it was measured, or at the planned runs where those are assumed
    planned: tuple[int, ...]  # runs, two at least
    source: str  # of the spread
    seconds: float  # of one more run of the cell in all languages (0: not known)

    @property
    def smallest(self) -> float | None:
        """The smallest true difference that four of five such comparisons call real; None where
        there is one run of what is trained.
        """
        known = self.planned if self.measured else ()
        return _smallest(self.spread, known) if self.sides.tested else None

    @property
    def measured(self) -> bool:
        """Whether runs have shown how much they differ."""
        return self.source.startswith(MEASURED)

    def more_runs_for(self, effect: float) -> int | None:
        """Return how many more runs find an effect; None where no number does."""
        needed = runs_for(self.spread, effect, measured=self.measured)
        return None if needed is None else max(0, needed - max(self.sides.runs, default=needed))


@cache
def _smallest(spread: Spread, runs: tuple[int, ...]) -> float:
    return (estimated(spread, runs) if runs else design(spread)).smallest()


def planned_comparisons(
    plan: Plan, storage: Storage, given: Assumed, *, timed: bool = True
) -> list[PlannedComparison]:
    """Return the comparisons of a plan; their seconds are 0 where they are not `timed`."""
    measured = _measured(plan, storage)
    found = []
    for sides in planned_sides(plan):
        spread, source = _spread(plan, sides, given, measured)
        runs = tuple(max(2, count) for count in sides.runs)
        spread = spread if source.startswith(MEASURED) else at(spread, runs)
        seconds = _seconds(plan, storage, sides) if timed else 0.0
        found.append(PlannedComparison(sides, spread, runs, source, seconds))
    return found


def claim_power_lines(opened: Opened, given: Assumed) -> Iterator[str]:
    """Yield for each claim of a grid the smallest difference that its comparison can see with the
    planned runs, from what the storage has measured; over languages, with the runs that are there.
    """
    plan = opened.plan
    for found in judged_in(opened, shown=False):
        smallest = []
        for test in found.tests:
            sample = test.entry.over_languages
            if found.claim.over_languages:
                smallest += [sample.detectable] if sample and sample.detectable is not None else []
                continue
            spread = test.entry.comparison.spread if test.entry.comparison else None
            if spread is None:
                continue
            keys = {cell.key for cell in (test.entry.cell, test.entry.baseline) if cell}
            seeds = len({trial.seed for trial in plan.trials if trial.cell in keys})
            counts = [max(seeds, 2)] * len(spread.trained)
            filled_ = filled(spread, given)
            found_ = estimated(spread, counts) if filled_ == spread else design(at(filled_, counts))
            smallest.append(found_.smallest())
        scale = found.tests[0].entry.measured.scale if found.tests else 1
        told = f"a first run will show the {MINIMUM}"
        told = f"{MINIMUM}: {scale * max(smallest):.2g}" if smallest else told
        yield f"claim: {found.claim.text} ({told}; {found.written})"


def filled(spread: Spread, given: Assumed) -> Spread:
    """Return a spread in which what fewer than five runs do not show is assumed."""
    sd = given.run_sd[0] / POINTS
    sides = [
        side
        if side.runs >= FEWEST
        else replace(side, between=(side.weight * sd) ** 2 / side.runs + side.within)
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
        for entry in comparisons(found, plan, storage.ledger.without_looks(), tables=tables)
        if entry.comparison is not None
        and entry.name == mean_name(entry.cell, entry.name[0], *entry.name[2:])
    }


def _seconds(plan: Plan, storage: Storage, sides: PlannedSides) -> float:
    """The work of one more run of a cell: the mean of those that were made."""
    took: dict[int | None, float] = defaultdict(float)
    for trial in sides.trials:
        took[trial.seed] += trial_seconds(plan, trial, storage)
    done = [seconds for seconds in took.values() if seconds]
    return sum(done) / len(done) if done else 0.0


def _spread(
    plan: Plan,
    sides: PlannedSides,
    given: Assumed,
    measured: Mapping[tuple[str, str], Compared],
) -> tuple[Spread, str]:
    """The spread of a comparison, and where it comes from: its own results, those of another method
    on the same encoder, or assumptions.
    """
    first = sides.trials[0]
    of_task = [entry for (_, task), entry in measured.items() if task == sides.task]
    of_encoder = [entry for entry in of_task if entry.cell.encoder == first.encoder]
    own = measured.get((first.cell, sides.task))
    for entry in (own, *of_encoder):
        spread = entry.comparison.spread if entry and entry.comparison else None
        if entry is None or spread is None or len(spread.trained) != len(sides.runs):
            continue
        source = MEASURED if all(side.runs >= FEWEST for side in spread.trained) else ASSUMED_RUNS
        of = "" if entry is own else f" for {cell_name(entry.cell, plan)}"
        return filled(spread, given), source + of
    deviations = [given.run_sd[0] if trained else 0.0 for trained in sides.chance]
    sds = tuple(deviations) if len(deviations) == 2 else (*deviations, 0.0)
    examples = given.examples if sides.examples is None else (sides.examples,)
    return replace(given, run_sd=sds, examples=examples).spread(2), ASSUMED


def power_lines(
    found: Sequence[PlannedComparison], given: Assumed, effect: float | None
) -> Iterator[str]:
    """Yield what each comparison can see, and what an `effect` in points takes, where given."""
    if not found:
        yield "no comparison with a baseline is planned of a metric that is a share"
        return
    yield planned.SEEN
    for one in found if effect is not None else found[: planned.MOST_LINES]:
        sides, smallest = one.sides, one.smallest
        points = None if smallest is None else POINTS * smallest
        line = f"  {sides.task} ({sides.metric}), {sides.name}: {seen(points)}{sides.with_what}"
        line += f" ({one.source})"
        yield (
            line if effect is None else f"{line}; a difference of {effect:g} {_takes(one, effect)}"
        )
    if effect is None:
        yield from planned.left_out(len(found))
    if not all(one.measured for one in found):
        yield (
            f"assumed where fewer than {FEWEST} runs were measured: runs differ by"
            f" {given.run_sd[0]:g} points (--run-sd); before a first run: one method alone is right"
            f" on {given.disagree:g} % of the examples, {given.examples[0]:,} where the plan knows"
            " no number"
        )


def _takes(one: PlannedComparison, effect: float) -> str:
    """What a difference in points takes to be found."""
    more = one.more_runs_for(effect / POINTS)
    if more is None:
        return "is detected by no number of runs"
    if not more:
        return "is found"
    time = f", {roughly(more * one.seconds)} of work" if one.seconds else ""
    return f"takes {counted(more, 'more seed')}{time}"
