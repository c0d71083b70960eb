"""Shared stages: which are missing, and what becomes of those that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep.advance import Notes
from raxalign.sweep.prepare import Made, failed_inputs, missing_stages, prepare


def evaluations(plan) -> list[str]:
    return [key for trial in plan.trials for key in trial.evaluations.values()]


def test_missing_stages_come_after_their_inputs_and_trials_keep_their_own(plan, job, heard) -> None:
    missing = missing_stages(plan, evaluations(plan), ArtifactStore(job.root), heard)
    kinds = {plan.stages[key].kind for key in missing}
    assert {"bitext", "pairs", "encoder"} <= kinds
    assert not kinds & {"evaluation", "aligned"}
    for place, key in enumerate(missing):
        inputs = set(plan.stages[key].inputs.values())
        assert inputs.intersection(missing) <= set(missing[:place])


def test_a_failure_is_that_of_every_evaluation_that_needs_the_stage(plan) -> None:
    encoder = next(stage.key for stage in plan.stages.values() if stage.kind == "encoder")
    made = Made(encoder, error="no text")
    for trial in plan.trials:
        keys = list(trial.evaluations.values())
        assert failed_inputs(plan, {encoder: made}, keys) is made
        assert failed_inputs(plan, {"other": Made("other", error="x")}, keys) is None


@pytest.mark.slow
def test_stages_are_made_once_and_notes_say_that_they_began(plan, job, heard, local_ray) -> None:
    store = ArtifactStore(job.root)
    missing = missing_stages(plan, evaluations(plan), store, heard)
    assert prepare(plan, missing, job, heard) == {}
    assert len(heard.stages) == len(missing)
    assert {error for _, error in heard.stages} == {None}
    assert set(Notes(job.scratch).read()) == set(missing)
    assert missing_stages(plan, evaluations(plan), store, heard) == []


@pytest.mark.slow
def test_a_stage_whose_input_failed_is_not_tried_and_has_its_message(
    plan, job, heard, local_ray
) -> None:
    missing = missing_stages(plan, evaluations(plan), ArtifactStore(job.root), heard)
    nowhere = replace(job, root="/dev/null/storage")
    failed = prepare(plan, missing, nowhere, heard)
    assert set(failed) == set(missing)
    assert all(made.error for made in failed.values())
