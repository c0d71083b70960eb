"""The share of a card that workers get where the grid leaves it to the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raxalign.stages import FITTED, GPU_BYTES
from raxalign.sweep import gpu_shares
from raxalign.sweep.gpu_shares import BESIDES, PER_PARAMETER, settle, share_of_a_card, wanted_bytes
from raxalign.sweep.room import Nodes, demand, slots

GIB = 2**30
HEAD, CARDS = {"CPU": 8.0}, {"CPU": 16.0, "GPU": 2.0}


@pytest.fixture(autouse=True)
def card(monkeypatch):
    monkeypatch.setattr(gpu_shares, "smallest_card", lambda: 80 * GIB)


def test_without_cards_nothing_is_asked_for(job, heard):
    found, _ = settle(replace(job, auto_gpus=True), Nodes((HEAD,)), heard)
    assert (found.gpus, found.auto_gpus) == (0.0, False)
    assert heard.notices == []


def test_what_the_grid_says_is_left_alone(job, heard):
    nodes = Nodes((CARDS,))
    assert settle(replace(job, gpus=0.5), nodes, heard) == (replace(job, gpus=0.5), nodes)


def test_small_trainings_share_a_card_and_the_user_is_told(job, heard):
    found, _ = settle(replace(job, auto_gpus=True), Nodes((HEAD, CARDS)), heard)
    assert found.gpus == 1 / 8
    assert heard.notices == ["each worker gets 1/8 of a card (run.gpus_per_worker: auto)"]


def test_a_worker_of_a_group_has_a_card_of_its_own(job, heard):
    found, _ = settle(replace(job, auto_gpus=True, workers=2), Nodes((CARDS,)), heard)
    assert found.gpus == 1.0


@pytest.mark.parametrize("count", range(1, 9))
def test_as_many_workers_fit_on_a_card_as_its_share_says(job, count):
    share = share_of_a_card(80 * GIB * 0.95 / count, 80 * GIB)
    node = {"CPU": 64.0, "GPU": 1.0}
    assert slots(node, demand(replace(job, gpus=share))) == count


def test_before_anything_was_measured_the_parameters_count(plan, job):
    encoder = next(stage for stage in plan.stages.values() if stage.kind == "encoder")
    parameters = encoder.plugin().footprint(lambda name: None).parameters
    assert wanted_bytes(plan, job.storage) == parameters * PER_PARAMETER + BESIDES


def test_what_was_measured_takes_the_place_of_the_estimate(plan, job):
    store = job.storage.artifacts
    for key, stage in plan.stages.items():
        if stage.kind in FITTED:
            store.make(stage.kind, key, lambda folder: {GPU_BYTES: 8 * GIB})
    assert wanted_bytes(plan, job.storage) == 8 * GIB * 1.25 + GIB
