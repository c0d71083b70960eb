"""What fits on the nodes of a cluster beside what runs, and what never does."""

from __future__ import annotations

import pytest

from raxalign.errors import ResourceError
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from raxalign.sweep.order import Needs
from raxalign.sweep.room import DRIVER, Room, check_fits

HEAD = {"CPU": 8.0, DRIVER: 1000.0}
GPUS = {"CPU": 16.0, "GPU": 4.0}


def free(job: Job, *nodes: dict[str, float], **held: int) -> int:
    """The workers for which there is room."""
    return Room(job, nodes).free(Needs.WORKER, {Needs[name]: n for name, n in held.items()})


def test_workers_are_what_the_nodes_hold_together() -> None:
    assert free(Job(Storage(""), "", threads=2), HEAD, GPUS) == 12
    assert free(Job(Storage(""), "", threads=3), HEAD, GPUS) == 7
    assert free(Job(Storage(""), "", threads=3, gpus=1), HEAD, GPUS) == 4


def test_a_gpu_can_be_shared_by_fractions() -> None:
    assert free(Job(Storage(""), "", gpus=0.1), GPUS) == 16
    assert free(Job(Storage(""), "", gpus=0.5), GPUS) == 8


def test_what_runs_takes_room_and_groups_take_that_of_their_workers() -> None:
    job = Job(Storage(""), "", workers=3, threads=2)
    assert free(job, HEAD, GPUS, WORKER=2, GROUP=2, CPUS=1) == 3


def test_stages_without_training_take_cores_and_no_gpu() -> None:
    job = Job(Storage(""), "", gpus=1)
    room = Room(job, [{"CPU": 4.0, "GPU": 1.0}])
    assert room.free(Needs.WORKER, {Needs.CPUS: 3}) == 1
    assert room.free(Needs.CPUS, {Needs.WORKER: 1}) == 3
    assert not room.fits(Needs.WORKER, {Needs.WORKER: 1})
    assert room.fits(Needs.CPUS, {Needs.WORKER: 1})


def test_groups_at_once_are_those_that_hold_all_their_workers() -> None:
    room = Room(Job(Storage(""), "", workers=3), [{"CPU": 4.0}, {"CPU": 4.0}])
    assert room.fits(Needs.GROUP, {Needs.GROUP: 1})
    assert not room.fits(Needs.GROUP, {Needs.GROUP: 2})
    assert not room.fits(Needs.GROUP, {Needs.GROUP: 1, Needs.WORKER: 3})


def test_one_step_is_requested_from_a_cluster_without_nodes() -> None:
    room = Room(Job(Storage(""), "", workers=2, gpus=1), [])
    assert room.fits(Needs.GROUP, {})
    assert room.fits(Needs.WORKER, {Needs.WORKER: 0})
    assert not room.fits(Needs.WORKER, {Needs.WORKER: 1})


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(Storage(""), "", threads=17), "asks for 17 CPU, and no node has more than 16"),
        (Job(Storage(""), "", gpus=5), "asks for 5 GPU, and no node has more than 4"),
        (Job(Storage(""), "", workers=30), "30 workers .* room for 24"),
    ],
)
def test_what_no_node_can_give_is_refused_by_its_name(job: Job, message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        check_fits(job, [HEAD, GPUS], training=True)


def test_resources_must_be_on_one_node() -> None:
    with pytest.raises(ResourceError, match="no node has both"):
        check_fits(
            Job(Storage(""), "", threads=8, gpus=1), [HEAD, {"CPU": 2, "GPU": 4}], training=False
        )


def test_groups_need_a_node_for_their_drivers_and_inline_trials_do_not() -> None:
    check_fits(Job(Storage(""), "", workers=2), [GPUS], training=False)
    with pytest.raises(ResourceError, match="trial_driver"):
        check_fits(Job(Storage(""), "", workers=2), [GPUS], training=True)
    check_fits(Job(Storage(""), "", workers=2), [HEAD, GPUS], training=True)
