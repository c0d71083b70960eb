"""Plan and ledger -> rows, one per value, as `results --format json` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.plan.trial import Trial
    from raxalign.store.ledger import Ledger


def rows(plan: Plan, ledger: Ledger) -> list[dict[str, Any]]:
    """Return all values that the ledger has for a plan, in the order of its trials and tasks.

    An evaluation that several trials share appears under each of them. The task's name is the
    plan's: the same evaluation may be called differently by another grid.
    """
    return rows_of(plan, read_records(plan, ledger))


def read_records(plan: Plan, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Read the records of a plan's evaluations that the ledger has, by their keys."""
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    return ledger.read_many(sorted(wanted & ledger.keys()))


def rows_of(plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the records of a plan, as `rows` does."""
    return [row for trial in plan.trials for row in trial_rows(trial, records)]


def trial_rows(trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one trial, from those of its evaluations that have a record."""
    for task, key in trial.evaluations.items():
        record = records.get(key)
        for score in record["scores"] if record else ():
            yield {
                "trial": trial.key,
                "method": trial.method,
                "params": dict(trial.params),
                "encoder": trial.encoder,
                "languages": list(trial.languages),
                "sentences": trial.sentences,
                "seed": trial.seed,
                "task": task,
                "task_params": record["params"] if record else {},
                "lang": score["lang"],
                "metric": score["metric"],
                "split": score["split"],
                "value": score["value"],
                "evaluation": key,
            }


def metric_name(task: str, lang: str, metric: str, split: str) -> str:
    """Write ``task/lang/metric``. Values on a dev set are marked, so that they are not mistaken for
    test results.
    """
    return f"{task}/{lang}/{metric}" if split == "test" else f"{task}/{lang}/{split}_{metric}"
