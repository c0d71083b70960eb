"""What a tracking store records of a grid, a trial or a cell: names, params, metrics and tags; and
the page of an experiment as MLflow opens it: its kind, its description, and named views of its
runs, all of them tags of the experiment.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from raxalign.analysis.cells import Cell, Name
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.options.axes import Axis
from raxalign.provenance import versions
from raxalign.store.key import digest
from raxalign.values.comparisons import Compared
from raxalign.values.results import metric_name, trial_rows
from raxalign.values.scoreboard import Scoreboard

CELLS, TRIALS = "cells", "trials"
"""The keys of the views."""
_NOTE, _OURS = "mlflow.note.content", "raxalign.note"
_KIND, _MAIN = "mlflow.experimentKind", "mlflow.experiment.primaryMetric.name"
_GREATER = "mlflow.experiment.primaryMetric.greaterIsBetter"
_CELLS, _TRIALS = ("Cells (one row per point)", "cell"), ("Trials", "trial")
_BEGUN = "attributes.start_time"
_VIEWS = "mlflow.sharedViewState."
_PREFERRED = (Cell.ALL_TARGETS, "avg_zero_shot", "avg", "avg_unseen")
_LONGEST = 4900  # characters of a tag; MLflow takes 5,000
_COLUMNS = 24
_WIDE, _NARROW = 260, 120  # pixels: the name of a metric is not cut
_WORKFLOW = "workflowType=machine_learning"  # else MLflow opens pages on language models


class Page:
    """The page of one experiment."""

    LIST: ClassVar = f"#/experiments?{_WORKFLOW}"
    """The address of all experiments on a server."""

    def __init__(self, client: Any, experiment: str) -> None:
        self._client, self._experiment = client, experiment

    @classmethod
    def of_grids(cls, client: Any) -> dict[str, Page]:
        """Return the pages of all grids that have values, by their names; the latest first."""
        found = sorted(client.search_experiments(), key=lambda entry: -entry.last_update_time)
        return {e.name: cls(client, e.experiment_id) for e in found if _VIEWS + CELLS in e.tags}

    def address(self, view: str = CELLS) -> str:
        """Return the address of a view on a server, in MLflow's pages for model training."""
        return f"#/experiments/{self._experiment}/runs?viewStateShareKey={view}&{_WORKFLOW}"

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
            axes = _page_axes(plan)
            apart = [Axis.LANGUAGES.value, Axis.SEED.value]
            tags |= {
                _MAIN: metrics[0],
                _GREATER: str(not lower),
                _VIEWS + CELLS: _view(_CELLS, axes, best, (f"metrics.`{metrics[0]}`", lower)),
                _VIEWS + TRIALS: _view(_TRIALS, [*axes, *apart], metrics, (_BEGUN, False)),
            }
        self._set(tags)

    def describe(self, answer: str, run: str | None) -> None:
        """Write the description: what the results show, and links, to the files of the grid that a
        `run` has too. One that a person has written stays.
        """
        links = [
            f"[One row per cell]({self.address()})",
            f"[every trial]({self.address(TRIALS)})",
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


def _page_axes(plan: Plan) -> list[str]:
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


_LONGEST_TAG = 5000  # MLflow takes 8,000 characters
_LONGEST_NAME = 250
_SOURCE = {"mlflow.source.name": "raxalign"}
_ENDS = ("low", "high")
ALWAYS = ("lambda", "learning_rate")  # params that are shown where they are not axes, too


@dataclass(frozen=True)
class Run:
    """A run to be made.

    Attributes:
        key: What the run is found by, together with `made`.
        kind: ``grid``, ``trial`` or ``cell``.
        name: Its name.
        params: The axes of the grid, flat, with a method's λ and learning rate.
        tags: Its tags besides those that every run has.
        made: What its values are computed from, part by part (digest -> digest): a run with
            another digest of the same part is another one; parts may be added.
    """

    key: str
    kind: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)


