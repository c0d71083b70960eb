"""The soak's own judgement: each fault that it looks for is found where it was planted."""

import json

import pytest

from tests.soak import verdict


def test_an_evaluation_that_begins_after_it_was_finished_counts_as_repeated(tmp_path):
    log = tmp_path / "begun.jsonl"
    lines = [{"key": "a", "begun": 5.0}, {"key": "b", "begun": 5.0}, {"key": "b", "begun": 9.0}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = {"a": {"created": 7.0}, "b": {"created": 7.0}}
    assert verdict.repeated(verdict.begun(log), records) == ["b"]


ROW = {"trial": "t", "task": "xnli", "lang": "de", "metric": "accuracy", "split": "test"}
SAME, OTHER = [{**ROW, "value": 0.5}], [{**ROW, "value": 0.25}]


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [(SAME, SAME, 0), (SAME, OTHER, 1), ([], SAME, 1), (SAME, [], 1)],
)
def test_values_that_differ_or_that_one_side_lacks_are_wrong(found, expected, wrong):
    assert len(verdict.wrong(found, expected)) == wrong


def run(identity, kind, status="FINISHED", trial=None, parent=None):
    tags = {"raxalign.kind": kind, "raxalign.trial_key": trial, "mlflow.parentRunId": parent}
    return {"id": identity, "status": status, "tags": tags}


PARENT, CHILD = run("p", "grid"), run("c", "trial", trial="t", parent="p")


@pytest.mark.parametrize(
    ("runs", "faults"),
    [
        ([PARENT, CHILD], []),
        ([PARENT, {**CHILD, "status": "RUNNING"}], ["run c is RUNNING"]),
        ([PARENT, {**PARENT, "id": "q"}, CHILD], ["2 parent runs"]),
        ([PARENT, CHILD, {**CHILD, "id": "d"}], ["2 runs of trial t"]),
        ([PARENT], ["0 runs of trial t"]),
        ([PARENT, run("c", "trial", trial="t", parent="x")], ["run c has no parent"]),
    ],
)
def test_running_runs_second_parents_and_orphaned_or_doubled_trials_are_untidy(runs, faults):
    assert verdict.untidy_runs(runs, ["t"]) == faults


def test_half_written_files_checkpoints_and_scratch_folders_are_leftovers(tmp_path):
    storage, scratch = tmp_path / "storage", tmp_path / "tmp"
    (storage / "checkpoints" / "key" / "run" / "step-200").mkdir(parents=True)
    (storage / "ledger" / ".tmp-key-machine-1-2-3").mkdir(parents=True)
    (scratch / "raxalign-ray-17-x").mkdir(parents=True)
    assert len(verdict.leftovers(storage, scratch)) == 3
