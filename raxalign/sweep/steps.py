"""What is missing of a plan, as the steps of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.stages import TRAINED
from raxalign.sweep.job import Job
from raxalign.sweep.order import Needs, Step
from raxalign.sweep.remaining import Expected
from raxalign.sweep.stage import trains


def steps_of(plan: Plan, stages: list[str], trials: list[Trial], job: Job) -> list[Step]:
    """Return missing stages and pending trials as steps, inputs first, without their costs.

    Args:
        plan: The plan.
        stages: The keys of the missing shared stages, inputs first.
        trials: The pending trials.
        job: What a worker holds, and how many work on a training trial.
    """
    shared, found = set(stages), list[Step]()
    for key in stages:
        inputs = shared.intersection(plan.closure([key])) - {key}
        needs = Needs.WORKER if trains(plan, key) else Needs.CPUS
        found.append(Step(key, is_trial=False, inputs=frozenset(inputs), needs=needs))
    for trial in trials:
        evaluations = list(trial.evaluations.values())
        closure = plan.closure(evaluations)
        own = [key for key in closure if key not in shared and plan.stages[key].kind in TRAINED]
        needs = Needs.GROUP if job.workers > 1 and plan.trains(trial) else Needs.WORKER
        parts = tuple(dict.fromkeys([*own, *evaluations]))
        read = frozenset(shared.intersection(closure))
        found.append(Step(trial.key, is_trial=True, inputs=read, needs=needs, parts=parts))
    return found


def with_costs(steps: Iterable[Step], expected: Iterable[Expected]) -> list[Step]:
    """Return steps with the times that are expected of them, which are given in their order."""
    pairs = zip(steps, expected, strict=True)
    return [replace(step, cost=times.seconds) for step, times in pairs]
