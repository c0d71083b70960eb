"""Trials with several workers: Ray Train on the CPU."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.runs import ray_workers, wait_for
from tests.e2e.test_grid import check_ledger_and_tracking_agree, uri

pytestmark = pytest.mark.slow


def test_groups_of_workers_finish_with_the_results_of_one_worker(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune")
    # two trials of two workers each, where two workers may fit: drivers must not take their place
    done = site.run("--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "2 done, 0 failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for row, expected in zip(site.results(), finished.expected, strict=True):
        assert {**row, "value": None} == {**expected, "value": None}
        assert row["value"] == pytest.approx(
            expected["value"], abs=0.05
        )  # one pair of the test more or less: sums in another order
    check_ledger_and_tracking_agree(site, uri(site))


def test_more_workers_than_fit_are_refused(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune")
    done = site.run("--workers", "1000")
    assert done.returncode == 2
    assert "1000 workers" in done.stderr
    assert "CPU" in done.stderr


def test_a_killed_worker_of_a_group_is_no_failure_of_its_trial(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune", "de")
    with site.running("--workers", "2") as process:
        wait_for(lambda: list(site.storage.glob("checkpoints/*/*/step-*/state.json")), process)
        workers = ray_workers(process, "RayTrainWorker")
        assert len(workers) == 2
        os.kill(workers[1], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert "1 done, 0 failed" in said
    for row, expected in zip(site.results(), finished.expected, strict=True):
        assert row["value"] == pytest.approx(expected["value"], abs=0.05)
    check_ledger_and_tracking_agree(site, uri(site))
