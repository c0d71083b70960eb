"""The nodes of a cluster that grows: what fits on them beside what runs, what never does, and the
card that workers get where the grid leaves it to the cluster.
"""

import json
from types import SimpleNamespace

import pytest

from raxalign.errors import ResourceError
from raxalign.store.storage import Storage
from raxalign.sweep import cluster as module
from raxalign.sweep.cluster import Nodes, Room, check_fits
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds

PLAIN, CARDED = {"CPU": 8.0}, {"CPU": 16.0, "GPU": 2.0}
HEAD = {"CPU": 8.0, Job.DRIVER: 1000.0}
GPUS = {"CPU": 16.0, "GPU": 4.0}
FIRST = {**HEAD, "node:__internal_head__": 1.0}
RUN = {Holds.WORKER: 2, Holds.GROUP: 2, Holds.CPUS: 1}


def job_of(**options):
    """A job without a plan."""
    return Job(Storage(""), "", **options)


@pytest.mark.parametrize(
    ("options", "nodes", "held", "free"),
    [
        ({"threads": 2}, [HEAD, GPUS], {}, 12),
        ({"threads": 3}, [HEAD, GPUS], {}, 7),
        ({"threads": 3, "gpus": 1}, [HEAD, GPUS], {}, 4),
        ({"gpus": 0.1}, [GPUS], {}, 16),
        ({"gpus": 0.5}, [GPUS], {}, 8),
        # what runs takes room, and groups take that of their workers
        ({"workers": 3, "threads": 2}, [HEAD, GPUS], RUN, 3),
    ],
)
def test_workers_are_what_the_nodes_hold_together_beside_what_runs(options, nodes, held, free):
    assert Room(job_of(**options), nodes).free(Holds.WORKER, held) == free


def test_stages_without_training_take_cores_and_no_gpu():
    place = Room(job_of(gpus=1), [{"CPU": 4.0, "GPU": 1.0}])
    assert place.free(Holds.WORKER, {Holds.CPUS: 3}) == 1
    assert place.free(Holds.CPUS, {Holds.WORKER: 1}) == 3
    assert not place.fits(Holds.WORKER, {Holds.WORKER: 1})
    assert place.fits(Holds.CPUS, {Holds.WORKER: 1})


def test_groups_at_once_are_those_that_hold_all_their_workers():
    place = Room(job_of(workers=3), [{"CPU": 4.0}, {"CPU": 4.0}])
    assert place.fits(Holds.GROUP, {Holds.GROUP: 1})
    assert not place.fits(Holds.GROUP, {Holds.GROUP: 2})
    assert not place.fits(Holds.GROUP, {Holds.GROUP: 1, Holds.WORKER: 3})


def test_one_step_is_requested_from_a_cluster_without_nodes():
    place = Room(job_of(workers=2, gpus=1), [])
    assert place.fits(Holds.GROUP, {})
    assert place.fits(Holds.WORKER, {Holds.WORKER: 0})
    assert not place.fits(Holds.WORKER, {Holds.WORKER: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 17}, "asks for 17 CPU, and no node has more than 16"),
        ({"gpus": 5}, "asks for 5 GPU, and no node has more than 4"),
        ({"workers": 30}, "30 workers .* room for 24"),
    ],
)
def test_what_no_node_can_give_is_refused_by_its_name(options, message):
    with pytest.raises(ResourceError, match=message):
        check_fits(job_of(**options), [HEAD, GPUS], training=True)


def test_resources_must_be_on_one_node():
    with pytest.raises(ResourceError, match="no node has both"):
        check_fits(job_of(threads=8, gpus=1), [HEAD, {"CPU": 2, "GPU": 4}], training=False)


def test_groups_need_a_node_for_their_drivers_and_inline_trials_do_not():
    job = job_of(workers=2)
    check_fits(job, [GPUS], training=False)
    with pytest.raises(ResourceError, match="trial_driver"):
        check_fits(job, [GPUS], training=True)
    check_fits(job, [HEAD, GPUS], training=True)


