"""The page of an experiment as MLflow opens it: its kind, its description, and named views of its
runs. All of them are tags of the experiment.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from raxalign.analysis.cells import ALL_TARGETS, Name
from raxalign.config.axes import Axis
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import metric_name
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.store.key import digest
from raxalign.tracking.runs import ALWAYS

CELLS, TRIALS = "cells", "trials"
"""The keys of the views."""
_NOTE, _OURS = "mlflow.note.content", "raxalign.note"
_KIND, _MAIN = "mlflow.experimentKind", "mlflow.experiment.primaryMetric.name"
_GREATER = "mlflow.experiment.primaryMetric.greaterIsBetter"
_CELLS, _TRIALS = ("Cells (one row per point)", "cell"), ("Trials", "trial")
_BEGUN = "attributes.start_time"
_VIEWS = "mlflow.sharedViewState."
VIEW = _VIEWS + CELLS
LIST = "#/experiments?workflowType=machine_learning"
_PREFERRED = (ALL_TARGETS, "avg_zero_shot", "avg", "avg_unseen")
_LONGEST = 4900  # characters of a tag; MLflow takes 5,000
_COLUMNS = 24
_WIDE, _NARROW = 260, 120  # pixels: the name of a metric is not cut


class Page:
    """The page of one experiment."""

    def __init__(self, client: Any, experiment: str) -> None:
        self._client, self._experiment = client, experiment

    def show(self, board: Scoreboard) -> None:
        """Open the experiment of a grid as one of model training, with a view of its cells and one
        of its trials where there are values.
        """
        tags, metrics = {_KIND: "custom_model_development"}, main_metrics(board)
        plan = board.plan
        if metrics:
            first = _leading(board)[0]
            lower = plan.measured(first[0], first[2]).better == "lower"
            best = [name for metric in metrics for name in (metric, f"{metric}_difference")]
            axes = _axes(plan)
            apart = [Axis.LANGUAGES.value, Axis.SEED.value]
            tags |= {
                _MAIN: metrics[0],
                _GREATER: str(not lower),
                VIEW: _view(_CELLS, axes, best, (f"metrics.`{metrics[0]}`", lower)),
                _VIEWS + TRIALS: _view(_TRIALS, [*axes, *apart], metrics, (_BEGUN, False)),
            }
        self._set(tags)

    def describe(self, answer: str, run: str | None) -> None:
        """Write the description: what the results show, and links, to the files of the grid that a
        `run` has too. One that a person has written stays.
        """
        links = [
            f"[One row per cell]({address(self._experiment)})",
            f"[every trial]({address(self._experiment, TRIALS)})",
        ]
        if run:
            files = f"#/experiments/{self._experiment}/runs/{run}/artifacts"
            links.append(f"[grid file, plan and report]({files})")
        text = f"{answer}\n\n{' · '.join(links)}\n\nHow to read it: docs/how-to/mlflow.md".strip()
        text = text[:_LONGEST]
        there = self._client.get_experiment(self._experiment).tags
        now = there.get(_NOTE)
        if now and digest(now) != there.get(_OURS):
            return
        self._set({_NOTE: text, _OURS: digest(text)})

    def _set(self, tags: Mapping[str, str]) -> None:
        there = self._client.get_experiment(self._experiment).tags
        for name, value in tags.items():
            if len(value) <= _LONGEST and there.get(name) != value:
                self._client.set_experiment_tag(self._experiment, name, value)


def address(experiment: str, view: str = CELLS) -> str:
    """Return the address of a view on a server, in MLflow's pages for model training."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&workflowType=machine_learning"


def main_metrics(board: Scoreboard) -> list[str]:
    """Return the metric that stands for each task, as runs have it: that of its leading table over
    all languages, or what there is of it.
    """
    return [metric_name(*name) for name in _leading(board)]


def _leading(board: Scoreboard) -> list[Name]:
    """The value that stands for each task."""
    found = []
    for task, metric, split in filter(None, map(board.leading, board.tasks)):
        langs = board.by_table[task, metric, split]
        lang = next((mean for mean in _PREFERRED if mean in langs), langs[0])
        found.append((task, lang, metric, split))
    return found


def _axes(plan: Plan) -> list[str]:
    """The params that a reader compares."""
    axes = dict.fromkeys(axis for axes in plan.axes.values() for axis in axes)
    several = [Axis.ENCODER.value] if len(plan.encoders) > 1 else []
    several += [Axis.SENTENCES.value] if len(plan.sizes) > 1 else []
    return [Axis.METHOD.value, *axes, *several, *(n for n in ALWAYS if n not in axes)]


def _view(
    named: tuple[str, str],
    params: Collection[str],
    metrics: Collection[str],
    order: tuple[str, bool],
) -> str:
    """A view of the runs of one kind (`named`: its name and the kind), as MLflow keeps those that
    its users save; `order` is what they are ordered by, and whether from the smallest on.
    """
    name, kind = named
    columns = [*(f"params.`{param}`" for param in params), *(f"metrics.`{m}`" for m in metrics)]
    columns = columns[:_COLUMNS]
    state = {
        "searchFilter": f"tags.`raxalign.kind` = '{kind}'",
        "orderByKey": order[0],
        "orderByAsc": order[1],
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {column: _WIDE if "metrics." in column else _NARROW for column in columns},
    }
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)})
