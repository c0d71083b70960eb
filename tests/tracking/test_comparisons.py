"""Which method is best for which language at which size, as MLflow shows it: the runs of
comparisons, the views of them, and what cells keep.
"""

from __future__ import annotations

import csv
import json
import shutil
import zlib
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.grid.load import open_grid
from raxalign.provenance import commit
from raxalign.report.compared import ComparisonTables
from raxalign.store.ledger import Ledger
from raxalign.tracking.client import Client
from raxalign.tracking.recorder import Recorder
from raxalign.tracking.runs import PlanRuns, experiment_tags
from raxalign.values.comparisons import comparisons
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from tests.e2e.runs import tracked
from tests.grids import write_grid
from tests.ledgers import made_up
from tests.test_tracking import fill, target

GRID = {"languages": "{together: [de, fr]}", "sentences": "[50, 100]", "seeds": "[0, 1]"}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
GRID["methods"] = ("none: {}", "rotation: {center: [false, true]}", "finetune: {batch_size: 16}")
WORDS = "contextual_accuracy"


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    opened, ledger = made_up(tmp_path_factory.mktemp("grid"), **GRID)
    found = Scoreboard.of(rows(opened.plan, ledger), opened.plan)
    return found.tested(comparisons(found.cells, opened.plan, ledger))


@pytest.fixture(scope="module")
def runs(board):
    found = list(PlanRuns(board.plan).comparisons(board))
    return {run.name: (run, change) for run, change in found}


def state_of(tag: str) -> dict[str, object]:
    """The state of a view, as MLflow's pages read it."""
    header, text = json.loads(tag)["state"].split(";")
    assert header == "deflate"
    return dict(json.loads(zlib.decompress(b64decode(text))))


def test_each_configuration_has_its_score_in_each_language_at_the_step_of_its_size(board, runs):
    names = ["none", "rotation center=False", "rotation center=True", "finetune"]
    langs = ["mean", "de", "fr"]
    assert set(runs) == {f"{lang}: {name}" for lang in langs for name in names}
    for cell in (cell for cell in board.cells if cell.method == "finetune"):
        _, change = runs["de: finetune"]
        values = {n: v for n, v, step, _ in change.points if step == cell.sentences}
        entry = board.at(cell, ("retrieval", "de-en", WORDS, "test"))
        numbers = {"": entry.value.mean, "_difference": entry.difference}
        numbers |= {"_low": entry.interval.low, "_high": entry.interval.high}
        for end, number in numbers.items():
            assert values[f"retrieval/{WORDS}{end}"] == pytest.approx(number, abs=0.01)
        assert values[f"retrieval/de-en/{WORDS}"] == values[f"retrieval/{WORDS}"]
    steps = {step for name, _, step, _ in runs["de: none"][1].points}
    assert steps == {50, 100}, "the encoder as it was is a line too"


def test_the_verdict_of_a_comparison_is_that_of_the_reports_table(board, runs):
    words = {"better": "better", "worse": "worse", "=": "equal"}
    rows = ComparisonTables(board.compared, board.plan).rows()
    table = [r for r in rows if (r["task"], r["metric"], r["lang"]) == ("xnli", "accuracy", "de")]
    tuned = [row for row in table if row["method"] == "finetune"]
    assert len(tuned) == 2
    _, change = runs["de: finetune"]
    for row in tuned:
        said = change.tags[f"verdict_xnli_{row['sentences']}"]
        assert said == words.get(row["verdict"], "not significant")
        assert f"xnli, {row['sentences']} sentence pairs: {100 * row['value']:.1f} [" in change.note
    assert change.tags["verdict_xnli"] == change.tags["verdict_xnli_100"]
    for size in (50, 100):
        shown = change.tags[f"{size} pairs"]
        assert shown.endswith(f" % {change.tags[f'verdict_{size}']}")
        assert f"retrieval, {size} sentence pairs: {shown.split()[0]} " in change.note
    assert runs["de: none"][1].tags["verdict"] == "baseline"


