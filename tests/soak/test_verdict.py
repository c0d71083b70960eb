"""The soak's own judgement: each fault that it looks for is found where it was planted."""

from __future__ import annotations

import json

from tests.soak import verdict


def test_an_evaluation_that_begins_after_it_was_finished_counts_as_repeated(tmp_path):
    log = tmp_path / "begun.jsonl"
    lines = [{"key": "a", "begun": 5.0}, {"key": "b", "begun": 5.0}, {"key": "b", "begun": 9.0}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = {"a": {"created": 7.0}, "b": {"created": 7.0}}
    assert verdict.repeated(log, records) == ["b"]


def test_values_that_differ_or_that_one_side_lacks_are_wrong():
    row = {"trial": "t", "task": "xnli", "lang": "de", "metric": "accuracy", "split": "test"}
    same, other = {**row, "value": 0.5}, {**row, "value": 0.25}
    assert verdict.wrong([same], [same]) == []
    assert len(verdict.wrong([same], [other])) == 1
    assert len(verdict.wrong([], [same])) == 1
    assert len(verdict.wrong([same], [])) == 1


def run(identity, kind, status="FINISHED", trial=None, parent=None):
    tags = {"raxalign.kind": kind, "raxalign.trial_key": trial, "mlflow.parentRunId": parent}
    return {"id": identity, "status": status, "tags": tags}


def test_running_runs_second_parents_and_orphaned_or_doubled_trials_are_untidy():
    parent, child = run("p", "grid"), run("c", "trial", trial="t", parent="p")
    assert verdict.untidy_runs([parent, child], ["t"]) == []
    running = {**child, "status": "RUNNING"}
    assert verdict.untidy_runs([parent, running], ["t"]) == ["run c is RUNNING"]
    assert verdict.untidy_runs([parent, {**parent, "id": "q"}, child], ["t"]) == ["2 parent runs"]
    assert verdict.untidy_runs([parent, child, {**child, "id": "d"}], ["t"]) == [
        "2 runs of trial t"
    ]
    assert verdict.untidy_runs([parent], ["t"]) == ["0 runs of trial t"]
    assert verdict.untidy_runs([parent, run("c", "trial", trial="t", parent="x")], ["t"]) == [
        "run c has no parent"
    ]


def test_half_written_files_checkpoints_and_scratch_folders_are_leftovers(tmp_path):
    storage, scratch = tmp_path / "storage", tmp_path / "tmp"
    (storage / "checkpoints" / "key" / "run" / "step-200").mkdir(parents=True)
    (storage / "ledger").mkdir()
    (storage / "ledger" / ".tmp-key-machine-1-2-3").mkdir()
    (scratch / "raxalign-ray-17-x").mkdir(parents=True)
    assert len(verdict.leftovers(storage, scratch)) == 3
