"""A whole sweep under Ray Tune, and how Tune's events reach it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import ray
from ray._private.state import actors  # what counts processes has no public counterpart
from ray.cluster_utils import Cluster
from ray.tune.execution.tune_controller import TuneController

from raxalign.errors import TransientError
from raxalign.plan.load import open_grid
from raxalign.plan.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep import room
from raxalign.sweep.cluster import disconnect
from raxalign.sweep.events import Began, JobEnded, Waiting, all_of
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.losses import GIVEN_UP
from raxalign.sweep.room import DRIVER, Room
from raxalign.sweep.running import Sweep, Whole
from raxalign.sweep.tuner import _Ask, _Watch, run_grid
from tests.grids import write_grid


class TuneTrial:
    """What Tune passes to its callbacks."""

    def __init__(self, config, *, result: object = None, error: Exception | None = None) -> None:
        self.config, self.last_result, self._error = config, result, error

    def get_error(self) -> Exception | None:
        return self._error


@pytest.fixture
def sweep(plan, job, heard) -> Sweep:
    """A sweep on two cores whose shared stages are all made, as far as it knows."""
    found = Sweep(Whole(plan), job, heard, lambda: Room(job, [{"CPU": 2.0}]))
    found.ask()
    while (config := found.take()) and "stage" in config:
        found.ended(config, {})
    found.first = config
    return found


def test_the_watch_tells_the_ends_of_trials_apart(sweep, job, heard) -> None:
    watch = _Watch(sweep, job)
    one, other = sweep.first, sweep.take()
    one[GIVEN_UP] = "busy (tried once)"
    watch.on_trial_error(1, [], TuneTrial(one, error=TransientError("busy")))
    watch.on_trial_complete(1, [], TuneTrial(other, result={"error": "no pairs"}))
    assert heard.trials == [(one["trial"], "busy (tried once)"), (other["trial"], "no pairs")]
    assert set(sweep.counts.failed) == {one["trial"], other["trial"]}
    assert job.storage.ledger.failure(one["trial"])["message"] == "busy (tried once)"
    assert sweep.over


def test_what_tune_pickles_has_no_display(sweep, job, heard) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(threading.Lock())
    sweep.display = threading.Lock()
    pickle.dumps([_Ask(sweep), _Watch(sweep, job)])


def test_what_tune_drops_without_being_told_to_is_taken_again(sweep, job, heard) -> None:
    watch = _Watch(sweep, job)
    other = sweep.take()
    assert sweep.take() is None
    watch.on_trial_error(1, [], TuneTrial(sweep.first, error=RuntimeError("killed\nat work")))
    assert (sweep.take(), sweep.over) == (sweep.first, False)
    for config in (sweep.first, other):
        watch.on_trial_complete(1, [], TuneTrial(config, result={"error": ""}))
    assert [error for _, error in heard.trials] == [None, None]
    assert (sweep.counts.done, sweep.counts.failed, sweep.over) == (2, {}, True)


def test_a_worker_of_stages_that_read_text_loads_no_torch() -> None:
    code = "import sys, raxalign.sweep.tuner; sys.exit('torch._C' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_worker_that_dies_while_it_is_given_its_next_job_fails_nothing(
    plan, job, heard, monkeypatch, capfd
) -> None:
    give, killed = TuneController._schedule_trial_reset, []

    def give_to_the_dead(controller, trial, *given):
        handle = trial.temporary_state.ray_actor
        if not killed and "trial" in trial.config:
            killed.append(trial.config["trial"])
            os.kill(actors(handle._actor_id.hex())["Pid"], signal.SIGKILL)
        return give(controller, trial, *given)

    monkeypatch.setattr(TuneController, "_schedule_trial_reset", give_to_the_dead)
    ended = run_grid(plan, replace(job, max_failures=1), heard)
    assert (ended.done, ended.failed, len(killed)) == (2, {}, 1)
    assert sorted(heard.trials) == sorted((trial.key, None) for trial in plan.trials)
    assert [what.key for what, _ in heard.delays] == killed
    assert "did not complete" not in capfd.readouterr().err


HOLDING = '''
"""Retrieval that notes which cores are held while it evaluates."""

import json
import os

from ray.util.placement_group import placement_group_table

from raxalign.tasks import retrieval


class Holding(retrieval.Retrieval):
    """The same task."""

    VERSION = 1

    def evaluate(self, *given):
        """Note what all rooms of the cluster hold."""
        there = [r for r in placement_group_table().values() if r["state"] == "CREATED"]
        cores = sum(b.get("CPU", 0) for room in there for b in room["bundles"].values())
        with open(os.path.join(os.path.dirname(__file__), "held"), "a") as file:
            file.write(json.dumps(cores) + "\\n")
        return super().evaluate(*given)
'''


@pytest.mark.slow
def test_one_worker_evaluates_what_two_have_trained_and_holds_no_more_than_its_own(tmp_path, heard):
    (tmp_path / "holding.py").write_text(HOLDING)
    path = write_grid(
        tmp_path,
        languages="{each: [de]}",
        size=200,
        sentences="[100]",
        methods=("finetune: {batch_size: 16}",),
        tasks=("holding: {}",),
        more="plugins: [holding.py]\n",
        run="workers: 2",
    )
    root = str(tmp_path / "storage")
    plan = open_grid(path, storage=root).plan
    job = Job(Storage(root), write_plan(plan, Storage(root)), workers=2)
    ended = run_grid(plan, job, heard)
    assert (ended.done, ended.failed, heard.trials) == (1, {}, [(plan.trials[0].key, None)])
    assert (tmp_path / "held").read_text() == "1.0\n"


class AddsNode:
    """Starts a node when jobs are seen to wait."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.added = cluster, 0

    def hear(self, event) -> None:
        if isinstance(event, Waiting) and not self.added:
            self.added += 1
            self._cluster.add_node(num_cpus=2)


class Actors:
    """Counts the actors of Ray that were ever started: when the first trial began, and when the
    last one ended.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = 0

    def hear(self, event) -> None:
        if isinstance(event, Began | JobEnded) and isinstance(event.what, Trial):
            self.last = len(actors())
            self.first = self.first or self.last


@pytest.mark.slow
def test_short_trials_start_no_workers_in_place_of_those_that_are_there(tmp_path) -> None:
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
    ended = run_grid(plan, Job(Storage(root), write_plan(plan, Storage(root))), counted.hear)
    assert (ended.done, ended.failed) == (12, {})
    assert counted.last <= counted.first + 1  # the second of two cores may get its worker late


@pytest.mark.slow
def test_a_grid_begins_without_a_node_and_runs_on_one_that_comes_later(
    plan, job, heard, monkeypatch, tmp_path
) -> None:
    kinds = {"worker": {"resources": {"CPU": 2}, "max_workers": 1}}
    (tmp_path / "config").write_text(json.dumps({"available_node_types": kinds, "max_workers": 1}))
    monkeypatch.setattr(room, "BOOTSTRAP", tmp_path / "config")
    head = {"num_cpus": 0, "resources": {DRIVER: 1000}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        adds = AddsNode(cluster)
        ended = run_grid(plan, job, all_of(heard, adds.hear), address=cluster.address)
    finally:
        disconnect()
        cluster.shutdown()
    assert adds.added == 1
    assert (ended.done, ended.failed) == (2, {})
