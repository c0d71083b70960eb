"""What the comparisons that a grid will make can see: from the spread that its storage has
measured, or from assumptions before anything has run.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from raxalign.analysis.cells import Cell
from raxalign.analysis.power import Assumed, Design
from raxalign.analysis.significance import Spread
from raxalign.catalog import catalog
from raxalign.grid.estimates import Times, roughly
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.options.axes import Axis
from raxalign.printing import counted
from raxalign.store.storage import Storage
from raxalign.values.claims import JudgedClaim
from raxalign.values.comparisons import MINIMUM, Compared, comparisons
from raxalign.values.predictions import MOST_EVALUATIONS, Predictions
from raxalign.values.results import rows

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
        """Return how many more runs find an effect, where no other comparison of the table is
        significant; None where no number does. The correction for a further look is not in it.
        """
        needed = Design.runs_for(self.spread, effect, self.sides.among, measured=self.measured)
        return None if needed is None else max(0, needed - max(self.sides.runs, default=needed))


@cache
def _smallest(spread: Spread, runs: tuple[int, ...]) -> float:
    return (Design.estimated(spread, runs) if runs else Design.of(spread)).smallest()


def planned_comparisons(
    plan: Plan,
    storage: Storage,
    given: Assumed,
    *,
    whole: Plan | None = None,
    timed: bool = True,
) -> list[PlannedComparison]:
    """Return the comparisons of a plan, in the tables of the `whole` one; their seconds are 0 where
    they are not `timed`.
    """
    measured = _measured(plan, storage)
    found = []
    for sides in planned_sides(plan, whole):
        spread, source = _spread(plan, sides, given, measured)
        runs = tuple(max(2, count) for count in sides.runs)
        spread = spread if source.startswith(MEASURED) else spread.at(runs)
        seconds = _seconds(plan, storage, sides) if timed else 0.0
        found.append(PlannedComparison(sides, spread, runs, source, seconds))
    return found


def _claim_power_lines(opened: Opened, given: Assumed) -> Iterator[str]:
    """Yield for each claim of a grid the smallest difference that its comparison can see with the
    planned runs, from what the storage has measured; over languages, with the runs that are there.
    """
    plan, claims = opened.plan, opened.grid.claims
    among = sum(
        len({(t.encoder, t.sentences) for t in plan.trials if t.method == claim.first.split()[0]})
        for claim in (claims if opened.grid.stop is None else ())
    )
    among = max(among, 1)
    for found in JudgedClaim.all_in(opened, shown=False):
        smallest, alone = [], False
        for test in found.tests:
            sample = test.entry.over_languages
            if found.claim.over_languages:
                least = sample.detectable(among) if sample else None
                smallest += [] if least is None else [least]
                continue
            spread = test.entry.comparison.spread if test.entry.comparison else None
            if spread is None:
                continue
            keys = {cell.key for cell in (test.entry.cell, test.entry.baseline) if cell}
            seeds = len({trial.seed for trial in plan.trials if trial.cell in keys} - {None})
            seeds = seeds if opened.grid.stop is None else opened.grid.stop.at_most
            if spread.trained and seeds < 2:
                alone = True
                continue
            counts = [seeds] * len(spread.trained)
            known = filled(spread, given)
            design = Design.planned(known, counts, among, measured=known == spread)
            smallest.append(design.smallest())
        scale = found.tests[0].entry.measured.scale if found.tests else 1
        others = f" among the {among} tests of claims" if among > 1 else ""
        told = "one run is not tested" if alone else f"a first run will show the {MINIMUM}"
        told = f"{MINIMUM}{others}: {scale * max(smallest):.2g}" if smallest else told
        yield f"claim: {found.claim.text} ({told}; {found.written})"


def filled(spread: Spread, given: Assumed) -> Spread:
    """Return a spread in which what fewer than five runs do not show is assumed."""
    sd = given.run_sd[0] / Assumed.POINTS
    sides = [
        side
        if side.runs >= Design.FEWEST
        else replace(side, between=(side.weight * sd) ** 2 / side.runs + side.within)
        for side in spread.trained
    ]
    return replace(spread, trained=tuple(sides))


def _measured(plan: Plan, storage: Storage) -> dict[tuple[str, str], Compared]:
    """The comparisons of means that results are there for, by cell and task."""
    found = Cell.grouped(rows(plan, storage.ledger), plan.pivot, plan.measured)
    mains = {(task, plan.main_metric(task)) for task in {n[0] for c in found for n in c.values}}
    names = {name for cell in found for name in cell.values if (name[0], name[2]) in mains}
    tables = {(task, metric, split) for task, _, metric, split in names}
    return {
        (entry.cell.key, entry.name[0]): entry
        for entry in comparisons(found, plan, storage.ledger.without_looks(), tables=tables)
        if entry.comparison is not None
        and entry.name == entry.cell.mean_name(entry.name[0], *entry.name[2:])
    }


def _seconds(plan: Plan, storage: Storage, sides: PlannedSides) -> float:
    """The work of one more run of a cell: the mean of those that were made."""
    took: dict[int | None, float] = defaultdict(float)
    for trial in sides.trials:
        took[trial.seed] += Times(plan, storage).of(trial)
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
        source = (
            MEASURED if all(side.runs >= Design.FEWEST for side in spread.trained) else ASSUMED_RUNS
        )
        of = "" if entry is own else f" for {plan.cell_name(entry.cell)}"
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
    yield SEEN
    for one in found if effect is not None else found[:MOST_LINES]:
        sides, smallest = one.sides, one.smallest
        points = None if smallest is None else Assumed.POINTS * smallest
        line = f"  {sides.task} ({sides.metric}), {sides.name}: {seen(points)}{sides.with_what}"
        line += f" ({one.source})"
        yield (
            line
            if effect is None
            else f"{line}; a difference of {effect:g}{sides.of_several} {_takes(one, effect)}"
        )
    if effect is None:
        yield from left_out(len(found))
    yield from _correction_lines([one.sides for one in found])
    if not all(one.measured for one in found):
        yield (
            f"assumed where fewer than {Design.FEWEST} runs were measured: runs differ by"
            f" {given.run_sd[0]:g} points (--run-sd); before a first run: one method alone is right"
            f" on {given.disagree:g} % of the examples, {given.examples[0]:,} where the plan knows"
            " no number"
        )


def _takes(one: PlannedComparison, effect: float) -> str:
    """What a difference in points takes to be found."""
    more = one.more_runs_for(effect / Assumed.POINTS)
    if more is None:
        return "is detected by no number of runs"
    if not more:
        return "is found"
    time = f", {roughly(more * one.seconds)} of work" if one.seconds else ""
    return f"takes {counted(more, 'more seed')}{time}"


_ASSUMED_EXAMPLES = 1000
_RUN_SD = 0.5
"""In points, by how much runs are assumed to differ."""
_ASSUMPTIONS = (
    f"assumed: runs differ by {_RUN_SD:g} points (standard deviation, --run-sd), one of two methods"
    " alone is right on 15 % of the examples, and there are 1,000 where the plan knows no number;"
    " measured after five runs (--detect POINTS: what a difference takes)"
)
_LESS: Mapping[int, Mapping[int, tuple[float, ...]]] = {
    0: {100: (10.94,), 300: (6.28,), 1000: (3.43,), 3000: (1.98,), 10000: (1.09,)},
    1: {
        100: (27.16, 11.48, 10.18, 9.75, 9.54, 9.42, 9.34, 9.28, 9.24),
        300: (16.37, 6.71, 5.9, 5.63, 5.5, 5.43, 5.38, 5.34, 5.32),
        1000: (10.18, 3.88, 3.33, 3.15, 3.06, 3.01, 2.97, 2.95, 2.93),
        3000: (7.52, 2.57, 2.09, 1.93, 1.85, 1.81, 1.77, 1.75, 1.74),
        10000: (6.33, 1.94, 1.43, 1.26, 1.17, 1.12, 1.08, 1.05, 1.04),
    },
    2: {
        100: (31.88, 10.73, 8.83, 8.12, 7.74, 7.49, 7.32, 7.19, 7.1),
        300: (19.57, 6.38, 5.18, 4.74, 4.5, 4.35, 4.25, 4.17, 4.11),
        1000: (12.79, 3.87, 3.04, 2.74, 2.57, 2.47, 2.4, 2.35, 2.31),
        3000: (10.18, 2.8, 2.07, 1.81, 1.67, 1.58, 1.52, 1.47, 1.44),
        10000: (9.06, 2.32, 1.61, 1.35, 1.21, 1.12, 1.06, 1.01, 0.97),
    },
}
"""In points, by the number of trained sides and of examples: the smallest difference that four of
five comparisons find with 2, 3, 4, ... runs of each under `_ASSUMPTIONS`, as
`analysis.power.Assumed` has it.
"""
_HARDER: Mapping[int, tuple[float, ...]] = {
    0: (1.3, 1.54, 1.75),
    2: (9.7, 97, 970),
    3: (2.5, 7.7, 24),
    4: (1.6, 2.9, 6.2),
    5: (1.39, 2.0, 3.2),
    6: (1.35, 1.7, 2.3),
    7: (1.32, 1.6, 2.0),
    8: (1.32, 1.58, 1.85),
    9: (1.31, 1.57, 1.8),
    10: (1.31, 1.56, 1.8),
}
"""By the number of runs of a trained side (0: nothing is trained): what the smallest difference is
multiplied by where the correction is over 10, 100 and 1,000 comparisons, under `_ASSUMPTIONS` and
with 1,000 examples. With 100 to 10,000 it is up to a quarter less or half as much again.
"""
MOST_LINES = 12


@dataclass(frozen=True)
class PlannedSides:
    """The mean over languages of one cell and task, and its baseline, as a plan will compare them.
    There is one side where both share their training, seed by seed.
    """

    task: str
    metric: str
    trials: tuple[Trial, ...]
    chance: tuple[bool, ...]  # of each side, whether its runs are chance
    runs: tuple[int, ...]  # the number of runs of those sides
    name: str
    examples: int | None = None  # of the test, where the plan knows how many
    compared: int = 1  # languages and means in which the cell is compared
    among: int = 1  # the comparisons of the table, which Holm's correction is over, at most

    @property
    def of_several(self) -> str:
        """How many comparisons this is one of, in words."""
        return f" among {self.among:,} comparisons" if self.among > 1 else ""

    @property
    def harder(self) -> float:
        """By how much about the smallest difference grows by Holm's correction, where none of the
        other comparisons is significant.
        """
        factors = (1.0, *_HARDER[min(*self.runs, max(_HARDER)) if self.runs else 0])
        place = math.log10(self.among)
        first = min(int(place), len(factors) - 2)
        few, many = factors[first : first + 2]
        return float(few * (many / few) ** (place - first))

    @property
    def with_what(self) -> str:
        """How many runs and examples there are, in words."""
        several = "run" if self.runs == (1,) else "runs"
        parts = [f"{' and '.join(map(str, self.runs))} {several}"] if self.runs else []
        parts += [f"{self.examples:,} examples"] if self.examples is not None else []
        return f" with {' and '.join(parts)}" if parts else ""

    @property
    def tested(self) -> bool:
        """Whether there are two runs at least of what is trained: one is not tested."""
        return min(self.runs, default=2) > 1

    @property
    def assumed(self) -> float | None:
        """In points, the smallest difference that is found in four of five grids under
        `_ASSUMPTIONS`; None where nothing is tested.
        """
        if not self.tested:
            return None
        place, known = min(self.runs, default=2) - 2, _LESS[len(self.runs)]
        by_size = [(n, less[min(place, len(less) - 1)]) for n, less in known.items()]
        wanted = self.examples or _ASSUMED_EXAMPLES
        pairs = itertools.pairwise(by_size)
        ends = [pair for pair in pairs if wanted <= pair[1][0]] or [(by_size[-2], by_size[-1])]
        (few, large), (many, small) = ends[0]
        return float(large * (wanted / few) ** (math.log(small / large) / math.log(many / few)))


def planned_sides(plan: Plan, whole: Plan | None = None) -> Iterator[PlannedSides]:
    """Yield the comparisons of a plan, of the main metric of each task where it is a share, with
    the method that leaves the encoder as it is. Tables are those of the `whole` plan, of which it
    may be a part.
    """
    found, among = list(_planned_sides(plan)), Counter[str]()
    for sides in found if whole is None or whole is plan else _planned_sides(whole):
        among[sides.task] += sides.compared * sides.tested
    yield from (replace(sides, among=max(among[sides.task], 1)) for sides in found)


def _planned_sides(plan: Plan) -> Iterator[PlannedSides]:
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in plan.trials:
        if trial.searched is None or trial.searched.confirmed:  # others are in no table
            groups[trial.cell].append(trial)
    known = catalog("methods")
    bases = {
        _place(group[0]): group
        for group in groups.values()
        if group[0].kind in known and known[group[0].kind].is_baseline
    }
    reader = Predictions(plan, None)
    for group in groups.values():
        base = bases.get(_place(group[0]))
        if base is None or base is group:
            continue
        for task in group[0].evaluations:
            metric = plan.main_metric(task)
            if task not in base[0].evaluations or metric is None:
                continue
            if plan.measured(task, metric).unit == "share":
                yield _sides(plan, reader, (group, base), task, metric)


def _place(trial: Trial) -> tuple[str, object]:
    """The encoder of a trial and the languages that it aligns, within which cells are compared."""
    return trial.encoder, trial.params.get(Axis.LANGUAGES)


def _sides(
    plan: Plan, reader: Predictions, both: Sequence[Sequence[Trial]], task: str, metric: str
) -> PlannedSides:
    group, base = both
    sides = [group] if _paired(plan, group[0], base, task) else [group, base]
    chance = tuple(reader.has_chance(side[0].evaluations[task]) for side in sides)
    runs = [len({trial.seed for trial in side}) for side in sides]
    counts = tuple(n for n, trained in zip(runs, chance, strict=True) if trained)
    first = group[0]
    cell = Cell(first.method, first.params, first.encoder, first.sentences, (first.key,), {})
    name = plan.cell_name(cell)
    name += f" with {first.sentences:,} pairs" if first.sentences else ""
    compared, examples = _compared(plan, group, task), _examples_of(plan, first.evaluations[task])
    return PlannedSides(task, metric, tuple(group), chance, counts, name, examples, compared)


def _compared(plan: Plan, group: Sequence[Trial], task: str) -> int:
    """Return in how many languages and means a cell is compared with its baseline, at most: what is
    equal in every example is not known before.
    """
    asked = [plan.stages[trial.evaluations[task]] for trial in group if task in trial.evaluations]
    unseen = {lang for stage in asked for lang in stage.unseen}
    aligned = {lang for stage in asked for lang in stage.languages} - unseen
    home = plan.home_of(task) in aligned
    several = len(aligned) > 1 or (bool(unseen and aligned) and not home)
    every = len(aligned | unseen) - home > 1 and Axis.LANGUAGES in group[0].params
    left = plan.leaves(group[0], unseen=True)
    labels, others = len(aligned), 0 if left else len(unseen)
    if asked and cast("Any", asked[0].params["task"]).get("setting") == "g-xlt":
        # every pair of languages has a value, and readouts change those with an unseen one too
        labels, others = labels**2, others**2 + 2 * labels * len(unseen)
    return labels + several + (several and home) + every + (others and others + 1)


def _examples_of(plan: Plan, evaluation: str) -> int | None:
    """Return the number of test examples of a language: those that are made, or the held-out
    sentences of a corpus; None where the plan does not know it.
    """
    stage = plan.stages[evaluation]
    task: Any = stage.params["task"]
    if task.get("data") == "phrasebook" and (made := task.get("phrasebook")):
        return int(made["test"])
    held = [plan.stages[key] for name, key in stage.inputs.items() if name.startswith("heldout/")]
    below = [plan.stages[key] for made in held for key in made.inputs.values()]
    texts: list[Any] = [text.params for text in (*held, *below) if text.params.get("split")]
    return min((params["split"]["test"] for params in texts), default=None)


def _paired(plan: Plan, trial: Trial, base: Sequence[Trial], task: str) -> bool:
    """Check whether both share their task's training, seed by seed."""
    keys = [trial.evaluations[task]]
    same = [o for o in base if (o.seed, o.languages) == (trial.seed, trial.languages)]
    keys += [other.evaluations[task] for other in same]
    trained = [plan.stages[key].inputs.get("trained") for key in keys]
    return len(trained) > 1 and trained[0] is not None and trained[0] == trained[1]


