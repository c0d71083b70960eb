"""What became of a grid's claims: each tested on the grid's results, and whether it was written
down before there were any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Literal, NamedTuple

from raxalign.analysis.cells import Cell
from raxalign.analysis.sequential import EndedQuestion, Seen
from raxalign.analysis.significance import LEVEL, Noise, at_look, holm, lies_within
from raxalign.grid.claims import Claim, PlannedLook, Stop
from raxalign.grid.load import Opened
from raxalign.grid.lock import Lock
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.store.key import digest
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal
from raxalign.values.comparisons import MINIMUM, Compared, comparisons, named_cells
from raxalign.values.numbers import NumberFormat
from raxalign.values.results import rows

Verdict = Literal["held", "refuted", "no difference", "cannot tell", "not run"]
NO_DIFFERENCE: Verdict = "no difference"
UNLOCKED = "not locked: `raxalign grid` does it"
_COUNTED = ("accuracy", "contextual_accuracy", "noncontextual_accuracy")
"""Metrics of one answer among candidates, of which there are as many as counted pairs, or more."""


@dataclass(frozen=True)
class ClaimTest:
    """A claim's test on one encoder and number of sentences: the difference with its interval, the
    p-value of its sign (corrected over all claims), and what follows. A margin that is relative is
    a share of `reach`, how far the value of the claim's second method is from chance.
    """

    entry: Compared  # the comparison behind it
    low: float | None
    high: float | None
    p: float | None  # of its sign, corrected over all claims
    chance: float | None = None  # what guessing gets; None where the metric has no lowest value
    margin: float | None = None  # the smallest difference that matters, as the metric is stored
    verdict: Verdict = "cannot tell"
    among: int = 1  # the tests of claims that are corrected together

    @property
    def reach(self) -> float | None:
        """How far the value of the second method is from chance."""
        second = self.entry.baseline_value
        return None if second is None or self.chance is None else abs(second.mean - self.chance)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its tests, what follows, and when it was written down; `equivalence` is the
    smallest difference that matters, in points or in the metric's unit, or, where it is
    `relative`, in percent of how far the second method is from chance (None: not given). `done` of
    the trials that are `planned` for it have results: the verdict is about these.
    """

    BEFORE: ClassVar = "before the first result"
    AFTER: ClassVar = "written after there were results"
    claim: Claim
    verdict: Verdict
    tests: tuple[ClaimTest, ...]
    written: str
    equivalence: float | None = None
    relative: bool = False
    at: str = ""  # which of the planned looks, where the grid has `stop`
    done: int = 0
    planned: int = 0

    @property
    def says(self) -> str:
        """The verdict in words."""
        unit = " % of the distance from chance" if self.relative else ""
        above = f" above {self.equivalence:g}{unit}" if self.verdict == NO_DIFFERENCE else ""
        part = bool(self.tests) and self.done < self.planned
        so_far = f" so far ({self.done} of {self.planned} trials)" if part else ""
        return f"{self.verdict}{above}{so_far}{self.at and f' {self.at}'}"

    @property
    def line(self) -> str:
        """The verdict, the claim, and what each test says, in words."""
        tests = "; ".join(_claim_test(test, self) for test in self.tests)
        marked = "" if self.written == self.BEFORE else f" [{self.written}]"
        return f"{self.says}: {self.claim.text}{f' ({tests})' if tests else ''}{marked}"

    @property
    def cells(self) -> tuple[str, ...]:
        """The keys of the cells that it is about."""
        sides = [side for test in self.tests for side in (test.entry.cell, test.entry.baseline)]
        return tuple(sorted({side.key for side in sides if side is not None}))

    @property
    def width(self) -> float:
        """The widths of the intervals of its open tests, in points or the metric's unit."""
        left = (test for test in self.tests if test.verdict == "cannot tell")
        return math.fsum(
            (test.high - test.low) * test.entry.measured.scale
            for test in left
            if test.low is not None and test.high is not None
        )

    @classmethod
    def all_in(
        cls,
        opened: Opened,
        equivalence: float | None = None,
        *,
        relative: bool = False,
        shown: bool = True,
    ) -> list[JudgedClaim]:
        """Return what the results of an opened grid say about its claims. What is not
        `shown` does not count as a look.

        After the correction for earlier looks, Holm's is over the tests of all claims. A claim is
        held where each of its tests says so, and refuted where one says the opposite. There is no
        difference above an `equivalence` where each test holds or has its interval within it.
        """
        claims, plan, ledger = opened.grid.claims, opened.plan, opened.storage.ledger
        ledger = ledger if shown else ledger.without_looks()
        if opened.grid.stop is not None:
            return _Followed.of(opened, opened.grid.stop).judged()
        if not claims:
            return []
        cells = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
        tests = [list(_tests(claim, cells, plan, ledger)) for claim in claims]
        every = [test for several in tests for test in several]
        looked = [t.entry.at_look(t.p) for t in every if t.p is not None]
        adjusted, count = iter(holm(looked)), len(looked)
        lock, there, found = Lock.load(opened.grid.path).entries, ledger.keys(), []
        for claim, several in zip(claims, tests, strict=True):
            known = [
                replace(t, p=next(adjusted), among=count) if t.p is not None else t for t in several
            ]
            own = tuple(_judged(claim, test, equivalence, relative=relative) for test in known)
            written = _locked(claim, plan, lock).partition(";")[0]
            asked = [trial.evaluations[claim.task] for trial in _asked(claim, plan)]
            done = sum(key in there for key in asked)
            facts = (written, equivalence, relative, "", done, len(asked))
            found.append(cls(claim, _over(own), own, *facts))
        return found

    @staticmethod
    def next_look(opened: Opened, claim: str = "") -> str | None:
        """Look at a grid with `stop` whose trials are done, or those of the next look at one
        `claim` (its sentence): record what it sees, and return what follows in words. Return None
        where no look is left or no claim is open, and nothing in words where trials are not done:
        another driver has looked meanwhile.
        """
        if opened.grid.stop is None:
            return None
        found = _Followed.of(opened, opened.grid.stop)  # before the plan, which may then have more
        found = replace(found, opened=opened.again())
        trials: Sequence[Trial] = found.opened.plan.trials
        trials = found.stop.needed(trials, found.taken, claim) if claim else trials
        asked = {key for trial in trials for key in trial.evaluations.values()}
        return found.take(claim) if asked <= opened.storage.ledger.keys() else ""

    @staticmethod
    def next_looks(opened: Opened, stop: Stop) -> list[_NextLook]:
        """Return the next look at each claim that is open and has one left; before the first look,
        which is at all claims, that one.
        """
        found, trials = _Followed.of(opened, stop), opened.plan.trials
        taken, due = found.taken, stop.due(found.taken)
        widths = {one.claim.text: one.width for one in found.judged()} if due else {}
        return [
            _NextLook(
                text,
                stop.depth(taken, text),
                widths.get(text, 0.0),
                stop.needed(trials, taken, text),
            )
            for text in (due if taken else [""])
        ]

    @staticmethod
    def lock(opened: Opened) -> None:
        """Write every claim that the lock does not have yet into it, and the planned looks: the
        time, the digest of the plan, and whether the grid has results already.
        """
        lock, grid = Lock.load(opened.grid.path), opened.grid
        claims = [c for c in grid.claims if _locked(c, opened.plan, lock.entries) == UNLOCKED]
        names = [] if grid.stop is None else [grid.stop.told(grid.claims, opened.plan.metrics)]
        new = [_name(claim.written(opened.plan.metrics)) for claim in claims]
        new += [name for name in names if lock.get(name) is None]
        if not new:
            return
        wanted = {key for trial in opened.plan.trials for key in trial.evaluations.values()}
        done = wanted & opened.storage.ledger.keys()
        plan, time = digest(sorted(opened.plan.by_key))[:12], datetime.now(UTC)
        written = JudgedClaim.AFTER if done else JudgedClaim.BEFORE
        entry = f"{written}; {time.isoformat(timespec='seconds')}; plan {plan}"
        for name in new:
            lock = lock.with_(name, entry)
        lock.save()


