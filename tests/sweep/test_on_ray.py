"""Whole sweeps under Ray Tune: who gets which worker, which workers die, what is asked of machines,
and a search.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray
from ray._private.state import actors  # what counts processes has no public counterpart
from ray.tune.execution.tune_controller import TuneController

import raxalign as rx
from raxalign.errors import ResourceError, StorageError
from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.search.journal import Journal
from raxalign.store.files import files_of
from raxalign.store.lease import Holder
from raxalign.store.storage import Storage
from raxalign.sweep import cluster, running
from raxalign.sweep.cluster import (
    check_shared,
    connect,
    disconnect,
    patience,
    require_token,
    signed,
)
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.job import Job
from raxalign.sweep.running import run_sweep
from raxalign.sweep.work import Losses
from tests.grids import write_grid
from tests.ray_head import importable
from tests.searches import METRIC, search_grid

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _token() -> Iterator[None]:
    """The file with the token that all clusters of these tests demand, and workers that import the
    jobs of these tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_AUTH_MODE")
        require_token()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", importable())
        yield


@pytest.fixture(scope="module")
def joined(ray_head) -> Iterator[None]:
    """The Ray of all tests, which no sweep leaves meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "disconnect", lambda: None)
        patch.setenv("RAY_AUTH_MODE", "token")
        connect(ray_head, Job(Storage(""), "", threads=1))
        yield
        disconnect()


def nothing(config: dict[str, object], job: Job, patience: object) -> dict[str, object]:
    """A job that is done at once; it fails in a process of Ray, which has no libraries."""
    error = "it was not forked" if ray.is_initialized() else ""
    return {"trial": config.get("trial"), "error": error, "done": True}


def test_more_gpus_than_there_are_are_refused_before_anything_starts(plan, job, heard, joined):
    with pytest.raises(ResourceError, match="asks for 64 GPU, and no node has more than 0"):
        run_sweep(plan, replace(job, gpus=64.0), heard, name=plan.name)
    assert not [event for event in heard.events if isinstance(event, Began | JobEnded)]


def test_a_worker_that_dies_while_it_is_given_its_next_job_fails_nothing(
    plan, job, heard, monkeypatch, capfd, joined
):
    give, killed = TuneController._schedule_trial_reset, []

    def give_to_the_dead(controller, trial, *given):
        handle = trial.temporary_state.ray_actor
        if not killed and "trial" in trial.config:
            killed.append(trial.config["trial"])
            os.kill(actors(handle._actor_id.hex())["Pid"], signal.SIGKILL)
        return give(controller, trial, *given)

    monkeypatch.setattr(TuneController, "_schedule_trial_reset", give_to_the_dead)
    monkeypatch.setattr(running, "run_job", nothing)
    ended = run_sweep(plan, replace(job, max_failures=1), heard, name=plan.name)
    assert (ended.done, ended.failed, len(killed)) == (2, {}, 1)
    assert sorted(heard.trials) == sorted((trial.key, None) for trial in plan.trials)
    assert [what.key for what, _ in heard.delays] == killed
    assert "did not complete" not in capfd.readouterr().err


def die(config: dict[str, object], job: Job, patience: object) -> dict[str, object]:
    """A job: stages are done at once, and the worker of a trial dies each time; that of `rotation`
    three times, each time after a later checkpoint: by itself, killed, and with the process that
    forked it.
    """
    if "stage" in config:
        return nothing(config, job, patience)
    trial = Job(Storage(""), str(config["plan"])).read_plan().by_key[str(config["trial"])]
    folder = Path(job.storage.root, "checkpoints", trial.aligned, "train")
    tries = len(list(folder.glob("step-*")))
    if trial.method == "rotation" and tries < 3:
        (folder / f"step-{tries + 1:08d}").mkdir(parents=True)
        if tries:
            os.kill(os.getpid() if tries == 1 else os.getppid(), signal.SIGKILL)
        os._exit(1)
    if trial.method == "none" and Losses.GIVEN_UP not in config:
        with Path(job.storage.root, "tries").open("a") as file:
            file.write("x")
        os._exit(1)
    error = config.get(Losses.GIVEN_UP, "")
    return {"trial": config["trial"], "error": error, "done": True}


def test_really_killed_workers_are_replaced_as_long_as_they_get_further(
    plan, job, heard, monkeypatch, joined
):
    dies, goes_on = sorted(plan.trials, key=lambda trial: trial.method)
    monkeypatch.setattr(running, "run_job", die)
    failed = run_sweep(plan, replace(job, max_failures=1), heard, name=plan.name).failed
    assert failed[dies.key].startswith("its worker was lost 2 times without progress in between (")
    assert Path(job.storage.root, "tries").read_text() == "xx"
    assert sorted(heard.trials) == sorted([(dies.key, failed[dies.key]), (goes_on.key, None)])


class Actors:
    """Counts the actors that this job ever started: when the first trial began, and when the
    last one ended.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = 0

    def hear(self, event) -> None:
        if isinstance(event, Began | JobEnded) and isinstance(event.what, Trial):
            mine = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
            self.last = len(actors(job_id=mine))
            self.first = self.first or self.last


