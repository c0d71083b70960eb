"""A grid from its file to the ledger, MLflow and the results, and what a second run costs."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tests.e2e.runs import Site, tracked

pytestmark = pytest.mark.slow


def uri(site: Site) -> str:
    return f"sqlite:///{site.storage}/mlflow.db"


def check_ledger_and_tracking_agree(site: Site, where: str) -> None:
    """One run per trial below that of its cell, none running, and all values of the ledger."""
    plan, runs = site.plan, tracked(where, site.plan.name)
    kinds = Counter(run["tags"]["raxalign.kind"] for run in runs)
    assert kinds["grid"] == 1
    assert kinds["trial"] == len(plan.trials)
    assert {run["status"] for run in runs} == {"FINISHED"}
    by_trial = {
        run["tags"]["raxalign.trial_key"]: run
        for run in runs
        if run["tags"]["raxalign.kind"] == "trial"
    }
    assert set(by_trial) == set(plan.by_key)
    method_of = {
        run["id"]: run["params"]["method"] for run in runs if run["tags"]["raxalign.kind"] == "cell"
    }
    for run in by_trial.values():
        assert method_of[run["tags"]["mlflow.parentRunId"]] == run["params"]["method"]
    for row in site.results():
        if row["split"] == "test":
            name = f"{row['task']}/{row['lang']}/{row['metric']}"
            assert by_trial[row["trial"]]["metrics"][name] == pytest.approx(row["value"])


def test_every_evaluation_is_in_the_ledger_and_in_mlflow(finished):
    wanted = {key for trial in finished.plan.trials for key in trial.evaluations.values()}
    assert set(finished.entries()) == wanted
    check_ledger_and_tracking_agree(finished, uri(finished))


def test_nothing_but_the_progress_and_the_answer_is_said(finished):
    lines = (finished.storage.parent / "stderr").read_text().splitlines()
    expected = ("small: ", "[", "about ", "results: ", "note: waiting for workers")
    others = [line for line in lines if not (line.startswith(expected) or line[:1].isdigit())]
    hardly = [line for line in others if line.startswith("note: hardly trained: ")]
    trainings = {line.partition(" still fell")[0] for line in hardly}
    assert len(hardly) == len(trainings), "one line per training, whatever trials read it"
    [answer] = [line for line in others if line not in hardly]
    assert "none in retrieval (contextual accuracy)" in answer


def test_training_curves_are_brought_as_stepped_metrics(finished):
    runs = [
        run
        for run in tracked(uri(finished), "small")
        if run["params"].get("method") == "finetune" and run["tags"]["raxalign.kind"] == "trial"
    ]
    assert runs
    assert all(any(name.startswith("train/") for name in run["metrics"]) for run in runs)


def test_a_finished_grid_starts_neither_ray_nor_torch(finished):
    before = finished.entries()
    program = """
import sys
sys.argv = ["raxalign", "grid", sys.argv[1]]
from raxalign.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
# a lazily loaded module stands there empty: its compiled part shows whether it was loaded
heavy = ["ray._raylet", "torch._C", "mlflow.tracking", "transformers.utils"]
print(sorted({*heavy, "datasets.arrow_dataset"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(finished.grid)],
        env=finished.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
    assert "all 8 trials are done" in done.stderr
    assert finished.entries() == before


def test_a_task_added_to_a_grid_evaluates_the_aligned_encoders_that_are_there(finished, tmp_path):
    site = finished.copy(tmp_path)
    added = "tasks:\n  plain: {kind: retrieval, measure: cosine}\n"
    text = finished.grid.read_text().replace("tasks:\n", added)
    (tmp_path / "grid.yaml").write_text(text)
    larger = Site(tmp_path / "grid.yaml", site.storage)
    artifacts = {
        path: path.stat().st_mtime_ns for path in site.storage.glob("artifacts/*/*/*/manifest.json")
    }
    before = site.entries()
    done = larger.run()
    assert done.returncode == 0, done.stderr
    assert "0 shared stages to make" in done.stderr
    assert {
        path: path.stat().st_mtime_ns for path in site.storage.glob("artifacts/*/*/*/manifest.json")
    } == artifacts
    after = larger.entries()
    assert len(after) == 2 * len(before)
    assert {key: after[key] for key in before} == before
    check_ledger_and_tracking_agree(larger, uri(larger))
