"""A search in a real sweep, with Ray: killed once, run again, and found done."""

from __future__ import annotations

import pytest

import raxalign as rx
from raxalign.plan.tried import read_record
from raxalign.store.studies import DevCurves
from tests.searches import METRIC, search_grid

FINETUNE = (
    "finetune: {lambda: {log_uniform: [0.01, 10]}, learning_rate: {log_uniform: [1.0e-5, 1.0e-3]},"
    " batch_size: 16}"
)


@pytest.mark.slow
def test_a_search_with_a_pruner_ends_trials_early_in_a_real_sweep(tmp_path, capfd) -> None:
    task = (
        "xnli: {setting: zero-shot, data: phrasebook, phrasebook: {train: 40, dev: 40, test: 20},"
        " epochs: 3, batch_size: 8, learning_rate: 1.0e-3}"
    )
    more = (
        f"search: {{metric: {METRIC}, trials: 4, confirm: 1, sampler: random,"
        f" pruner: {{name: median, startup: 1}}}}\nrun: {{concurrency: 1}}\n"
    )
    path = search_grid(tmp_path, "", methods=(FINETUNE,), tasks=(task,), more=more)
    opened = rx.plan(path, storage=str(tmp_path / "storage"))
    finished = rx.run(opened)
    study = opened.plan.studies[0]
    record = read_record(opened.storage, study)
    curves = DevCurves(opened.storage.files, study.name).all()
    assert finished.failed == {}
    assert record.finished
    assert {entry.state for entry in record.tried} <= {"done", "pruned"}
    assert len(record.pruned) == sum(curve.pruned for curve in curves.values())
    assert finished.done == len(record.done) + 1
    assert len(curves) == 4
    assert all(curve.scores for curve in curves.values())
    told = capfd.readouterr().err
    assert (f"{len(record.pruned)} of 4 trials pruned, which saved" in told) == bool(record.pruned)


@pytest.mark.slow
def test_a_search_runs_beside_the_grid_s_own_trials_and_is_found_done(tmp_path) -> None:
    more = (
        "search: {metric: 'retrieval/{lang}-en/contextual_accuracy', trials: 3, confirm: 1}\n"
        "run: {concurrency: 1}\n"
    )
    path = search_grid(
        tmp_path, "", methods=("none: {}", FINETUNE), tasks=("retrieval: {}",), more=more
    )
    opened = rx.plan(path, storage=str(tmp_path / "storage"))
    finished = rx.run(opened)
    assert (finished.done, finished.failed) == (1 + 3 + 1, {})
    record = read_record(opened.storage, opened.plan.studies[0])
    assert [entry.state for entry in record.tried] == ["done"] * 3
    assert all(entry.seconds for entry in record.tried)
    again = rx.plan(path, storage=str(tmp_path / "storage"))
    assert again.plan.cached(opened.storage.ledger.keys()) == 5
    assert rx.run(again).done == 0