def test_short_trials_start_no_workers_in_place_of_those_that_are_there(
    tmp_path, monkeypatch, joined
):
    alphas = [round(0.02 * number, 2) for number in range(1, 13)]
    path = write_grid(
        tmp_path,
        languages="{each: [de]}",
        size=200,
        sentences="[100]",
        methods=(f"mean_shift: {{alpha: {alphas}}}",),
    )
    root = str(tmp_path / "storage")
    plan, counted = open_grid(path, storage=root).plan, Actors()
    monkeypatch.setattr(running, "run_job", nothing)
    job = Job(Storage(root), StoredPlans(Storage(root)).write(plan))
    ended = run_sweep(plan, job, counted.hear, name=plan.name)
    assert (ended.done, ended.failed) == (12, {})
    assert counted.last <= counted.first + 1  # the second of two cores may get its worker late


def test_a_machine_answers_for_a_process_that_has_ended(tmp_path, joined):
    program = (
        "import os, sys\nfrom raxalign.store.storage import Storage\n"
        "with Storage(sys.argv[1]).locks.hold('x'): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    record = json.loads(files_of(str(tmp_path)).read("locks/x/1"))
    assert patience(Holder(record["host"], record["maker"])) == 0.0


def test_a_machine_without_the_sign_or_that_writes_elsewhere_is_refused(job, joined, monkeypatch):
    job, other = signed(job), signed(job)
    assert job.sign != other.sign
    assert Path(job.sign).parent == Path(job.scratch)
    (node,) = (node["NodeID"] for node in ray.nodes() if node["Alive"])
    assert Path(f"{job.sign}.{node}").exists()
    Path(job.sign).unlink()
    with pytest.raises(StorageError, match="does not see what the driver wrote there"):
        check_shared(job)
    monkeypatch.setattr(Job, "sees", staticmethod(lambda place: False))
    with pytest.raises(StorageError, match="writes to another place of that name"):
        check_shared(other)


def test_a_search_prunes_beside_the_grid_s_own_trials_and_is_found_done(tmp_path, capfd, joined):
    finetune = (
        "finetune: {lambda: {log_uniform: [0.01, 10]},"
        " learning_rate: {log_uniform: [1.0e-5, 1.0e-3]}, batch_size: 16}"
    )
    task = (
        "xnli: {setting: zero-shot, data: phrasebook, phrasebook: {train: 40, dev: 40, test: 20},"
        " epochs: 3, batch_size: 8, learning_rate: 1.0e-3}"
    )
    more = (
        f"search: {{metric: {METRIC}, trials: 4, confirm: 1, sampler: random,"
        f" pruner: asha}}\nrun: {{concurrency: 1}}\n"
    )
    path = search_grid(tmp_path, "", methods=("none: {}", finetune), tasks=(task,), more=more)
    opened = rx.plan(path, storage=str(tmp_path / "storage"))
    finished = rx.run(opened)
    study = opened.plan.studies[0]
    record = study.record(opened.storage)
    trials = Journal(opened.storage, study).trials()
    assert finished.failed == {}
    assert record.finished
    assert {entry.state for entry in record.tried} <= {"done", "pruned"}
    assert all(entry.seconds for entry in record.done)
    assert finished.done == 1 + len(record.done) + 1
    assert len(trials) == 4
    assert all(trial.intermediate_values for trial in trials)
    assert ("1 pruned" in capfd.readouterr().err) == (len(record.pruned) == 1)
    again = rx.plan(path, storage=str(tmp_path / "storage"))
    assert again.plan.cached(opened.storage.ledger.keys()) == finished.done
    assert rx.run(again).done == 0
