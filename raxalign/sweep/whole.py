"""A whole grid: the trials that it names, then its searches. Imports Ray only when something is
left to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.errors import RaxalignError
from raxalign.plan.checks.bitexts import shortages
from raxalign.plan.load import Opened
from raxalign.plan.plan import Plan
from raxalign.plan.tried import is_over
from raxalign.sweep import grid

if TYPE_CHECKING:
    from raxalign.plan.study import Study


@dataclass(frozen=True)
class Ended:
    """How a grid ended: the plan of what was run, trials done now and before, failures (trial key
    -> message), and messages for the user.
    """

    plan: Plan
    done: int
    cached: int
    failed: Mapping[str, str]
    messages: Sequence[str] = ()


def run_whole(opened: Opened, plan: Plan, studies: Sequence[Study]) -> Ended:
    """Run what the ledger lacks of a plan, then the studies, and copy all of it to MLflow. What
    dead processes left half-written in the storage is removed first, also where nothing is left to
    run.
    """
    opened.storage.artifacts.sweep_temporaries()
    named = _run_named(opened, plan) if plan.trials else Ended(plan, 0, 0, {})
    if not studies:
        return named
    there, whole, local = opened.storage.ledger.keys(), opened.plan, opened.storage.local
    if all(is_over(whole, opened.storage, study, there) for study in studies):
        messages = (*named.messages, *grid.finish_tracking(opened, whole, local))
        return Ended(whole, named.done, whole.cached(there) - named.done, named.failed, messages)
    found = grid.run_searches(opened, studies)
    failed, whole = {**named.failed, **found.failed}, found.opened.plan
    done = named.done + found.ran
    cached = whole.cached(opened.storage.ledger.keys()) - done
    return Ended(whole, done, max(cached, 0), failed, (*named.messages, *found.messages))


def _run_named(opened: Opened, plan: Plan) -> Ended:
    cached = plan.cached(opened.storage.ledger.keys())
    if cached == len(plan.trials):
        return Ended(plan, 0, cached, {}, grid.finish(opened, plan))
    if short := shortages(plan):
        raise RaxalignError("\n".join(short))
    ended, messages = grid.run(opened, plan)
    return Ended(plan, ended.done, ended.cached, ended.failed, messages)
