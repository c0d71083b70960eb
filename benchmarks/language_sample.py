"""How often equal systems are called different over languages like these, and how often intervals
hold the truth: planted runs, tested with the project's own functions.

usage: python -m benchmarks.language_sample [ROUNDS]

In each round languages are drawn, in which the true difference of two systems varies; then the
examples, the same in all languages or others in each; then training runs, which move all
languages alike and each by itself. The mean of the true differences over all possible languages
is 0.

Budgets, for every setting: at most 5.5 % of equal systems have p < .05, and 93.5 to 96.5 % of
intervals hold the truth. With fewer than 3,000 rounds, chance alone would take some setting beyond
a budget, so that the means over all settings count. The noise is the standard error of the share.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.table import Row, at_least, at_most, show
from raxalign.analysis.power import LanguageSample
from raxalign.analysis.significance import LEVEL, Runs

ROUNDS = 10_000
ENOUGH = 3000  # rounds with which each setting is judged by itself
MOST_FALSE, LEAST_HELD, MOST_HELD = 0.055, 0.935, 0.965
_ACCURACY, _EXAMPLES = 0.7, 200


@dataclass(frozen=True)
class Setting:
    """How many languages and runs (0: without chance), whether languages share their examples, and
    in points the standard deviations of the true difference over languages, of a run over all
    languages, and of a run in one language.
    """

    languages: int
    runs: int
    shared: bool
    sd_language: float = 3.0
    sd_run: float = 1.0
    sd_both: float = 0.5

    def __str__(self) -> str:
        runs = f"{self.runs} runs, sd {self.sd_run:g}" if self.runs else "no runs"
        examples = "shared" if self.shared else "different"
        return f"{self.languages:2} languages, sd {self.sd_language:g}, {runs}, {examples} examples"


SETTINGS = tuple(
    Setting(languages, runs, shared)
    for languages in (4, 8, 20)
    for runs in (0, 3, 5)
    for shared in (True, False)
)


def main() -> None:
    """Print a line per setting, and whether the budgets are met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    false, held = {}, {}
    for setting in SETTINGS:
        tests = [planted_test(setting, rng) for rng in _rngs(setting, rounds)]
        false[setting] = float(np.mean([(test.p or 0.0) < LEVEL for test in tests]))
        held[setting] = float(np.mean([_holds(test, 0.0) for test in tests]))
        shown = f"{100 * false[setting]:.1f} % false, {100 * held[setting]:.1f} % held"
        print(f"{setting}: {shown}", flush=True)
    error = (LEVEL * (1 - LEVEL) / rounds) ** 0.5
    what = f"languages as a sample: {{}}, {{}} of {len(SETTINGS)} settings, {rounds:,} rounds"
    few = rounds < ENOUGH
    judged = (
        ("equal systems with p < .05", "largest", max(false.values()), at_most(MOST_FALSE)),
        ("intervals that hold", "smallest", min(held.values()), at_least(LEAST_HELD)),
        ("intervals that hold", "largest", max(held.values()), at_most(MOST_HELD)),
    )
    for name, extreme, value, budget in judged:
        shares = false if "equal" in name else held
        value = sum(shares.values()) / len(shares) if few else value
        row = what.format(name, "mean" if few else extreme)
        show(Row(row, value, budget, error / value, "planted languages"))


def _holds(test: LanguageSample, truth: float) -> bool:
    assert test.low is not None
    assert test.high is not None
    return test.low <= truth <= test.high


def _rngs(setting: Setting, rounds: int) -> Sequence[np.random.Generator]:
    numbers = [setting.languages, setting.runs, setting.shared, round(10 * setting.sd_language)]
    return [np.random.default_rng([*numbers, number]) for number in range(rounds)]


def planted_test(setting: Setting, rng: np.random.Generator, truth: float = 0.0) -> LanguageSample:
    """Return the test of two systems whose true difference is `truth` over languages."""
    true = truth + setting.sd_language / 100 * rng.standard_normal(setting.languages)
    noise = rng.standard_normal((1 if setting.shared else setting.languages, _EXAMPLES))
    sides = [_side(setting, levels, noise, rng) for levels in (-true / 2, true / 2)]
    return LanguageSample.of(*sides)


def _side(
    setting: Setting, levels: np.ndarray, noise: np.ndarray, rng: np.random.Generator
) -> list[Runs]:
    """One system's runs in each language: an example has a score, of which .5 is what all systems
    share, .2 what the languages of this system share, and the rest is the run's and the language's.
    """
    languages, runs = setting.languages, max(setting.runs, 1)
    moved = np.zeros((languages, runs))
    if setting.runs:
        moved += setting.sd_run / 100 * rng.standard_normal((1, runs))
        moved += setting.sd_both / 100 * rng.standard_normal((languages, runs))
    score = 0.5**0.5 * noise[:, None] + 0.2**0.5 * rng.standard_normal((len(noise), 1, _EXAMPLES))
    score = score + 0.15**0.5 * rng.standard_normal((languages, 1, _EXAMPLES))
    score = score + 0.15**0.5 * rng.standard_normal((languages, runs, _EXAMPLES))
    score *= 0.4  # an answer is a number around the level, as an F1 or a rank is
    answers = _ACCURACY + levels[:, None, None] + moved[:, :, None] + score
    found = []
    for number, part in enumerate(answers):
        values = part.mean(1)
        units = np.arange(_EXAMPLES) + (0 if setting.shared else number * _EXAMPLES)
        influences = (part - values[:, None]) / _EXAMPLES
        found.append(Runs(tuple(range(runs)), values, units, influences, setting.runs > 0))
    return found


if __name__ == "__main__":
    main()
