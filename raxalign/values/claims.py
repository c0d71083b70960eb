"""What became of a grid's claims: each tested on the grid's results, and whether it was written
down before there were any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Literal

from raxalign.analysis.cells import MEANS, Cell
from raxalign.analysis.significance import LEVEL, holm, lies_within
from raxalign.grid.file import Claim
from raxalign.grid.load import Opened
from raxalign.grid.lock import Lock
from raxalign.grid.plan import Plan
from raxalign.store.key import digest
from raxalign.store.ledger import Ledger
from raxalign.values.comparisons import Compared, comparisons, named_cells
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

    @property
    def reach(self) -> float | None:
        """How far the value of the second method is from chance."""
        second = self.entry.baseline_value
        return None if second is None or self.chance is None else abs(second.mean - self.chance)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its tests, what follows, and when it was written down; `equivalence` is the
    smallest difference that matters, in points or in the metric's unit, or, where it is
    `relative`, in percent of how far the second method is from chance (None: not given).
    """

    BEFORE: ClassVar = "before the first result"
    AFTER: ClassVar = "written after there were results"
    claim: Claim
    verdict: Verdict
    tests: tuple[ClaimTest, ...]
    written: str
    equivalence: float | None = None
    relative: bool = False

    @property
    def says(self) -> str:
        """The verdict in words."""
        unit = " % of the distance from chance" if self.relative else ""
        return self.verdict + (
            f" above {self.equivalence:g}{unit}" if self.verdict == NO_DIFFERENCE else ""
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
        if not claims:
            return []
        cells = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
        tests = [list(_tests(claim, cells, plan, ledger)) for claim in claims]
        every = [test for several in tests for test in several]
        adjusted = iter(holm([t.entry.at_look(t.p) for t in every if t.p is not None]))
        lock, found = Lock.load(opened.grid.path).entries, []
        for claim, several in zip(claims, tests, strict=True):
            known = [replace(t, p=next(adjusted)) if t.p is not None else t for t in several]
            own = tuple(_judged(claim, test, equivalence, relative=relative) for test in known)
            verdicts = [test.verdict for test in own]
            order: tuple[Verdict, ...] = ("refuted", "cannot tell", NO_DIFFERENCE, "held")
            verdict: Verdict = next((one for one in order if one in verdicts), "not run")
            written = lock.get(_name(claim), UNLOCKED).partition(";")[0]
            found.append(cls(claim, verdict, own, written, equivalence, relative))
        return found

    @staticmethod
    def lock(opened: Opened) -> None:
        """Write every claim that the lock does not have yet into it: the time, the digest of the
        plan, and whether the grid has results already.
        """
        lock = Lock.load(opened.grid.path)
        new = [claim for claim in opened.grid.claims if lock.get(_name(claim)) is None]
        if not new:
            return
        wanted = {key for trial in opened.plan.trials for key in trial.evaluations.values()}
        done = wanted & opened.storage.ledger.keys()
        plan, time = digest(sorted(opened.plan.by_key))[:12], datetime.now(UTC)
        written = JudgedClaim.AFTER if done else JudgedClaim.BEFORE
        entry = f"{written}; {time.isoformat(timespec='seconds')}; plan {plan}"
        for claim in new:
            lock = lock.with_(_name(claim), entry)
        lock.save()


def _name(claim: Claim) -> str:
    return f"claim: {claim.text}"


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
    task, lang, metric, split = entry.name
    if metric == plan.main_metric(task) and (declared := plan.guessing(task)) is not None:
        return declared
    langs = entry.cell.languages_of(entry.name, plan.pivot) if lang in MEANS else [lang]
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
