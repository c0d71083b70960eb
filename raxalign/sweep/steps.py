"""What is missing of a plan, as the steps of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.stages import TRAINED
from raxalign.sweep.job import Job
from raxalign.sweep.order import Needs, Step
from raxalign.sweep.stage import trains


def steps_of(
    plan: Plan,
    stages: list[str],
    trials: list[Trial],
    job: Job,
    seconds: Mapping[tuple[str, str], float],
) -> list[Step]:
    """Return missing stages and pending trials as steps, inputs first.

    Args:
        plan: The plan.
        stages: The keys of the missing shared stages, inputs first.
        trials: The pending trials.
        job: What a worker holds, and how many work on a training trial.
        seconds: The mean time by stage kind and maker, where it is known.
    """
    shared = set(stages)
    usual = math.fsum(seconds.values()) / len(seconds) if seconds else 1.0

    def cost(key: str) -> float:
        stage = plan.stages[key]
        return seconds.get((stage.kind, stage.maker), usual)

    found = []
    for key in stages:
        inputs = shared.intersection(plan.closure([key])) - {key}
        needs = Needs.WORKER if trains(plan, key) else Needs.CPUS
        found.append(Step(key, False, frozenset(inputs), cost(key), needs))
    for trial in trials:
        evaluations = list(trial.evaluations.values())
        closure = plan.closure(evaluations)
        own = [key for key in closure if key not in shared and plan.stages[key].kind in TRAINED]
        needs = Needs.GROUP if job.workers > 1 and plan.trains(trial) else Needs.WORKER
        parts = tuple(dict.fromkeys([*own, *evaluations]))
        total, read = math.fsum(map(cost, parts)), frozenset(shared.intersection(closure))
        found.append(Step(trial.key, True, read, total, needs, parts))
    return found
