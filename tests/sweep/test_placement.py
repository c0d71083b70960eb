"""Placement groups: whose they are, which are removed, and what waits for room."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from raxalign.sweep import placement
from raxalign.sweep.placement import (
    GroupWaits,
    describe_wait,
    remove_groups_of,
    remove_groups_of_dead_drivers,
)

OWN, DEAD, ALIVE = "01000000", "02000000", "03000000"


class Cluster:
    """Placement groups as Ray lists them."""

    def __init__(self, trial: str, monkeypatch) -> None:
        self.groups = {
            number: {"name": name, "state": state, "bundles": {0: {"CPU": 1.0}, 1: {"CPU": 1.0}}}
            for number, (name, state) in {
                "00": ("", "CREATED"),
                "01": ("raxalign-trainer-of-mine", "PENDING"),
                "02": (f"raxalign-{OWN}-{trial[:16]}-aaaaaaaa", "PENDING"),
                "03": (f"raxalign-{OWN}-{trial[:16]}-bbbbbbbb", "REMOVED"),
                "04": (f"raxalign-{OWN}-{'f' * 16}-cccccccc", "CREATED"),
                "05": (f"raxalign-{DEAD}-{trial[:16]}-dddddddd", "PENDING"),
                "06": (f"raxalign-{ALIVE}-{trial[:16]}-eeeeeeee", "PENDING"),
                "07": ("other-02000000-x-y", "CREATED"),
                "08": (None, "PENDING"),
            }.items()
        }
        self.removed: list[str] = []
        monkeypatch.setattr(placement, "placement_group_table", lambda: self.groups)
        monkeypatch.setattr(placement, "_this_job", lambda: OWN)
        monkeypatch.setattr(placement, "_remove", self.remove)
        jobs = [
            {"JobID": OWN, "IsDead": False},
            {"JobID": DEAD, "IsDead": True},
            {"JobID": ALIVE, "IsDead": False},
        ]
        monkeypatch.setattr(placement, "jobs", lambda: jobs)
        monkeypatch.setattr(placement.ray, "available_resources", lambda: {"CPU": 1.0})

    def remove(self, places: Iterable[str]) -> int:
        found = list(places)
        self.removed += found
        return len(found)


@pytest.fixture
def cluster(plan, monkeypatch) -> Cluster:
    return Cluster(plan.trials[0].key, monkeypatch)


def test_a_trial_removes_the_groups_of_its_own_job_alone(cluster, plan) -> None:
    remove_groups_of(plan.trials[0].key)
    assert cluster.removed == ["02"]


def test_groups_of_dead_drivers_are_removed_and_nobody_elses(cluster, heard) -> None:
    remove_groups_of_dead_drivers(heard)
    assert cluster.removed == ["05"]
    del cluster.groups["05"]
    remove_groups_of_dead_drivers(heard)
    assert heard.notices == [
        "the room of 1 group of workers is free again; a killed driver held it"
    ]


def test_what_waits_is_passed_on_and_its_end_once(cluster, plan, heard, monkeypatch) -> None:
    clock = iter([0.0, 1.0, 10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr(placement.time, "monotonic", lambda: next(clock))
    waits = GroupWaits(lambda: plan.by_key, heard)
    for _ in range(3):  # the first look comes too early
        waits.look()
    cluster.groups["02"]["state"] = "CREATED"
    waits.look()
    waits.look()
    key = plan.trials[0].key
    text = "waits for 2 workers with 1 CPU each; the cluster has 1 CPU free"
    assert [{k: (w.seconds, w.text) for k, w in waits.items()} for waits in heard.waits] == [
        {key: (0.0, text)},
        {key: (10.0, text)},
        {},
    ]


def test_every_resource_of_a_worker_is_named() -> None:
    bundle = {"CPU": 4.0, "GPU": 0.5}
    assert describe_wait([bundle], {"CPU": 12.0}) == (
        "waits for 1 workers with 4 CPU and 0.5 GPU each; the cluster has 12 CPU and 0 GPU free"
    )
