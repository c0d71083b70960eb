"""What MLflow shows of an experiment: its kind, its views and its description, and runs of cells
with those of their trials below them. MLflow and its database are real.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from raxalign.analysis.cells import Cell, Value
from raxalign.grid.load import open_grid
from raxalign.measured import share
from raxalign.tracking.client import Client, Page
from raxalign.tracking.recorder import Recorder
from raxalign.tracking.runs import experiment_tags, main_metrics
from raxalign.values.scoreboard import Scoreboard
from tests.e2e.runs import tracked
from tests.grids import write_grid
from tests.test_tracking import fill, target
from tests.toys.lower import lower_grid
from tests.tracking.test_comparisons import state_of

pytestmark = pytest.mark.slow
VIEW = "mlflow.sharedViewState."


def board_of(plan, names):
    """A scoreboard with a cell that has these values; numbers of pairs are enough."""
    cell = Cell("none", {}, "e", None, (), {name: Value(90.0, None, 1) for name in names})
    return replace(Scoreboard.of([], plan), cells=[cell])


@pytest.fixture(scope="module")
def copied(tmp_path_factory, no_runs):
    folder = tmp_path_factory.mktemp("page")
    shutil.copy(no_runs, folder)
    methods = ("none: {}", "finetune: {lambda: [0.1, 1.0]}")
    path = write_grid(folder, size=300, sentences="[100]", methods=methods)
    plan, where = open_grid(path, storage=str(folder)).plan, target(folder)
    fill(folder, plan)
    Recorder.sync(plan, where)
    return plan, where


def tags(where) -> dict[str, str]:
    return dict(where.connect().get_experiment_by_name("small").tags)


def test_the_first_view_is_one_row_per_cell_and_the_files_of_the_grid(copied):
    plan, where = copied
    runs = {run["id"]: run for run in tracked(where.uri, "small")}
    own = [run for run in runs.values() if run["tags"]["raxalign.kind"] != "comparison"]
    top = [run for run in own if "mlflow.parentRunId" not in run["tags"]]
    names = sorted(run["tags"]["mlflow.runName"] for run in top)
    apart = ["finetune lambda=0.1", "finetune lambda=1.0", "none"]
    assert names == [*apart, "small (files, report)"]
    below = [run for run in own if run not in top]
    assert len(below) == len(plan.trials)
    for run in below:
        cell = runs[run["tags"]["mlflow.parentRunId"]]
        assert cell["tags"]["raxalign.kind"] == "cell"
        assert cell["params"].items() <= run["params"].items()
    cells = [run["params"] for run in top if run["tags"]["raxalign.kind"] == "cell"]
    assert sorted(params.get("lambda", "") for params in cells) == ["", "0.1", "1.0"]
    tuned = [params for params in cells if params["method"] == "finetune"]
    assert all(float(params["learning_rate"]) > 0 for params in tuned), "it is not an axis"


def test_the_experiment_is_one_of_model_training_with_views_of_cells_and_trials(copied):
    found = tags(copied[1])
    assert found["mlflow.experimentKind"] == "custom_model_development"
    assert found["mlflow.experiment.primaryMetric.name"] == "retrieval/avg/contextual_accuracy"
    state = state_of(found[VIEW + "cells"])
    names = [json.loads(found[VIEW + key])["name"] for key in ("languages", "cells", "trials")]
    assert names == ["Best by language", "By size", "Trials"]
    assert state["searchFilter"] == "tags.`raxalign.kind` = 'cell'"
    assert state["orderByKey"] == "metrics.`retrieval/avg/contextual_accuracy`"
    shown = ["params.`method`", "params.`lambda`", "tags.`verdict`"]
    assert state["selectedColumns"][:4] == [*shown, "metrics.`retrieval/avg/contextual_accuracy`"]
    client = copied[1].connect()
    experiment = client.get_experiment_by_name("small").experiment_id
    for key, number in {"languages": 9, "cells": 3, "trials": len(copied[0].trials)}.items():
        view = state_of(found[VIEW + key])
        assert view["orderByKey"] != "attributes.start_time", "else MLflow folds the runs"
        order = f"{view['orderByKey']} {'ASC' if view['orderByAsc'] else 'DESC'}"
        shown = client.search_runs([experiment], view["searchFilter"], order_by=[order])
        assert len(shown) == number, "the store understands filter and order"
    page = Page(client, empty := client.create_experiment("empty"), {})
    page.set(experiment_tags(board_of(copied[0], [])))
    without = client.get_experiment(empty).tags
    assert without["mlflow.experimentKind"] == "custom_model_development"
    assert not [name for name in without if name.startswith(VIEW)]


@pytest.mark.parametrize(
    ("metric", "ascending"), [("mean_rank", True), ("orphans", True), ("found", False)]
)
def test_the_best_cell_is_first_whichever_values_are_better(tmp_path, no_runs, metric, ascending):
    plan = lower_grid(tmp_path)[0].plan
    plan._measured["ranks", "found"] = share("found", "Share of words that are found.")
    client = Client(f"sqlite:///{shutil.copy(no_runs, tmp_path)}")
    experiment = client.create_experiment("lower")
    board = board_of(plan, [("ranks", "avg", metric, "test")])
    Page(client, experiment, {}).set(experiment_tags(board))
    found = client.get_experiment(experiment).tags
    state = state_of(found[VIEW + "cells"])
    assert state["orderByKey"] == f"metrics.`ranks/avg/{metric}`"
    assert state["orderByAsc"] is ascending
    assert found["mlflow.experiment.primaryMetric.greaterIsBetter"] == str(not ascending)


def test_the_description_is_the_answer_with_links_and_a_persons_own_stays(copied):
    plan, where = copied
    Recorder(plan, where).describe("finetune beats none.")
    first = tags(where)["mlflow.note.content"]
    assert first.startswith("finetune beats none.\n\n[Best by language](#/experiments/1/runs?")
    grid = next(
        run["id"] for run in tracked(where.uri, "small") if run["tags"]["raxalign.kind"] == "grid"
    )
    assert f"(#/experiments/1/runs/{grid}/artifacts)" in first
    described = where.connect().get_run(grid).data.tags["mlflow.note.content"]
    assert described == "finetune beats none."
    cell = plan.trials[-1].cell
    Recorder(plan, where).describe("finetune is worse than none.", [("refuted (look 1)", [cell])])
    told = [run["tags"].get("claims") for run in tracked(where.uri, "small")]
    assert [one for one in told if one] == ["refuted (look 1)"]
    assert tags(where)["mlflow.note.content"].startswith("finetune is worse")
    where.connect().set_experiment_tag("1", "mlflow.note.content", "my own words")
    Recorder(plan, where).describe("finetune beats none.")
    assert tags(where)["mlflow.note.content"] == "my own words"


def test_the_metric_of_a_task_is_that_of_its_plug_in_without_the_pivot(copied):
    plan = copied[0]
    names = [
        ("retrieval", lang, metric, "test")
        for metric in ("sentence_accuracy", "contextual_accuracy", "contextual_accuracy_pairs")
        for lang in ("de-en", "fr-en", "avg", "avg_zero_shot")
    ]
    assert main_metrics(board_of(plan, names)) == ["retrieval/avg_zero_shot/contextual_accuracy"]
    assert main_metrics(board_of(plan, names[:1])) == ["retrieval/de-en/sentence_accuracy"]