class _NextLook(NamedTuple):
    """The next look at a claim, after so many, with the width of its interval and the trials that
    it needs, done or not. The first look is at all claims, and names none.
    """

    claim: str
    after: int
    width: float
    trials: list[Trial]


@dataclass(frozen=True)
class _Followed:
    """The claims of a grid with `stop` over the looks that were taken. What a look saw is what the
    runs with its seeds say, so that it can be shown again when there are more.
    """

    opened: Opened
    stop: Stop
    taken: list[tuple[int, PlannedLook]]  # with their numbers

    @classmethod
    def of(cls, opened: Opened, stop: Stop) -> _Followed:
        """Read the looks."""
        return cls(opened, stop, stop.taken(opened.plan.looks, opened.grid.claims, opened.storage))

    def tests(self, look: int) -> dict[str, tuple[Claim, ClaimTest]]:
        """Return all tests with the runs of a look (from 1), by their names."""
        opened, found = self.opened, {}
        plan, ledger = opened.plan, opened.storage.ledger.without_looks()
        seeds = {None, *range(self.stop.looks[look - 1])}
        of_look = [row for row in rows(plan, ledger) if row["seed"] in seeds]
        cells = Cell.grouped(of_look, plan.pivot, plan.measured)
        for claim in opened.grid.claims:
            for test in _tests(claim, cells, plan, ledger):
                base = test.entry.baseline
                sides = [test.entry.cell.key, base.key if base is not None else ""]
                name = f"{claim.text} [{digest([*sides, list(test.entry.name)])[:12]}]"
                found[name] = claim, _judged(claim, test, self.stop.difference, relative=False)
        return found

    def take(self, claim: str = "") -> str | None:
        """Take the next look, at one claim or at all that have had the fewest, and return what it
        answers in words; None where there is none.
        """
        names, questions = self.stop.questions(self.taken)
        due = self.stop.due(self.taken)
        depths = {text: self.stop.depth(self.taken, text) for text in due if claim in ("", text)}
        if self.taken and not depths:
            return None
        number = 1 + min(depths.values(), default=0)
        at = [text for text, depth in depths.items() if depth < number]
        tests = self.tests(number)
        asked = [n for n in (names[which] for which in questions.open) if Stop.claim_of(n) in at]
        asked = asked if self.taken else list(tests)
        seen = {n: one for n in asked if n in tests and (one := self._seen(*tests[n])) is not None}
        look = _recorded(seen, claim)
        names, after = self.stop.questions([*self.taken, (number, look)])
        left = [tests[names[which]][1].entry for which in after.open if names[which] in seen]
        cells = {side.key for one in left for side in (one.cell, one.baseline) if side is not None}
        found = replace(self, taken=[*self.taken, (number, look)]).judged()
        verdicts = {one.claim.text: (one.line, one.cells) for one in found}
        look = replace(look, cells=tuple(sorted(cells)), verdicts=verdicts)
        path = PlannedLook.path(self.opened.plan.looks, number, claim)
        # where it is there already, another driver saw the same
        self.opened.storage.files.create(path, seal(asdict(look)))
        new = {Stop.claim_of(names[which]) for which in after.answers.keys() - questions.answers}
        told = (one for one in found if not claim or one.claim.text in {claim, *new})
        return "\n".join(f"{one.says}: {one.claim.text}" for one in told)

    def judged(self) -> list[JudgedClaim]:
        """Return what the looks say about the claims."""
        names, questions = self.stop.questions(self.taken)
        answers = {names[which]: answer for which, answer in questions.answers.items()}
        claims = self.opened.grid.claims
        last = {claim.text: self.stop.depth(self.taken, claim.text) for claim in claims}
        every = {*last.values(), *(answer.look for answer in answers.values())} - {0}
        at = {look: self.tests(look) for look in every}
        ended: dict[str, list[tuple[int, ClaimTest]]] = {}
        for text, depth in last.items():
            for name in (name for name, (of, _) in at.get(depth, {}).items() if of.text == text):
                look = answers[name].look if name in answers else depth
                claim, test = at[look][name]
                test = self._at(claim, test, look, answers.get(name))
                ended.setdefault(text, []).append((look, test))
        lock, found = Lock.load(self.opened.grid.path).entries, []
        for claim in self.opened.grid.claims:
            own = ended.get(claim.text, [])
            verdict = _over([test for _, test in own])
            written = _locked(claim, self.opened.plan, lock).partition(";")[0]
            tests = tuple(test for _, test in own)
            told = self._told(verdict, max((look for look, _ in own), default=0))
            margin = self.stop.difference
            found.append(JudgedClaim(claim, verdict, tests, written, margin, False, told))
        return found

    def _told(self, verdict: Verdict, look: int) -> str:
        """Return the look of a verdict in words."""
        looks = self.stop.looks
        if look == 0:
            return "" if self.taken else f"(the first look is at {looks[0]} seeds)"
        told = f"look {look} of {len(looks)}, {looks[look - 1]} of {looks[-1]} seeds"
        return f"({told}{'; open' if verdict == 'cannot tell' and look < len(looks) else ''})"

    def _at(
        self, claim: Claim, test: ClaimTest, look: int, answer: EndedQuestion | None
    ) -> ClaimTest:
        """Return a test with its repeated confidence interval, and what its look answered."""
        difference, noise, chance = _noise(claim, test) or (0.0, None, False)
        if noise is None or not chance:
            low, high = test.low, test.high
        else:
            widest = test.entry.measured.limits[1] - test.entry.measured.limits[0]
            low, high = self.stop.planned.interval(difference, noise, look)
            low, high = max(low, -widest), min(high, widest)
        verdict: Verdict = "cannot tell"
        if answer is not None:
            up = (test.entry.difference or 0.0) * test.entry.measured.sign > 0
            if claim.margin is not None:
                verdict = "refuted" if answer.different else "held"
            elif answer.different:
                verdict = "held" if up else "refuted"
            else:
                verdict = NO_DIFFERENCE
        return replace(test, low=low, high=high, p=answer.p if answer else None, verdict=verdict)

    def _seen(self, claim: Claim, test: ClaimTest) -> Seen | None:
        """Return what a test sees; None where nothing is tested. Plans of looks that the lock has
        besides this one are earlier looks.
        """
        found = _noise(claim, test)
        if found is None or test.p is None:
            return None
        difference, noise, chance = found
        seen = Seen.of(difference, noise, test.margin, chance=chance)
        p = test.p
        if claim.margin is not None:
            beyond = abs(difference) - (math.inf if test.margin is None else test.margin)
            p = noise.p(beyond) if beyond > 0 else 1.0
        lock = Lock.load(self.opened.grid.path).entries
        plans = [entry for name, entry in lock.items() if name.startswith("stop:")]
        late = sum(entry.startswith(JudgedClaim.AFTER) for entry in plans)
        k = max(len(plans), 1 + late)
        within = None if seen.within is None else at_look(seen.within, k)
        return Seen(at_look(p, k), within, chance)