def name(*workers):
    """Have the cluster file name a head and workers."""
    provider = {"type": "local", "head_ip": "10.0.0.1", "worker_ips": list(workers)}
    module.BOOTSTRAP.write_text(json.dumps({"provider": provider}))


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A cluster with a head, as Ray describes it."""
    found = SimpleNamespace(alive=[FIRST])

    def listed():
        alive = [{"Alive": True, "Resources": node} for node in found.alive]
        return [*alive, {"Alive": False, "Resources": GPUS}]

    monkeypatch.setattr(module.ray, "nodes", listed)
    monkeypatch.setattr(module, "BOOTSTRAP", tmp_path / "config")
    return found


def test_only_living_nodes_are_known_where_nothing_says_what_may_come(cluster):
    assert Nodes.find("auto") == Nodes((FIRST,), may_grow=True)
    assert Nodes.find(None) == Nodes((FIRST,))


def test_nodes_of_the_bootstrap_file_count_before_they_are_there(cluster):
    kinds = {"head": {"resources": HEAD}, "gpu": {"resources": GPUS, "max_workers": 9}}
    config = {"available_node_types": kinds, "head_node_type": "head", "max_workers": 3}
    module.BOOTSTRAP.write_text(json.dumps(config))
    assert Nodes.find("auto") == Nodes((FIRST,), (GPUS, GPUS, GPUS))
    cluster.alive.append({**GPUS, "memory": 1e9})
    assert Nodes.find("auto").later == (GPUS, GPUS)
    assert Nodes.find(None).later == ()


def test_a_group_waits_for_the_machines_that_the_cluster_file_names(cluster, heard, monkeypatch):
    name("10.0.0.2", "10.0.0.3")
    cluster.alive[:] = [{**FIRST, "CPU": 1.0}]
    monkeypatch.setattr(module.time, "sleep", lambda seconds: cluster.alive.append({"CPU": 1.0}))
    found = Nodes.find("auto").wait_for_named(job_of(workers=3), heard, training=True)
    assert len(found.alive) == 3
    assert heard.notices == [
        "the cluster file names 3 machines, and 1 joined so far: waiting for the others"
    ]


def test_nobody_waits_where_a_trial_fits_or_nobody_else_is_named(cluster, heard, monkeypatch):
    def fail(seconds):
        raise AssertionError

    monkeypatch.setattr(module.time, "sleep", fail)
    found = Nodes.find("auto")
    assert found.wait_for_named(job_of(workers=99), heard, training=True) is found
    name("10.0.0.2")
    assert found.wait_for_named(job_of(workers=2), heard, training=True) is found
    assert heard.notices == []


def test_machines_that_never_join_are_waited_for_for_a_while(cluster, heard, monkeypatch):
    name("10.0.0.2")
    monkeypatch.setattr(module, "JOINING", 0.0)
    job, found = job_of(workers=99), Nodes.find("auto")
    assert found.wait_for_named(job, heard, training=True) is found
    with pytest.raises(ResourceError, match="99 workers"):
        found.refuse_impossible(job, heard, training=True)


def test_a_quarter_more_is_requested_of_a_cluster_that_may_grow_but_no_group(cluster):
    found = Nodes((FIRST,), may_grow=True)
    assert len(found.all(job_of())) == 1 + 2
    assert found.all(job_of(gpus=1))[1:] == ({"CPU": 1.0, "GPU": 1},)
    assert found.all(job_of(workers=2)) == (FIRST,)


def test_what_no_node_has_is_waited_for_where_others_may_come_and_refused_elsewhere(heard):
    job, message = job_of(gpus=1), "a worker asks for 1 GPU, and no node has more than 0: "
    told = Nodes((FIRST,), may_grow=True).refuse_impossible(job, heard, training=False)
    assert told.startswith(message)
    assert heard.notices == [f"{told}. Waiting for nodes that the cluster may start"]
    with pytest.raises(ResourceError, match=message):
        Nodes((FIRST,)).refuse_impossible(job, heard, training=False)
    assert Nodes((FIRST,)).refuse_impossible(job_of(), heard, training=False) is None


def test_without_cards_nothing_is_asked_for(heard):
    found, _ = Nodes((PLAIN,)).with_gpus(job_of(gpus=None), heard)
    assert found.gpus == 0.0
    assert heard.notices == []


def test_what_the_grid_says_is_left_alone(heard):
    job, nodes = job_of(gpus=0.5), Nodes((CARDED,))
    assert nodes.with_gpus(job, heard) == (job, nodes)


def test_a_worker_has_a_card_where_there_are_any_now_or_later(heard):
    for nodes in (Nodes((PLAIN, CARDED)), Nodes((FIRST,), (CARDED,))):
        found, _ = nodes.with_gpus(job_of(gpus=None), heard)
        assert found.gpus == 1.0
    assert len(heard.notices) == 2
