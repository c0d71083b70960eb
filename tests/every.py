"""Which cases run: some by default, all of them under RAXALIGN_TEST_ALL (``make test-all``), those
of eflomal where it is installed; and which trials of a grid."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import pytest

from raxalign.grid.plan import Plan
from raxalign.pairing.aligners.eflomal import Eflomal

T = TypeVar("T")

EVERY = bool(os.environ.get("RAXALIGN_TEST_ALL"))
"""Whether all cases run."""

needs_eflomal = pytest.mark.skipif(
    bool(Eflomal(Eflomal.Params()).missing()),
    reason="eflomal is not installed: `make setup` found no C compiler",
)


def in_turn(cases: Iterable[T], turn: int) -> list[T]:
    """Return one of several cases that share the code under test; tests beside each other give
    other turns, so that each case is met by some of them.
    """
    every = list(cases)
    return every if EVERY else [every[turn % len(every)]]


def one_of_each(plan: Plan, *, whole: bool = False) -> Plan:
    """Return a trial of each method on each encoder, and one of each task that none of these has:
    with all of their tasks if `whole`, else with so many in turn that each task is evaluated.
    """
    evaluated = [trial for trial in reversed(plan.trials) if trial.evaluations]
    first = {(trial.method, trial.encoder): trial for trial in evaluated}
    there = {task for trial in first.values() for task in trial.evaluations}
    others = {t: trial for trial in evaluated for t in trial.evaluations if t not in there}
    trials = [*first.values(), *{trial.key: trial for trial in others.values()}.values()]
    if whole:
        return plan.only(trials)
    tasks = list(dict.fromkeys(task for trial in trials for task in trial.evaluations))
    chosen: dict[str, dict[str, str]] = {trial.key: {} for trial in trials}
    for number in range(max(len(trials), len(tasks))):
        task = tasks[number % len(tasks)]
        able = [trial for trial in trials if task in trial.evaluations]
        trial = min(able, key=lambda trial: len(chosen[trial.key]))
        chosen[trial.key][task] = trial.evaluations[task]
    for trial in trials:
        if not chosen[trial.key]:
            chosen[trial.key] = dict(list(trial.evaluations.items())[:1])
    return replace(
        plan, trials=tuple(replace(trial, evaluations=chosen[trial.key]) for trial in trials)
    )
