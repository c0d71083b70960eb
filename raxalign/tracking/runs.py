"""What a tracking store records of a grid, a trial or a cell: names, params, metrics and tags, as
plain values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from raxalign.analysis.cells import Cell
from raxalign.analysis.metrics import is_main
from raxalign.config.axes import Axis
from raxalign.plan.comparisons import Compared
from raxalign.plan.names import varying
from raxalign.plan.plan import Plan
from raxalign.plan.results import metric_name, trial_rows
from raxalign.plan.trial import Trial
from raxalign.provenance import commit
from raxalign.store.key import digest

_LONGEST_TAG = 5000  # MLflow takes 8,000 characters
_LONGEST_NAME = 250


@dataclass(frozen=True)
class Run:
    """A run to be made.

    Attributes:
        key: What the run is found by.
        kind: ``grid``, ``trial`` or ``cell``.
        name: Its name.
        params: The axes of the grid, flat.
        tags: Its tags besides those that every run has.
    """

    key: str
    kind: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def grid_run(plan: Plan) -> Run:
    """Describe the parent of all runs of a grid."""
    return Run("grid:" + plan.name, "grid", plan.name, tags={"mlflow.source.name": "raxalign"})


def trial_run(plan: Plan, trial: Trial) -> Run:
    """Describe the run of a trial."""
    params = _axes(plan, trial.method, trial.params, trial.encoder)
    params[Axis.LANGUAGES] = " ".join(trial.languages)
    params |= {
        name: str(value)
        for name, value in ((Axis.SENTENCES, trial.sentences), (Axis.SEED, trial.seed))
        if value is not None
    }
    tags = {
        "raxalign.trial_key": trial.key,
        **{f"raxalign.{name}": value for name, value in commit().items()},
    }
    if trial.untouched:
        tags["raxalign.untouched"] = " ".join(trial.untouched)
    if trial.searched is not None:
        tags["raxalign.study"] = trial.searched.study
        tags["raxalign.study_trial"] = str(trial.searched.number)
        tags["raxalign.searched"] = "confirmed" if trial.searched.confirmed else "suggested"
    return Run(trial_key(trial), "trial", _name(params), params, tags)


def trial_key(trial: Trial) -> str:
    """Return the key of a trial's run."""
    return "trial:" + trial.key


def cell_run(plan: Plan, cell: Cell) -> Run:
    """Describe the run of a cell: all seeds (and, in an `each` grid, all languages) of one
    point.
    """
    params = _axes(plan, cell.method, cell.params, cell.encoder)
    if cell.sentences is not None:
        params[Axis.SENTENCES] = str(cell.sentences)
    key = "cell:" + digest([cell.method, cell.params, cell.encoder, cell.sentences])
    return Run(key, "cell", _name(params), params)


def trial_metrics(trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return metric name -> value, of the evaluations that have a record."""
    return {
        metric_name(row["task"], row["lang"], row["metric"], row["split"]): row["value"]
        for row in trial_rows(trial, records)
    }


def cell_metrics(cell: Cell, compared: Iterable[Compared] = ()) -> dict[str, float]:
    """Return metric name -> mean. Counts and parts of a metric are left to the trials, so that a
    comparison of cells is short.

    The metrics of the cell that were compared have more values, with an ending behind the name:
    ``_low`` and ``_high`` (95 % interval), ``_difference`` to the baseline with
    ``_difference_low`` and ``_difference_high``, and ``_p_adjusted``. A metric without a test has
    none of these.
    """
    metrics = {
        metric_name(*name): value.mean for name, value in cell.values.items() if is_main(name[2])
    }
    for entry in compared:
        if entry.cell is not cell:
            continue
        found, around = entry.comparison, entry.interval
        numbers = {
            "low": around.low if around else None,
            "high": around.high if around else None,
            "difference": found.difference if found else None,
            "difference_low": found.low if found else None,
            "difference_high": found.high if found else None,
            "p_adjusted": entry.p_adjusted,
        }
        metrics |= {
            f"{metric_name(*entry.name)}_{name}": number
            for name, number in numbers.items()
            if number is not None
        }
    return metrics


def results_mark(plan: Plan, evaluations: Iterable[str]) -> str:
    """Return a digest of what a trial's run shows: evaluations, and the metrics that the grid
    adds.
    """
    added = [asdict(entry) for entry in plan.metrics]
    return digest([*sorted(evaluations), *added])


def provenance_tags(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the tags that record on what device, by what versions and from what links results
    were made.
    """
    tags: dict[str, str] = {}
    for record in records:
        tags["raxalign.device"] = str(record["device"])
        tags["raxalign.versions"] = json.dumps(record["versions"], sort_keys=True)[:_LONGEST_TAG]
        tags["raxalign.links"] = json.dumps(record["notes"].get("links", {}), sort_keys=True)[
            :_LONGEST_TAG
        ]
    return tags


def _axes(plan: Plan, method: str, params: Mapping[str, Any], encoder: str) -> dict[str, str]:
    """Return the axes of the grid; other params would only crowd the comparison."""
    several = len({trial.encoder for trial in plan.trials}) > 1
    shown = {Axis.METHOD.value: method, **({Axis.ENCODER.value: encoder} if several else {})}
    return shown | {name: str(value) for name, value in varying(plan, method, params).items()}


def _name(params: Mapping[str, str]) -> str:
    rest = (f"{name}={value}" for name, value in params.items() if name != Axis.METHOD)
    return " ".join([params[Axis.METHOD], *rest])[:_LONGEST_NAME]
