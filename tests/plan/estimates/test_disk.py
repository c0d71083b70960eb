"""Bytes on disk, from headers and configs before a run and from what was made after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.encoders.models.folder import config_footprint, footprint_of
from raxalign.plan.estimates.disk import estimate_disk
from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.values.retention import weights_of
from tests.grids import write_grid


def plan_at(folder: Path) -> Plan:
    path = write_grid(
        folder,
        languages="{each: [de]}",
        sentences="[1000]",
        size=3000,
        seeds="[0, 1, 2]",
        methods=("finetune: {lambda: [0.1, 1.0]}",),
    )
    return open_grid(path, storage=str(folder / "storage")).plan


def test_a_config_gives_the_parameters_of_multilingual_bert() -> None:
    config = {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "vocab_size": 119547,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
    }
    found = config_footprint(config)
    assert found is not None
    assert found.width == 768
    assert found.parameters == pytest.approx(177_974_523, rel=0.01)  # of its masked LM, counted
    assert config_footprint({"hidden_size": 768}) is None


def test_weights_count_once_per_run_once_per_cell_or_not_at_all(tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    each = 1_000_000
    measured = dict.fromkeys(weights_of(plan), each)
    assert len(measured) == 6
    disk = estimate_disk(plan, measured)
    assert disk.kinds["aligned"] == 6 * each
    assert disk.after["all"] - disk.after["best"] == 4 * each
    assert disk.after["all"] - disk.after["none"] == 6 * each
    assert disk.peak["none"] - disk.after["none"] == (1 + 3) * each, "a run and its checkpoint"
    assert estimate_disk(plan, measured, 2).peak["none"] - disk.after["none"] == 8 * each


def test_what_was_made_tells_of_what_was_not(tmp_path: Path) -> None:
    plan = plan_at(tmp_path)
    before = estimate_disk(plan, {})
    found = footprint_of(2, 32, 64, 400, 128)
    assert before.kinds["aligned"] == 6 * 4 * found.parameters
    training = next(
        s.key for s in plan.stages.values() if s.kind == "bitext" and s.params["part"] == "training"
    )
    one = next(iter(weights_of(plan)))
    after = estimate_disk(plan, {training: 500_000, one: 2_000_000})
    assert after.kinds["bitext"] > 500_000
    assert after.measured == 2
    assert after.kinds["aligned"] >= 2_000_000
    assert "disk, about: run.keep: best" in after.told("best")
