"""A grid from its file to the ledger, MLflow and the results, and what a second run costs."""

import json
import subprocess
import sys

import pytest

from tests.e2e.runs import Site, undisturbed

pytestmark = pytest.mark.slow


def test_every_evaluation_is_in_the_ledger_and_in_mlflow_with_the_curves_of_trainings(finished):
    assert set(finished.entries()) == finished.keys()
    finished.check_tracking()
    printed = finished.look("results", "--format", "json")
    assert json.loads(printed) == json.loads(json.dumps(finished.expected))
    runs = [
        run
        for run in finished.tracked()
        if run["params"].get("method") == "finetune" and run["tags"]["raxalign.kind"] == "trial"
    ]
    assert runs
    assert all(any(name.startswith("train/") for name in run["metrics"]) for run in runs)


def test_nothing_but_the_progress_and_the_answer_is_said(finished):
    lines = (finished.storage.parent / "stderr").read_text().splitlines()
    expected = ("small: ", "[", "about ", "results: ", "note: waiting for workers")
    others = [line for line in lines if not (line.startswith(expected) or line[:1].isdigit())]
    others = [line for line in others if " s so far" not in line]  # of a trial, where it takes long
    hardly = [line for line in others if line.startswith("note: hardly trained: ")]
    trainings = {line.partition(" still fell")[0] for line in hardly}
    assert len(hardly) == len(trainings), "one line per training, whatever trials read it"
    [answer] = [line for line in others if line not in hardly]
    assert "the unaligned encoder at word retrieval" in answer


def test_no_process_of_a_grid_imports_a_file_of_the_working_directory(finished):
    assert (finished.storage.parent / "statistics.py").exists()
    assert not (finished.storage.parent / "imported").exists()


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
    assert "all 4 trials are done" in done.stderr
    part = finished.run("--only", "method=none").stderr
    assert ": 1 trial is done; see " in part, "a part is not all"
    assert finished.entries() == before


def test_a_task_added_to_a_grid_evaluates_the_aligned_encoders_that_are_there(finished, tmp_path):
    added = "tasks:\n  plain: {kind: retrieval, measure: cosine}\n"
    (tmp_path / "grid.yaml").write_text(finished.grid.read_text().replace("tasks:\n", added))
    larger = Site(tmp_path / "grid.yaml", finished.copy(tmp_path).storage)

    def artifacts():
        found = larger.storage.glob("artifacts/*/*/*/manifest.json")
        return {path: path.stat().st_mtime_ns for path in found}

    made, before = artifacts(), larger.entries()
    undisturbed(larger)
    assert artifacts() == made
    after = larger.entries()
    assert len(after) == 2 * len(before)
    assert {key: after[key] for key in before} == before
    larger.look("sync")
    larger.check_tracking()
