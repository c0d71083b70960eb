"""The nodes of a cluster that grows, and requests that it can never meet."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ray.core.generated.autoscaler_pb2 import ClusterConfig, GetClusterStatusReply

from raxalign.errors import ResourceError
from raxalign.store.storage import Storage
from raxalign.sweep import nodes
from raxalign.sweep.job import Job
from raxalign.sweep.nodes import Nodes, find_nodes, refuse_impossible, wait_for_named
from raxalign.sweep.room import DRIVER

HEAD = {"CPU": 8.0, DRIVER: 1000.0}
GPUS = {"CPU": 16.0, "GPU": 4.0}
FIRST = {**HEAD, "node:__internal_head__": 1.0}


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A cluster with a head and without an autoscaler, as Ray describes it."""
    found = SimpleNamespace(alive=[FIRST], config=None, status=GetClusterStatusReply(), asked=[])

    def listed() -> list[dict[str, object]]:
        alive = [{"Alive": True, "Resources": node} for node in found.alive]
        return [*alive, {"Alive": False, "Resources": GPUS}]

    monkeypatch.setattr(nodes.ray, "nodes", listed)
    monkeypatch.setattr(nodes.state, "get_cluster_config", lambda: found.config)
    monkeypatch.setattr(nodes, "_status", lambda: found.status)
    monkeypatch.setattr(nodes, "request_resources", lambda bundles: found.asked.append(bundles))
    monkeypatch.setattr(nodes, "BOOTSTRAP", tmp_path / "config")
    return found


def test_without_an_autoscaler_only_living_nodes_count(cluster) -> None:
    assert find_nodes("auto") == Nodes((FIRST,))
    assert find_nodes(None) == Nodes((FIRST,))


def test_nodes_of_the_bootstrap_file_count_before_they_are_there(cluster) -> None:
    kinds = {"head": {"resources": HEAD}, "gpu": {"resources": GPUS, "max_workers": 9}}
    config = {"available_node_types": kinds, "head_node_type": "head", "max_workers": 3}
    nodes.BOOTSTRAP.write_text(json.dumps(config))
    assert find_nodes("auto") == Nodes((FIRST,), (GPUS, GPUS, GPUS))
    cluster.alive.append({**GPUS, "memory": 1e9})
    assert find_nodes("auto").later == (GPUS, GPUS)
    assert find_nodes(None).later == ()


def test_a_group_waits_for_the_machines_that_the_cluster_file_names(
    cluster, heard, monkeypatch
) -> None:
    provider = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2", "10.0.0.3"]}
    nodes.BOOTSTRAP.write_text(json.dumps({"provider": provider}))
    cluster.alive[:] = [{**FIRST, "CPU": 1.0}]
    monkeypatch.setattr(nodes.time, "sleep", lambda seconds: cluster.alive.append({"CPU": 1.0}))
    job = Job(Storage(""), "", workers=3)
    found = wait_for_named(job, find_nodes("auto"), heard, training=True)
    assert len(found.alive) == 3
    assert heard.notices == [
        "the cluster file names 3 machines, and 1 joined so far: waiting for the others"
    ]


def test_nobody_waits_where_a_trial_fits_or_nobody_else_is_named(
    cluster, heard, monkeypatch
) -> None:
    def fail(seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr(nodes.time, "sleep", fail)
    found, large = find_nodes("auto"), Job(Storage(""), "", workers=99)
    assert wait_for_named(large, found, heard, training=True) is found
    provider = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2"]}
    nodes.BOOTSTRAP.write_text(json.dumps({"provider": provider}))
    assert wait_for_named(Job(Storage(""), "", workers=2), found, heard, training=True) is found
    assert heard.notices == []


def test_machines_that_never_join_are_waited_for_for_a_while(cluster, heard, monkeypatch) -> None:
    provider = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2"]}
    nodes.BOOTSTRAP.write_text(json.dumps({"provider": provider}))
    monkeypatch.setattr(nodes, "JOINING", 0.0)
    job, found = Job(Storage(""), "", workers=99), find_nodes("auto")
    assert wait_for_named(job, found, heard, training=True) is found
    with pytest.raises(ResourceError, match="99 workers"):
        refuse_impossible(job, found, training=True)


def test_what_the_autoscaler_publishes_counts_without_a_bootstrap_file(cluster) -> None:
    cluster.config = ClusterConfig()
    group = cluster.config.node_group_configs.add(max_count=2, name="gpu")
    group.resources.update({"CPU": 16, "GPU": 4})
    assert find_nodes("auto") == Nodes((FIRST,), (GPUS, GPUS))
    refuse_impossible(Job(Storage(""), "", gpus=1), find_nodes("auto"), training=False)


def test_a_cluster_with_a_silent_autoscaler_is_taken_to_double(cluster) -> None:
    cluster.status.autoscaling_state.autoscaler_state_version = 7
    found = find_nodes("auto")
    assert found == Nodes((FIRST,), grows=True)
    assert len(found.all(Job(Storage(""), ""))) == 1 + 8
    assert found.all(Job(Storage(""), "", gpus=1))[1:] == ({"CPU": 1.0, "GPU": 1},) * 4


def test_a_silent_autoscaler_is_asked_and_its_refusal_names_the_resource(cluster) -> None:
    cluster.status.autoscaling_state.autoscaler_state_version = 7
    job, silent = Job(Storage(""), "", gpus=1), Nodes((FIRST,), grows=True)
    refuse_impossible(job, silent, training=False)
    assert cluster.asked == [[{"CPU": 1.0, "GPU": 1}], []]
    cluster.status.autoscaling_state.infeasible_cluster_resource_constraints.add()
    with pytest.raises(ResourceError, match=r"1 worker with 1 CPU and 1 GPU each .* cannot start"):
        refuse_impossible(job, silent, training=False)
    with pytest.raises(ResourceError, match="a group of 9 workers with 1 CPU each"):
        refuse_impossible(Job(Storage(""), "", workers=9), silent, training=True)
    assert cluster.asked[-1] == []


def test_what_fits_on_living_nodes_asks_nobody(cluster) -> None:
    refuse_impossible(Job(Storage(""), ""), Nodes((FIRST,), grows=True), training=False)
    assert cluster.asked == []


def test_without_an_autoscaler_the_missing_resource_is_named() -> None:
    with pytest.raises(ResourceError, match="asks for 1 GPU, and no node has more than 0"):
        refuse_impossible(Job(Storage(""), "", gpus=1), Nodes((FIRST,)), training=False)