def _assumed_lines(plan: Plan, whole: Plan) -> Iterator[str]:
    """Yield what each comparison of a plan that has not run can see, under `_ASSUMPTIONS`."""
    found = list(planned_sides(plan, whole))
    if found:
        yield SEEN
    for one in found[:MOST_LINES]:
        yield f"  {one.task} ({one.metric}), {one.name}: {seen(one.assumed)}{one.with_what}"
    yield from left_out(len(found))
    if found:
        yield from _correction_lines(found)
        yield _ASSUMPTIONS


def _correction_lines(found: Sequence[PlannedSides]) -> Iterator[str]:
    """Yield for each task by how much Holm's correction multiplies the smallest differences, under
    `_ASSUMPTIONS`.
    """
    tasks = {sides.task: sides.among for sides in found if sides.tested}
    for task, among in tasks.items():
        if among == 1:
            continue
        of_task = (sides for sides in found if sides.task == task and sides.tested)
        by_runs = {min(sides.runs, default=0): sides.harder for sides in of_task}
        told = [
            f"{factor:.2g} ({f'{runs} runs' if runs else 'nothing trained'})"
            for runs, factor in sorted(by_runs.items())
        ]
        yield (
            f"  {task}: Holm's correction over up to {among:,} comparisons multiplies these by"
            f" about {', '.join(told)}, if no other is significant"
        )


