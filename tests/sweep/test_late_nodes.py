"""A sweep on a cluster whose only node comes later."""

from __future__ import annotations

import json

import pytest
import ray
from ray.cluster_utils import Cluster

from raxalign.sweep import cluster as module
from raxalign.sweep import running
from raxalign.sweep.cluster import disconnect
from raxalign.sweep.events import Waiting
from raxalign.sweep.job import Job
from raxalign.sweep.running import run_sweep
from tests.sweep.test_on_ray import _token, nothing  # noqa: F401

pytestmark = pytest.mark.slow


class AddsNode:
    """Starts a node when jobs are seen to wait."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.added = cluster, 0

    def hear(self, event) -> None:
        if isinstance(event, Waiting) and not self.added:
            self.added += 1
            self._cluster.add_node(num_cpus=2)


def test_a_grid_begins_without_a_node_and_runs_on_one_that_comes_later(
    plan, job, monkeypatch, tmp_path
):
    kinds = {"worker": {"resources": {"CPU": 2}, "max_workers": 1}}
    (tmp_path / "config").write_text(json.dumps({"available_node_types": kinds, "max_workers": 1}))
    monkeypatch.setattr(module, "BOOTSTRAP", tmp_path / "config")
    monkeypatch.setattr(running, "run_job", nothing)
    head = {"num_cpus": 0, "resources": {Job.DRIVER: 1000}, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        adds = AddsNode(cluster)
        ended = run_sweep(plan, job, adds.hear, name=plan.name, address=cluster.address)
    finally:
        disconnect()
        cluster.shutdown()
    assert adds.added == 1
    assert (ended.done, ended.failed) == (2, {})
