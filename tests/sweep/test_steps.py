"""What is missing of a plan, as steps: what each needs, and how long its chain is."""

from __future__ import annotations

from dataclasses import replace

from raxalign.plan.cost import mean_seconds, sampled_seconds
from raxalign.store.ledger import Ledger
from raxalign.sweep.order import Needs
from raxalign.sweep.steps import steps_of
from tests.sweep.test_running import write


def test_training_trials_are_groups_where_workers_are_several(plan, job) -> None:
    trains = replace(job, workers=2)
    steps = steps_of(plan, [], list(plan.trials), trains, {})
    assert {step.needs for step in steps} == {Needs.WORKER}
    assert not any(plan.trains(trial) for trial in plan.trials)


def test_chains_are_as_long_as_the_times_that_the_storage_knows(plan, job) -> None:
    done, other = plan.trials
    write(job, done)
    took = sampled_seconds(plan, job.root, Ledger(job.root).keys())
    seconds = mean_seconds(plan, took)
    assert set(seconds.values()) == {2.0}
    (step,) = steps_of(plan, [], [other], job, {**seconds, ("aligned", other.kind): 5.0})
    assert step.cost == 2.0 * len(other.evaluations) + 5.0
