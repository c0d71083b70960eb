"""How often a grid that ends its questions at looks gives a false verdict, how many differences it
finds, how often its intervals hold the truth, and how many seeds it takes: planted runs, tested
with the project's own functions.

usage: python -m benchmarks.sequential [ROUNDS] [SETTING...]

Systems are compared with one baseline, a question each: is there a difference, and is it within 2
points? Settings differ in the number of examples, in how much runs differ, in whether the baseline
is deterministic, and in the number of questions and their true differences. Each is looked at by
all plans of looks, and by a fixed design: one look at the most seeds of the plan. Values are drawn
as a mean over many examples has them, with what examples add to all runs and to each. A verdict is
false where a difference is called real that is 0 or has the other sign, and where one of 2 points
or more is called none; a round is false where a verdict is.

Budgets: at most 5 % of rounds are false; at least 94 % of the intervals at the look where a
question ended hold the truth; and of differences, at most 2 points fewer are found than by the
fixed design, for plans whose looks are `APART`. There are so many settings and plans that random
variation alone takes some beyond a budget: what is judged is the furthest of them less three
standard errors, and with fewer than 500 rounds the mean. Settings of many questions have a quarter
of the rounds. Numbers of settings, from 0, run these alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.table import Budget, Row, at_least, at_most, show
from raxalign.analysis.sequential import PlannedLooks, PlannedQuestions, Seen
from raxalign.analysis.significance import Noise, Spread, TrainedSide

ROUNDS = 200
ENOUGH = 500  # rounds with which the furthest setting is judged
MOST_FALSE, MOST_LOST, LEAST_HELD = 0.05, 0.02, 0.94
MARGIN = 2.0  # points
APART = ((3, 9), (3, 5, 9), (2, 5, 10), (3, 5, 8, 12), (2, 3, 5, 9, 15))
PLANS = (*APART, (2, 3), (2, 3, 4, 5, 6), (3, 6, 9, 12, 15), (5, 6, 7, 8, 9))
MOST_SEEDS = max(plan[-1] for plan in PLANS)
_EXAMPLE, _SHARED, _OWN = 46.0, 0.3, 0.25  # sd of an answer in points; parts of a system, of a run


@dataclass(frozen=True)
class Setting:
    """The number of examples, in points how much runs differ, whether the baseline is
    deterministic, and in points the true difference of each question.
    """

    examples: int
    sd: float
    fixed: bool
    truths: tuple[float, ...]

    def __str__(self) -> str:
        counts = {truth: self.truths.count(truth) for truth in self.truths}
        asked = " + ".join(f"{count} of {truth:g}" for truth, count in counts.items())
        baseline = "deterministic" if self.fixed else "trained"
        return f"{self.examples:5,} examples, sd {self.sd:g}, {baseline} baseline: {asked}"


SETTINGS = (
    *(
        Setting(examples, sd, fixed, (truth,))
        for truth in (0.0, MARGIN)
        for examples in (500, 5000)
        for sd in (0.0, 0.5, 1.0, 2.0)
        for fixed in (False, True)
    ),
    *(
        Setting(examples, sd, fixed, (truth,))
        for fixed in (False, True)
        for examples, sd, truth in ((5000, 0.5, 1.5), (5000, 1.0, 2.0), (5000, 2.0, 4.0))
        for truth in (truth, 1.5 * truth)
    ),
    Setting(500, 0.5, False, (6.0,)),
    Setting(5000, 0.5, False, (0.5,)),
    *(Setting(5000, sd, fixed, (0.0,) * 12) for sd in (0.5, 2.0) for fixed in (False, True)),
    *(Setting(5000, sd, fixed, (MARGIN,) * 12) for sd in (0.0, 0.5) for fixed in (False, True)),
    *(Setting(5000, sd, False, (MARGIN,) * 6 + (0.0,) * 6) for sd in (0.0, 0.5)),
    Setting(5000, 1.0, False, (4.0,) * 6 + (0.0,) * 6),
    Setting(5000, 0.5, True, (4.0, 2.0, 0.0)),
)


@dataclass
class Planted:
    """One round of a setting: values of all runs, and what they show at some number of seeds."""

    setting: Setting
    rng: np.random.Generator
    _seen: dict[tuple[int, int], tuple[float, Noise]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.setting.truths) + 1
        self._system, self._run = (
            part * _EXAMPLE**2 / self.setting.examples for part in (_SHARED, _OWN)
        )
        values = self.rng.standard_normal((count, MOST_SEEDS)) * self.setting.sd
        values += self.rng.standard_normal((count, MOST_SEEDS)) * self._run**0.5
        if self.setting.fixed:
            values[0] = 0.0
        values += self.rng.standard_normal((count, 1)) * self._system**0.5
        values += np.array([0.0, *self.setting.truths])[:, None]
        self._values = values
        freedom = self.setting.examples - 1
        self._scales = self.rng.chisquare(freedom, count - 1) / freedom

    def at(self, which: int, seeds: int) -> tuple[float, Noise]:
        """Return the difference of a question and its noise, with so many seeds."""
        if (which, seeds) not in self._seen:
            scale, sides, examples = self._scales[which], [], 2 * self._system
            for row in (which + 1, 0):
                if row == 0 and self.setting.fixed:
                    continue
                within, run = self._run * scale / seeds, self._values[row, :seeds]
                examples += self._run / seeds
                sides.append(TrainedSide(seeds, float(run.var(ddof=1)) / seeds, within))
            spread = Spread(examples * scale, self.setting.examples, tuple(sides))
            means = self._values[:, :seeds].mean(1)
            self._seen[which, seeds] = float(means[which + 1] - means[0]), spread.noise()
        return self._seen[which, seeds]

    def judge(self, plan: Sequence[int], margin: float = MARGIN) -> Outcome:
        """Ask all questions by a plan of looks."""
        truths, found = self.setting.truths, Outcome()
        asked = PlannedQuestions(PlannedLooks(tuple(plan)), len(truths))
        for number, seeds in enumerate(plan, start=1):
            before = asked.open
            asked.look(number, {which: Seen.of(*self.at(which, seeds), margin) for which in before})
            ended = before if number == len(plan) else set(before) - set(asked.open)
            for which in ended:
                difference, noise = self.at(which, seeds)
                found.seeds += seeds
                found.held += noise.p(difference - truths[which]) >= asked.looks.level(number)
                answer = asked.answers.get(which)
                if answer is not None and answer.different:
                    found.real += difference * truths[which] > 0
                    found.false = max(found.false, difference * truths[which] <= 0)
                elif answer is not None:
                    found.none += 1
                    found.false = max(found.false, abs(truths[which]) >= margin)
        return found


@dataclass
class Outcome:
    """What a plan of looks gave: whether a verdict was false, and the numbers of right differences,
    of questions without one, of intervals that hold the truth, and of seeds.
    """

    false: float = 0.0
    real: float = 0.0
    none: float = 0.0
    held: float = 0.0
    seeds: float = 0.0


def simulated(
    setting: Setting, rounds: int, plans: Sequence[tuple[int, ...]] = PLANS
) -> Mapping[tuple[int, ...], Outcome]:
    """Return what plans, and the fixed designs of their last looks, give in a setting: shares of
    rounds that are false, and shares of questions.
    """
    every = list(dict.fromkeys([*plans, *(plan[-1:] for plan in plans)]))
    total = {plan: Outcome() for plan in every}
    numbers = [setting.examples, setting.sd, setting.fixed, *setting.truths]
    for number in range(rounds):
        seed = [number, *(round(10 * one) for one in numbers)]
        planted = Planted(setting, np.random.default_rng(seed))
        for plan in every:
            found, of_plan = planted.judge(plan), total[plan]
            of_plan.false += found.false / rounds
            for name in ("real", "none", "held", "seeds"):
                share = getattr(found, name) / rounds / len(setting.truths)
                setattr(of_plan, name, getattr(of_plan, name) + share)
    return total


def main() -> None:
    """Print a line per setting and plan of looks, and the budgets."""
    given, start = [int(number) for number in sys.argv[1:]], time.process_time()
    rounds = given[0] if given else ROUNDS
    false, held, lost = [], [], []
    for number, setting in enumerate(SETTINGS):
        if given[1:] and number not in given[1:]:
            continue
        own = max(rounds // (4 if len(setting.truths) > 3 else 1), 1)
        found = simulated(setting, own)
        print(f"{number:2} {setting}  ({own:,} rounds)")
        for plan in PLANS:
            print(f"   {_line(found[plan], found[plan[-1:]], plan)}", flush=True)
            false.append((found[plan].false, own))
            held.append((found[plan].held, own))
            if plan in APART:
                lost.append((found[plan[-1:]].real - found[plan].real, own))
    print(f"{time.process_time() - start:.0f} core-seconds")
    _judge("rounds with a false verdict", false, at_most(MOST_FALSE))
    _judge("intervals that hold the truth", held, at_least(LEAST_HELD))
    _judge("differences that are lost to the fixed design", lost, at_most(MOST_LOST))


def _line(found: Outcome, fixed: Outcome, plan: Sequence[int]) -> str:
    """The line of a plan of looks, with what the fixed design gives in brackets."""
    several = (
        f"{name} {100 * getattr(found, part):5.1f} % ({100 * getattr(fixed, part):5.1f})"
        for name, part in (
            ("false", "false"),
            ("found", "real"),
            (f"none above {MARGIN:g}", "none"),
            ("held", "held"),
        )
    )
    return f"{'/'.join(map(str, plan)):12} {', '.join(several)}, {found.seeds:.1f} seeds"


def _judge(what: str, cells: Sequence[tuple[float, int]], budget: Budget) -> None:
    """Show the cell that is furthest beyond a budget, three standard errors towards it."""
    sign, ends = -1 if budget.least else 1, []
    if max(rounds for _, rounds in cells) < ENOUGH:
        mean = sum(share * rounds for share, rounds in cells) / sum(rounds for _, rounds in cells)
        what = f"{what}, mean of {len(cells)} settings and plans"
        show(Row(what, mean, budget, None, "planted questions"))
        return
    for share, rounds in cells:
        error = (max(abs(share), 1 / rounds) * (1 - abs(share)) / rounds) ** 0.5
        ends.append((sign * (share - sign * 3 * error), share, error))
    end, share, error = max(ends)
    print(f"{what}: the furthest cell has {share:.4f}, with a standard error of {error:.4f}")
    what = f"{what}, less three standard errors: furthest of {len(cells)} settings and plans"
    show(Row(what, sign * end, budget, error / max(abs(share), error), "planted questions"))


if __name__ == "__main__":
    main()