def _recorded(seen: Mapping[str, Seen], claim: str) -> PlannedLook:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    found = {name: (s.different, s.within, s.chance) for name, s in seen.items()}
    return PlannedLook(when, found, (), claim=claim)


def _noise(claim: Claim, test: ClaimTest) -> tuple[float, Noise, bool] | None:
    """Return the difference that a claim is about, its noise, and whether seeds change it."""
    found = test.entry.comparison
    if found is None or found.spread is None or test.low is None or test.high is None:
        return None
    chance, sample = bool(found.spread.trained), test.entry.over_languages
    if not claim.over_languages:
        return found.difference, found.spread.noise(), chance
    noise = sample.noise() if sample is not None else None
    return None if sample is None or noise is None else (sample.difference, noise, chance)


def _over(tests: Sequence[ClaimTest]) -> Verdict:
    """Return the verdict of a claim from those of its tests."""
    verdicts = [test.verdict for test in tests]
    order: tuple[Verdict, ...] = ("refuted", "cannot tell", NO_DIFFERENCE, "held")
    return next((one for one in order if one in verdicts), "not run")


def _name(sentence: str) -> str:
    return f"claim: {sentence}"


def _locked(claim: Claim, plan: Plan, lock: Mapping[str, str]) -> str:
    """Return what the lock has of a claim; earlier versions wrote the sentence alone."""
    return lock.get(_name(claim.written(plan.metrics)), lock.get(_name(claim.text), UNLOCKED))


