"""A grid whose tasks all fit readouts again: nothing reads the aligned encoder of a trial, so its
plan does not have that stage.
"""

from dataclasses import replace

import pytest

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.grid.stored import StoredPlans
from raxalign.single.export import export_trial, find
from raxalign.stages import Workshop
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.grids import TINY, of_kind, small_plan

REFIT = "xnli: {data: phrasebook, readout: refit}"


def plan_of(folder, *tasks, run="workers: 2", finetune="finetune: {}"):
    methods = ("none: {}", "rotation: {}", finetune)
    options = {"languages": "{each: [de]}", "sentences": "50", "encoder": TINY}
    return small_plan(folder, methods=methods, tasks=tasks, run=run, **options)


@pytest.fixture(scope="module")
def refit(tmp_path_factory):
    return plan_of(tmp_path_factory.mktemp("refit"), REFIT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The plan of a grid in which a task reads the aligned encoders."""
    return plan_of(tmp_path_factory.mktemp("whole"), "retrieval: {}")


def rotated(plan):
    (trial,) = [trial for trial in plan.trials if trial.method == "rotation"]
    return trial


def test_readouts_that_nothing_reads_before_the_training_are_not_a_stage(refit):
    there = {trial.method: trial.aligned in refit.stages for trial in refit.trials}
    assert there == {"none": True, "rotation": False, "finetune": True}


def test_every_trial_of_a_task_with_a_training_trains(refit):
    assert [refit.trains(trial) for trial in refit.trials] == [True, True, True]


def test_without_a_task_s_training_a_trial_trains_where_its_method_does(whole):
    trains = {trial.method: whole.trains(trial) for trial in whole.trials}
    assert trains == {"none": False, "rotation": False, "finetune": True}


def test_a_training_whose_dropout_draws_for_whole_batches_is_not_divided(tmp_path):
    off = "finetune: {dropout: false}"
    for task, finetune, divided in (
        (REFIT, "finetune: {}", []),
        (REFIT, off, ["finetune"]),
        ("retrieval: {}", "finetune: {}", []),
        ("retrieval: {}", off, ["finetune"]),
    ):
        plan = plan_of(tmp_path, task, run="workers: 1", finetune=finetune)
        assert [trial.method for trial in plan.trials if plan.trains(trial)] == divided


def test_exporting_such_a_trial_fits_the_readouts_of_the_encoder_before_the_training(
    refit, tmp_path
):
    storage, trial, told = Storage(str(tmp_path / "storage")), rotated(refit), []
    StoredPlans(storage).write(refit)
    (start,) = of_kind(refit, "encoder")
    Workshop(refit, storage, Runtime()).ensure(start.key)
    export_trial(trial.key, tmp_path / "out", storage=storage, tell=told.append)
    assert told[0].endswith("before it are fitted now, and no task measured them")
    assert ArtifactStore(storage.root).has("aligned", trial.aligned)
    read = AlignedEncoder.from_export(tmp_path / "out")
    assert [(t.lang, t.sort) for t in read.transforms] == [("de", "readout")]


def test_exporting_a_trial_whose_encoder_no_task_reads_reports_what_to_add(refit, tmp_path):
    storage, bare = Storage(str(tmp_path)), replace(rotated(refit), evaluations={})
    StoredPlans(storage).write(replace(refit, trials=(bare,)))
    with pytest.raises(RaxalignError, match=r"none of its tasks reads it\. Add a task"):
        export_trial(bare.key, tmp_path / "out", storage=storage)


def test_an_export_takes_the_plan_that_has_the_encoder(refit, whole, tmp_path):
    """Though the other one has as many tasks, and comes first."""
    storage, narrow, trial = Storage(str(tmp_path)), refit, rotated(refit)
    while StoredPlans.path(narrow.to_json()) > StoredPlans.path(whole.to_json()):
        narrow = replace(narrow, points=narrow.points + 1)
    for plan in (narrow, whole):
        StoredPlans(storage).write(plan)
    assert trial.aligned in find(trial.aligned, storage).plan.stages
