"""Shared stages: which are missing, and how making one on a worker ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from raxalign.errors import DataError, TransientError
from raxalign.store.storage import Storage
from raxalign.sweep import stage
from raxalign.sweep.advance import Notes
from raxalign.sweep.stage import missing_stages, run_stage, trains


def evaluations(plan) -> list[str]:
    return [key for trial in plan.trials for key in trial.evaluations.values()]


@pytest.fixture
def reports(monkeypatch) -> list[dict[str, object]]:
    """What is reported to Tune."""
    found: list[dict[str, object]] = []
    monkeypatch.setattr(stage.tune, "report", found.append)
    return found


def test_missing_stages_come_after_their_inputs_and_trials_keep_their_own(plan, job, heard) -> None:
    missing = missing_stages(plan, evaluations(plan), job.storage.artifacts, heard)
    kinds = {plan.stages[key].kind for key in missing}
    assert {"bitext", "pairs", "encoder"} <= kinds
    assert not kinds & {"evaluation", "aligned"}
    for place, key in enumerate(missing):
        inputs = set(plan.stages[key].inputs.values())
        assert inputs.intersection(missing) <= set(missing[:place])


def test_a_stage_that_is_made_is_not_missing_and_its_note_says_that_it_began(
    plan, job, heard, reports
) -> None:
    store = job.storage.artifacts
    missing = missing_stages(plan, evaluations(plan), store, heard)
    first = missing[0]
    assert plan.stages[first].kind == "bitext"
    assert not trains(plan, first)
    run_stage({"stage": first, "trains": False}, job)
    assert [(report["error"], report["done"]) for report in reports] == [("", True)]
    assert set(Notes(job.scratch).read(missing)) == {first}
    assert missing_stages(plan, evaluations(plan), store, heard) == missing[1:]


@pytest.mark.parametrize(
    ("fault", "error"),
    [(DataError("de.txt", "is empty"), "de.txt"), (ValueError("odd"), "ValueError: odd")],
)
def test_an_error_that_no_retry_would_mend_is_reported(
    plan, job, reports, monkeypatch, fault: Exception, error: str
) -> None:
    broken(monkeypatch, fault)
    run_stage({"stage": next(iter(plan.stages)), "trains": False}, job)
    assert error in str(reports[0]["error"])
    assert ("Traceback" in str(reports[0]["trace"])) == isinstance(fault, ValueError)


def test_an_error_that_a_retry_may_mend_is_raised(plan, job, reports, monkeypatch) -> None:
    broken(monkeypatch, TransientError("busy"))
    with pytest.raises(TransientError):
        run_stage({"stage": next(iter(plan.stages)), "trains": False}, job)
    assert reports == []


def test_a_storage_that_cannot_be_written_is_reported(plan, job, reports) -> None:
    nowhere = replace(job, storage=Storage("/dev/null/storage"))
    run_stage({"stage": next(iter(plan.stages)), "trains": False}, nowhere)
    assert reports[0]["error"]


def broken(monkeypatch, fault: Exception) -> None:
    """Let every stage fail."""

    class Workshop:
        def ensure(self, key: str) -> None:
            raise fault

    monkeypatch.setattr(stage, "open_workshop", lambda *given, **named: Workshop())