def _asked(claim: Claim, plan: Plan) -> list[Trial]:
    """Return the trials that a claim is about, whether they have run or not."""
    trials = [
        trial
        for trial in plan.trials
        if claim.task in trial.evaluations and (trial.searched is None or trial.searched.confirmed)
    ]
    cells = {
        trial.cell: Cell(trial.method, trial.params, trial.encoder, trial.sentences, (), {})
        for trial in trials
    }
    where = f"claim {claim.text!r}"
    sides = (
        named_cells([*cells.values()], plan, one, where) for one in (claim.first, claim.second)
    )
    keys = {cell.key for side in sides for cell in side}
    return [trial for trial in trials if trial.cell in keys]


def _tests(
    claim: Claim, cells: Sequence[Cell], plan: Plan, ledger: Ledger | None
) -> Iterator[ClaimTest]:
    """Yield the tests of one claim: one per encoder and number of sentences that have results."""
    metric = claim.metric or plan.main_metric(claim.task)
    where = f"claim {claim.text!r}"
    firsts = named_cells(cells, plan, claim.first, where)
    seconds = named_cells(cells, plan, claim.second, where)
    if metric is None or not firsts or not seconds:
        return
    splits = {name[3] for cell in firsts for name in cell.values if name[0] == claim.task}
    table = (claim.task, metric, "test" if "test" in splits else "dev")
    both = list({id(cell): cell for cell in (*firsts, *seconds)}.values())
    for entry in comparisons(both, plan, ledger, baseline=claim.second, tables=[table]):
        base, wanted = entry.baseline, None if claim.lang else entry.cell.mean_name(*table)
        if wanted is not None and base is not None and base.set != entry.cell.set:
            wanted = (table[0], Cell.ALL_TARGETS, *table[1:])  # the mean over the same languages
        lang = entry.name[1].removesuffix(f"-{plan.pivot}")
        asked = entry.name == wanted if claim.lang is None else claim.lang in (entry.name[1], lang)
        if asked and base is not None and any(entry.cell is one for one in firsts):
            test = entry.over_languages if claim.over_languages else entry.comparison
            low, high, p = (test.low, test.high, test.p) if test else (None, None, None)
            yield ClaimTest(entry, low, high, p, _chance(entry, plan))