def test_the_first_view_has_the_best_configuration_of_each_language_first(board, runs):
    ordered = sorted(runs, key=lambda name: runs[name][1].tags["raxalign.order"])
    assert [name.partition(":")[0] for name in ordered[::4]] == ["mean", "de", "fr"]
    last = {
        name: max((step, v) for n, v, step, _ in change.points if n == f"retrieval/de-en/{WORDS}")
        for name, (_, change) in runs.items()
        if name.startswith("de:")
    }
    german = [name for name in ordered if name in last]
    assert german == sorted(german, key=lambda name: -last[name][1])
    view = state_of(experiment_tags(board)["mlflow.sharedViewState.languages"])
    assert (view["orderByKey"], view["orderByAsc"]) == ("tags.`raxalign.order`", True)


def test_views_have_the_axes_of_the_grid_in_its_order_and_none_that_is_idle(board):
    tags = experiment_tags(board)
    views = {key: state_of(tags[f"mlflow.sharedViewState.{key}"]) for key in ("languages", "cells")}
    shown = {
        key: [c for c in view["selectedColumns"] if c.startswith("params.")]
        for key, view in views.items()
    }
    axes = ["params.`method`", "params.`center`"]
    assert shown == {
        "languages": ["params.`language`", *axes],
        "cells": ["params.`sentences`", *axes],
    }
    charts = views["languages"]["compareRunCharts"]
    assert [chart["type"] for chart in charts] == ["LINE"] * len(charts)
    drawn = {(chart["xAxisScaleType"], chart["lineSmoothness"]) for chart in charts}
    assert drawn == {("log", 0)}, "what is smoothed is not what was measured"
    columns = views["languages"]["selectedColumns"]
    assert columns[3:5] == ["tags.`50 pairs`", "tags.`100 pairs`"], "each size on the first screen"
    names = [chart["metricKey"] for chart in charts]
    langs = ("avg", "de-en", "fr-en")
    assert names == [*(f"retrieval/{n}/{WORDS}" for n in langs), "xnli/avg_zero_shot/accuracy"]
    assert max(map(len, tags.values())) < 4900, "else a database refuses it"


def test_a_cell_has_at_most_a_dozen_metrics_and_they_are_rounded(board):
    of = PlanRuns(board.plan)
    for cell in board.cells:
        change = of.of_cell(cell, board)
        assert len(change.metrics) <= 12
        assert f"retrieval/de-en/{WORDS}" in change.metrics
        mean = ("retrieval", "avg", WORDS, "test")
        entry = board.at(cell, mean)
        value = change.metrics[f"retrieval/avg/{WORDS}"]
        half = (entry.interval.high - entry.interval.low) / 2
        assert value == pytest.approx(entry.value.mean, abs=half / 10)
        assert len(str(value)) <= 6
        own = entry.baseline is not None
        assert (f"retrieval/avg/{WORDS}_difference" in change.metrics) == own
        assert change.tags["verdict"] == board.verdict(cell, mean)


@pytest.fixture
def grid(tmp_path, no_runs):
    shutil.copy(no_runs, tmp_path / "mlflow.db")
    methods = ("none: {}", "finetune: {batch_size: 16}")
    path = write_grid(tmp_path, size=300, sentences="[50, 100]", methods=methods)
    plan, where = open_grid(path, storage=str(tmp_path)).plan, target(tmp_path)
    fill(tmp_path, plan)
    Recorder.sync(plan, where)
    return plan, where


def of_kind(where, kind: str):
    found = tracked(where.uri, "small")
    return {r["tags"]["mlflow.runName"]: r for r in found if r["tags"]["raxalign.kind"] == kind}


@pytest.fixture
def asked(monkeypatch) -> Counter[str]:
    """How often each call of the client is made, from now on."""
    found, real = Counter[str](), Client.__getattr__

    def count(client: Client, name: str) -> object:
        found[name] += 1
        return real(client, name)

    monkeypatch.setattr(Client, "__getattr__", count)
    return found


