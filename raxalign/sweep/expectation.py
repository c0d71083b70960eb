"""What the steps of a sweep are expected to take, before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raxalign.plan.estimates.cost import roughly
from raxalign.plan.estimates.forecast import forecast
from raxalign.plan.estimates.speed import core_speed, crowd, start_seconds, worker_speed
from raxalign.plan.estimates.work import family
from raxalign.plan.plan import Plan
from raxalign.sweep.job import Job
from raxalign.sweep.order import Step
from raxalign.sweep.remaining import Expected


def expected_steps(
    plan: Plan, steps: Sequence[Step], took: Mapping[str, float], job: Job
) -> list[Expected]:
    """Return the steps with their times: those of a trial are the times of all that it makes.

    Args:
        plan: The plan.
        steps: The steps, inputs first.
        took: What some stages and evaluations took, by key.
        job: What a worker holds.
    """
    parts = {step.key: step.parts if step.is_trial else (step.key,) for step in steps}
    left = dict.fromkeys(key for keys in parts.values() for key in keys)
    speed = worker_speed(job.threads * job.workers, gpu=job.gpus > 0)
    found = forecast(plan, took, left, speed)
    usual = found.total / len(found.seconds) if found.seconds else 1.0
    return [
        Expected(
            step.key,
            _group(plan, step),
            sum(found.seconds.get(key, usual) for key in parts[step.key]),
            step.inputs,
            "model" if step.is_trial else family(plan, step.key),
        )
        for step in steps
    ]


def first_estimate(seconds: float, workers: int) -> str:
    """Return in words when a sweep ends whose steps take so many seconds on a quiet machine, from
    the start of its workers on. Other work on this machine is named and not counted, since nobody
    knows how long it lasts.
    """
    whole = seconds + start_seconds(core_speed(), ray=False)
    note = crowd().note(workers)
    busy = f" ({note})" if note else ""
    return f"about {roughly(whole)} from now, by the size of the work{busy}"


def _group(plan: Plan, step: Step) -> str:
    if step.is_trial:
        return plan.by_key[step.key].method
    stage = plan.stages[step.key]
    return f"{stage.kind} {stage.maker}"
