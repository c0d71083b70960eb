"""Trials with several workers: Ray Train on the CPU."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.runs import Site, ray_workers, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def divided(finished, tmp_path_factory):
    """The finished grid, and its trainings with two shares, which one worker has made."""
    folder = tmp_path_factory.mktemp("divided")
    grid = finished.with_run("workers: 2", folder / "grid.yaml")
    site = Site(grid, finished.copy(folder).storage, finished.address)
    done = site.run("--workers", "1")
    assert "2 done, 0 failed" in done.stderr, "the masks of two shares are others than of one"
    return site


def test_groups_end_with_the_results_of_one_worker_also_where_a_worker_and_a_controller_are_killed(
    divided, tmp_path
):
    """Two trials of two workers each, where two workers may fit: drivers must not take their place.
    Of the first one a worker is killed, and of the group that follows the controller.
    """
    site = divided.copy(tmp_path)
    site.forget("finetune")
    with site.running() as process:
        wait_for(site.checkpoints, process)
        workers = ray_workers(process, "RayTrainWorker")
        assert len(workers) == 2
        os.kill(workers[-1], signal.SIGKILL)
        before = set(site.checkpoints())
        wait_for(lambda: set(site.checkpoints()) - before, process)
        os.kill(ray_workers(process, "TrainController")[-1], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert said.count("its group of workers was lost") == 2
    assert "2 done, 0 failed" in said
    for row, other in zip(site.results(), divided.results(), strict=True):
        assert {**row, "value": None} == {**other, "value": None}
        assert row["value"] == pytest.approx(other["value"], abs=1e-3), "another order of sums"
    site.check_tracking()


def test_more_workers_than_shares_change_no_result_of_a_training_with_dropout(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune", "de")
    done = site.run("--workers", "2")
    assert "note: --workers 2: trainings with dropout use 1" in done.stderr
    assert "1 done, 0 failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert site.results() == finished.expected