def _chance(entry: Compared, plan: Plan) -> float | None:
    """Return what guessing gets: what the task declares, one of the candidates of an accuracy whose
    pairs are counted (there are at least as many), or the lowest value that there can be.
    """
    task, _, metric, split = entry.name
    if metric == plan.main_metric(task) and (declared := plan.guessing(task)) is not None:
        return declared
    langs = entry.cell.languages_of(entry.name, plan.pivot)
    names = [(task, each, plan.count_of(task, metric), split) for each in langs]
    counts = [entry.cell.values[name].mean for name in names if name in entry.cell.values]
    if counts and metric.startswith(_COUNTED):
        return math.fsum(1 / count for count in counts) / len(counts)
    lowest = entry.measured.limits[0]
    return lowest if math.isfinite(lowest) else None


def _judged(
    claim: Claim, test: ClaimTest, equivalence: float | None, *, relative: bool
) -> ClaimTest:
    """Return a test with its margin and what follows from it."""
    own = claim.margin is not None
    given, share = (claim.margin, claim.relative) if own else (equivalence, relative)
    whole = test.reach if share else 100 / test.entry.measured.scale
    margin = None if given is None or whole is None else given / 100 * whole
    return replace(test, margin=margin, verdict=_verdict(claim, test, margin))


def _verdict(claim: Claim, test: ClaimTest, margin: float | None) -> Verdict:
    if test.low is None or test.high is None or test.p is None:
        return "cannot tell"
    inside = lies_within(test.low, test.high, margin)
    if claim.margin is not None:
        if margin is None:
            return "cannot tell"
        beyond = test.low > margin or test.high < -margin
        return "held" if inside else "refuted" if beyond and test.p < LEVEL else "cannot tell"
    if test.p >= LEVEL:
        return NO_DIFFERENCE if inside else "cannot tell"
    up = (test.entry.difference or 0.0) * test.entry.measured.sign > 0
    return "held" if up else "refuted"


def _claim_test(test: ClaimTest, found: JudgedClaim) -> str:
    """The difference of one test with its interval, and which of several tests it is."""
    entry = test.entry
    unit = NumberFormat.of(entry.measured, [entry.value.mean])
    encoder = entry.cell.encoder if len({t.entry.cell.encoder for t in found.tests}) > 1 else ""
    size = f"{entry.cell.sentences:,} pairs" if entry.cell.sentences else ""
    where = ", ".join(filter(None, [encoder, size]))
    several = f"{where}: " if where and (len(found.tests) > 1 or found.done < found.planned) else ""
    second = entry.baseline_value
    if second is None or entry.difference is None or test.low is None or test.high is None:
        sample = entry.over_languages
        why = sample.untested if found.claim.over_languages and sample else entry.untested
        return f"{several}not tested: {why}"
    chance = "" if test.chance is None else f" (chance {unit.show(test.chance)})"
    levels = f"{unit.show(entry.value.mean)} against {unit.show(second.mean)}{chance}"
    ends = f"{unit.show_difference(test.low)} to {unit.show_difference(test.high)}"
    p = "" if test.p is None else f", p {test.p:.4f}" if test.p >= 0.0001 else ", p <0.0001"
    seen, sample = "", entry.over_languages
    if found.verdict == "cannot tell":
        of = sample.detectable if found.claim.over_languages and sample else entry.detectable_among
        smallest, others = of(test.among), f" among {test.among} tests" if test.among > 1 else ""
        seen = f"; {MINIMUM}{others}: {unit.show(smallest)}" if smallest else ""
    told = f"{unit.show_difference(entry.difference)}, 95 % CI: {ends}{p}{seen}"
    return f"{several}{levels}: {told}"
