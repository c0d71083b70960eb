"""A grid whose tasks all fit readouts again: nothing reads the aligned encoder of a trial, so its
plan does not have that stage.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.single.export import export_trial, find
from tests.grids import write_grid

REFIT = "xnli: {data: phrasebook, readout: refit}"


def plan_of(folder: Path, *tasks: str) -> Plan:
    methods = ("none: {}", "rotation: {}", "finetune: {}")
    options = {"languages": "{each: [de]}", "sentences": "50"}
    return expand(load(write_grid(folder, methods=methods, tasks=tasks, **options)))


def stored(root: Path, name: str, plan: Plan) -> None:
    (root / "plans").mkdir(parents=True, exist_ok=True)
    (root / "plans" / f"{name}.json").write_text(plan.to_json(), encoding="utf-8")


def test_readouts_that_nothing_reads_before_the_training_are_not_a_stage(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, REFIT)
    there = {trial.method: trial.aligned in plan.stages for trial in plan.trials}
    assert there == {"none": True, "rotation": False, "finetune": True}


def test_every_trial_of_a_task_with_a_training_trains(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, REFIT)
    assert [plan.trains(trial) for trial in plan.trials] == [True, True, True]


def test_without_a_task_s_training_a_trial_trains_where_its_method_does(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "retrieval: {}")
    trains = {trial.method: plan.trains(trial) for trial in plan.trials}
    assert trains == {"none": False, "rotation": False, "finetune": True}


def test_exporting_such_a_trial_reports_that_no_task_reads_its_encoder(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, REFIT)
    (trial,) = [trial for trial in plan.trials if trial.method == "rotation"]
    stored(tmp_path / "storage", "one", plan)
    with pytest.raises(RaxalignError, match=r"none of its tasks reads it .* Add a task"):
        export_trial(trial.key, tmp_path / "out", root=str(tmp_path / "storage"))


def test_an_export_takes_the_plan_that_has_the_encoder(tmp_path: Path) -> None:
    """Though the other one has as many tasks, and comes first."""
    narrow, whole = plan_of(tmp_path, REFIT), plan_of(tmp_path, "retrieval: {}")
    (trial,) = [trial for trial in narrow.trials if trial.method == "rotation"]
    for name, plan in (("a", narrow), ("b", whole)):
        stored(tmp_path / "storage", name, plan)
    assert trial.aligned in find(trial.aligned, str(tmp_path / "storage")).plan.stages