SEEN = "minimum detectable effect (80 % power) of each mean by itself, in points:"


def seen(smallest: float | None) -> str:
    """Write a minimum detectable effect in points; None: one run is not tested."""
    return "not tested" if smallest is None else f"{smallest:.2g}"


def left_out(count: int) -> Iterator[str]:
    """Yield how many of so many comparisons have no line."""
    if count > MOST_LINES:
        yield f"  and {count - MOST_LINES:,} more (--detect POINTS shows all)"


def power_text(opened: Opened, plan: Plan, effect: float | None, run_sd: float) -> str:
    """Return the minimum detectable effects of a plan's claims and comparisons: from assumptions
    before a first run, then from what is measured; nothing once all has run, but where an `effect`
    in points asks. Another `run_sd` than the usual one is computed with.
    """
    storage = opened.storage
    evaluations = {key for trial in plan.trials for key in trial.evaluations.values()}
    there = evaluations & storage.ledger.keys()
    if effect is None and not opened.grid.claims:
        if not there and run_sd == _RUN_SD:
            return "\n".join(_assumed_lines(plan, opened.plan))
        if there == evaluations:
            return ""
        if there and (storage.is_remote or len(there) > MOST_EVALUATIONS):
            return "minimum detectable effects, by the results that are there: --detect POINTS"
    given = Assumed(run_sd=(run_sd,))
    lines = list(_claim_power_lines(opened, given))
    if effect is not None or there != evaluations:
        timed, whole = effect is not None, opened.plan
        found = planned_comparisons(plan, storage, given, whole=whole, timed=timed)
        lines += power_lines(found, given, effect)
    return "\n".join(lines)