class PlanRuns:
    """What a tracking store records of a plan: its runs, and their params, metrics and tags."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _origins(self) -> dict[str, Mapping[str, str]]:
        """What the values of each cell (`Trial.cell`) are computed from, as `Run.made` has it: a
        cell with more seeds is the same one.
        """
        found = dict[str, dict[tuple[str, ...], str]]()
        for trial in self._plan.trials:
            own = found.setdefault(trial.cell, self._added())
            for task, key in trial.evaluations.items():
                own[task, *trial.languages, str(trial.seed)] = key
        return {cell: _parts(own) for cell, own in found.items()}

    def grid(self, storage: str) -> Run:
        """Describe the run that drivers sign on at, with the files of the grid as artifacts: that
        of a `storage` (its identity) and of all cells.
        """
        name = self._plan.name
        of_cells: dict[tuple[str, ...], str]
        of_cells = {(c, part): v for c, made in self._origins.items() for part, v in made.items()}
        made = _parts({("storage",): storage, **of_cells})
        return Run(f"grid:{name}", "grid", f"{name} (files, report)", tags=_SOURCE, made=made)

    def trial(self, trial: Trial) -> Run:
        """Describe the run of a trial."""
        plan = self._plan
        params = self._axes(trial.method, trial.params, trial.encoder)
        name = _name(params)
        of_set = str(trial.params.get(Axis.LANGUAGES, ""))
        params[Axis.LANGUAGES] = of_set or " ".join(trial.languages)
        if trial.sentences is not None:
            params[Axis.SENTENCES] = str(trial.sentences)
            name += f" sentences={trial.sentences}" if len(plan.sizes) > 1 else ""
        if trial.seed is not None:
            params[Axis.SEED] = str(trial.seed)
        each = not of_set and len(trial.languages) < len(plan.languages) - 1
        seed = [] if trial.seed is None else [f"seed {trial.seed}"]
        name = " ".join([name, *(trial.languages if each else ()), *seed])[:_LONGEST_NAME]
        tags = {
            **_SOURCE,
            "raxalign.trial_key": trial.key,
            **{f"raxalign.{n}": v for n, v in versions().items() if n in ("commit", "dirty")},
        }
        if of_set:
            tags["raxalign.languages"] = " ".join(trial.languages)
        if trial.untouched:
            tags["raxalign.untouched"] = " ".join(trial.untouched)
        if trial.searched is not None:
            tags["raxalign.study"] = trial.searched.study
            tags["raxalign.study_trial"] = str(trial.searched.number)
            tags["raxalign.searched"] = "confirmed" if trial.searched.confirmed else "suggested"
        made = _parts({(task,): key for task, key in trial.evaluations.items()} | self._added())
        return Run(f"trial:{trial.key}", "trial", name, _always(trial.params) | params, tags, made)

    def cell(self, of: Cell | Trial) -> Run:
        """Describe the run of a cell, or of the cell that a trial belongs to: all seeds (and, in an
        `each` grid, all languages) of one point.
        """
        made = self._origins.get(of.cell if isinstance(of, Trial) else of.key, {})
        key = "cell:" + digest([of.method, of.params, of.encoder, of.sentences])
        params = self._axes(of.method, of.params, of.encoder)
        name = _name(params)
        if of.sentences is not None:
            params[Axis.SENTENCES] = str(of.sentences)
            name = _name(params) if len(self._plan.sizes) > 1 else name
        return Run(key, "cell", name, _always(of.params) | params, _SOURCE, made)

    def cell_of(self, trial: Trial) -> Run | None:
        """Describe the run of the cell that a trial belongs to; None for a trial that a search
        suggested.
        """
        return self.cell(trial) if _has_cell(trial) else None

    def cells(self) -> list[Run]:
        """Describe the runs of all cells."""
        found = {trial.cell: trial for trial in self._plan.trials if _has_cell(trial)}
        return list(map(self.cell, found.values()))

    def _added(self) -> dict[tuple[str, ...], str]:
        """The metrics that a grid adds, by task and name."""
        return {("", e.task, e.name): digest(asdict(e)) for e in self._plan.metrics}

    def _axes(self, method: str, params: Mapping[str, Any], encoder: str) -> dict[str, str]:
        """Return the axes of the grid; other params would only crowd the comparison."""
        several = {Axis.ENCODER.value: encoder} if len(self._plan.encoders) > 1 else {}
        varied = self._plan.varying(method, params).items()
        shown = {Axis.METHOD.value: method, **several}
        return shown | {name: str(value) for name, value in varied}

    def trial_metrics(
        self, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, float]:
        """Return metric name -> value, of the evaluations that have a record."""
        return {
            metric_name(row["task"], row["lang"], row["metric"], row["split"]): row["value"]
            for row in trial_rows(trial, records, self._plan.pivot)
        }

    def cell_metrics(self, cell: Cell, compared: Iterable[Compared] = ()) -> dict[str, float]:
        """Return metric name -> mean. Counts and parts of a metric are left to the trials, and so
        are values on dev where there are test values, so that a comparison of cells is short.

        The mean over languages (or the value of the only language) has more values where it was
        compared, with an ending behind the name: ``_low`` and ``_high`` (95 % interval),
        ``_difference`` to the baseline with ``_difference_low`` and ``_difference_high``, ``_p``,
        ``_p_adjusted``, ``_detectable``, the minimum detectable effect (80 % power), and
        ``_languages_low``, ``_languages_high`` and ``_languages_p`` for languages like these. A
        metric without a test has none of these.
        """
        tables = set(self._plan.tables_of(cell.values))
        metrics = {
            metric_name(*name): value.mean
            for name, value in cell.values.items()
            if (name[0], *name[2:]) in tables
        }
        for entry in compared:
            task, _, metric, split = entry.name
            if entry.cell is not cell or entry.name != cell.mean_name(task, metric, split):
                continue
            metrics |= {
                f"{metric_name(*entry.name)}_{name}": number
                for name, number in _test_numbers(entry).items()
                if number is not None
            }
        return metrics

    def results_mark(self, evaluations: Iterable[str]) -> str:
        """Return a digest of what a trial's run shows: evaluations, and metrics that the grid
        adds.
        """
        added = [asdict(entry) for entry in self._plan.metrics]
        return digest([*sorted(evaluations), *added])

    @staticmethod
    def provenance_tags(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return the tags on what device, with what versions and from what links results were
        made.
        """
        tags: dict[str, str] = {}
        for record in records:
            tags["raxalign.device"] = str(record.get("device", ""))
            tags["raxalign.precision"] = str(record.get("precision", "fp32"))
            texts = {
                "versions": record.get("versions", {}),
                "links": record.get("notes", {}).get("links", {}),
            }
            for name, value in texts.items():
                tags[f"raxalign.{name}"] = json.dumps(value, sort_keys=True)[:_LONGEST_TAG]
        return tags


def _has_cell(trial: Trial) -> bool:
    return trial.searched is None or trial.searched.confirmed


def _parts(made: Mapping[tuple[str, ...], str]) -> dict[str, str]:
    return {digest(part)[:8]: digest(value)[:8] for part, value in made.items()}


def _test_numbers(entry: Compared) -> dict[str, float | None]:
    """The numbers of a comparison by the endings of their names; None for what was not tested."""
    found, around, sample = entry.comparison, entry.interval, entry.over_languages
    parts = {"": around, "difference_": found, "languages_": sample}
    numbers = {f"{of}{n}": getattr(part, n, None) for of, part in parts.items() for n in _ENDS}
    numbers |= {name: getattr(found, name, None) for name in ("difference", "p")}
    of_table = {"p_adjusted": entry.p_adjusted, "detectable": entry.detectable}
    return {**numbers, **of_table, "languages_p": getattr(sample, "p", None)}


def _always(params: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(params[name]) for name in ALWAYS if params.get(name) is not None}


def _name(params: Mapping[str, str]) -> str:
    rest = (f"{name}={value}" for name, value in params.items() if name != Axis.METHOD)
    return " ".join([params[Axis.METHOD], *rest])[:_LONGEST_NAME]