@pytest.mark.slow
def test_a_run_takes_three_requests_and_what_did_not_change_none(asked, grid):
    (plan, where), first = grid, dict(asked)
    kinds = Counter(run["tags"]["raxalign.kind"] for run in tracked(where.uri, "small"))
    runs = kinds.total()
    calls = {"create_run": runs, "log_batch": runs, "set_terminated": runs}
    calls |= {"log_inputs": kinds["cell"], "log_text": 3, "search_runs": 2}
    calls |= {"get_experiment_by_name": 1, "create_experiment": 1, "set_experiment_tag": 5}
    assert first == calls
    asked.clear()
    Recorder.sync(plan, where)
    found = {"get_experiment_by_name": 1, "search_runs": 2, "update_run": 1, "set_terminated": 1}
    assert asked == found


@pytest.mark.slow
def test_the_files_of_a_grid_are_those_of_its_last_driver(grid, tmp_path):
    plan, where = grid
    other = Recorder(plan, replace(where, grid_text="name: other"))
    other.open()
    other.release()  # and no more: its process was killed
    Recorder.sync(plan, where)
    (whole,) = of_kind(where, "grid").values()
    path = where.connect().download_artifacts(whole["id"], "grid.yaml", str(tmp_path))
    assert Path(path).read_text(encoding="utf-8") == where.grid_text


@pytest.mark.slow
def test_what_changed_is_drawn_anew_and_what_a_person_wrote_stays(tmp_path, grid):
    plan, where = grid
    client, first = where.connect(), of_kind(where, "comparison")
    note = "mlflow.note.content"
    assert "300 sentence pairs" not in first["de: finetune"]["tags"][note]
    client.set_tag(first["de: finetune"]["id"], note, "my own words")
    Recorder.sync(plan, where)
    assert {r["id"] for r in of_kind(where, "comparison").values()} == {
        run["id"] for run in first.values()
    }
    trial = next(t for t in plan.trials if t.method == "finetune" and t.sentences == 100)
    ledger, key = Ledger(str(tmp_path)), trial.evaluations["retrieval"]
    record = {k: v for k, v in ledger.read(key).items() if k != "scores"}
    scores = [{**score, "value": 0.75} for score in ledger.read(key)["scores"]]
    shutil.rmtree(tmp_path / "ledger" / key)
    ledger.write(key, {**record, "scores": scores}, None)
    Recorder.sync(plan, where)
    again, lang = of_kind(where, "comparison"), trial.languages[0]
    changed = {n for n, run in again.items() if run["id"] != first[n]["id"]}
    assert changed == {f"{lang}: finetune", "mean: finetune"}
    points = client.get_metric_history(again[f"{lang}: finetune"]["id"], f"retrieval/{WORDS}")
    assert [(point.step, point.value) for point in points] == [(50, 0.5), (100, 0.75)]
    assert again["de: finetune"]["tags"][note] == "my own words"


@pytest.mark.slow
def test_all_numbers_are_in_a_file_and_data_and_commit_have_mlflows_own_names(grid, tmp_path):
    where = grid[1]
    client, cells = where.connect(), of_kind(where, "cell")
    (whole,) = of_kind(where, "grid").values()
    path = Path(client.download_artifacts(whole["id"], "comparisons.csv", str(tmp_path)))
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    assert {(row["method"], row["lang"]) for row in lines} >= {("none", "avg"), ("none", "de-en")}
    assert {*ComparisonTables.FIELDS} == set(lines[0])
    for run in cells.values():
        (entry,) = client.get_run(run["id"]).inputs.dataset_inputs
        assert entry.dataset.name == "phrasebook"
        assert {tag.key: tag.value for tag in entry.tags} == {"mlflow.data.context": "training"}
        assert run["tags"].get("mlflow.source.git.commit") == commit().get("commit")
        assert "verdict" in run["tags"]
