"""What a driver copies while a grid runs: several events in one turn, each trial once, with few
requests. MLflow and its database are real.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from raxalign.grid.trial import Searched
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target
from raxalign.tracking.recorder import Change, Recorder, Registry, SeenTrial, _shown
from raxalign.tracking.runs import Run
from tests.test_tracking import fill, target

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path, plan):
    fill(tmp_path, plan)
    recorder = Recorder(plan, target(tmp_path))
    recorder.open()
    return plan, recorder


def runs(recorder: Recorder) -> dict[str, object]:
    return {key: run for key, (run,) in recorder._runs.load().items()}


def run_of(recorder: Recorder, trial):
    return runs(recorder)[f"trial:{trial.key}"]


def test_a_trial_that_has_ended_is_there_whole_and_one_that_runs_with_its_first_points(
    site,
) -> None:
    plan, recorder = site
    one, other = plan.trials
    recorder.take([SeenTrial(one, begun=1000, attempts=1)])
    recorder.follow([SeenTrial(other, attempts=1)])
    first, second = run_of(recorder, one), run_of(recorder, other)
    assert (first.status, second.status) == ("FINISHED", "RUNNING")
    assert first.begun == 1000
    assert first.tags["raxalign.attempt"] == second.tags["raxalign.attempt"] == "1"
    assert first.metrics["retrieval/de-en/contextual_accuracy"] == 0.5
    assert first.metrics["train/loss"] == pytest.approx(1 / 3)
    assert second.metrics == {"train/loss": pytest.approx(1 / 3)}
    cell = next(run for key, run in runs(recorder).items() if key.startswith("cell:"))
    assert {run.tags["mlflow.parentRunId"] for run in (first, second)} == {cell.id}


def test_attempts_are_counted_and_an_error_goes_when_the_trial_succeeds(tmp_path, plan) -> None:
    trial, recorder = plan.trials[0], Recorder(plan, target(tmp_path))
    recorder.open()
    recorder.follow([SeenTrial(trial, attempts=1)])
    Ledger(str(tmp_path)).fail(trial.run, {"message": "it broke"})
    recorder.take([SeenTrial(trial, attempts=1)])
    failed = run_of(recorder, trial)
    assert (failed.status, failed.tags["raxalign.error"]) == ("FAILED", "it broke")
    assert failed.tags["raxalign.attempt"] == "2"
    fill(tmp_path, plan)
    recorder.take([SeenTrial(trial, attempts=1)])
    done = run_of(recorder, trial)
    assert (done.status, done.tags["raxalign.attempt"]) == ("FINISHED", "3")
    assert "raxalign.error" not in done.tags


@pytest.mark.parametrize("steps", [19, 20, 21, 300, 30_000])
def test_a_curve_has_its_first_and_last_point_and_at_most_twenty_however_it_grew(steps) -> None:
    for looks in ([], [1, 9, steps // 3, steps - 1]):
        found: list[int] = []
        for look in looks:
            found += _shown(found[-1] + 1 if found else 0, look, whole=False)
        found += _shown(found[-1] + 1 if found else 0, steps, whole=True)
        assert found == sorted(set(found))
        assert found[0] == 0
        assert found[-1] == steps - 1
        assert len(found) == min(steps, 20) if not looks else len(found) <= 20


def test_a_trial_that_a_search_suggested_is_below_the_run_of_the_grid(site) -> None:
    plan, recorder = site
    suggested = replace(plan.trials[0], searched=Searched("study", 0))
    recorder.follow([SeenTrial(suggested)])
    found = runs(recorder)
    grid = found["grid:small"]
    assert found[f"trial:{suggested.key}"].tags["mlflow.parentRunId"] == grid.id
    assert not [key for key in found if key.startswith("cell:")]


def test_a_run_of_an_older_layout_is_folded_below_its_cell_when_its_trial_ends_again(site) -> None:
    plan, recorder = site
    recorder.take([SeenTrial(plan.trials[0])])
    trial = run_of(recorder, plan.trials[0])
    grid = runs(recorder)["grid:small"]
    recorder._client.set_tag(trial.id, "mlflow.parentRunId", grid.id)
    runs(recorder)
    recorder.take([SeenTrial(plan.trials[0], attempts=1)])
    found = runs(recorder)
    (cell,) = (run for key, run in found.items() if key.startswith("cell:"))
    assert found[f"trial:{plan.trials[0].key}"].tags["mlflow.parentRunId"] == cell.id


ONE = Run("trial:1", "trial", "one")


@pytest.fixture
def registry(tmp_path, no_runs) -> Registry:
    """The runs of an experiment by their keys."""
    uri = f"sqlite:///{shutil.copy(no_runs, tmp_path / 'mlflow.db')}"
    target = Target(uri, Storage(str(tmp_path)))
    client = target.connect()
    return Registry(client, target.page(client, "small").experiment)


def test_the_earlier_of_two_runs_of_a_key_counts(registry):
    tags = {"raxalign.key": "trial:1", "raxalign.kind": "trial"}
    for start in (2000, 1000):
        run = registry._client.create_run(registry._experiment, start_time=start, tags=tags)
    (kept,) = registry.load()["trial:1"]
    assert registry.find(ONE).id == kept.id == run.info.run_id


def test_a_second_run_of_a_key_without_values_is_ended_and_deleted(registry):
    tags = {"raxalign.key": "trial:1", "raxalign.kind": "trial"}
    first, second = (
        registry._client.create_run(registry._experiment, start_time=start, tags=tags).info.run_id
        for start in (1000, 2000)
    )
    registry._client.log_metric(second, "loss", 1.0)
    registry.load()
    assert registry.find(ONE).id == second
    left = registry._client.get_run(first).info
    assert (left.status, left.lifecycle_stage) == ("KILLED", "deleted")


def test_more_values_than_one_request_takes_are_brought_in_several(registry):
    entry = registry.make(ONE)
    points = [("train/loss", float(step), step, 1) for step in range(1900)]
    registry.save(entry, Change(points=points, tags={"mark": "all"}))
    assert len(registry._client.get_metric_history(entry.id, "train/loss")) == 1900
    assert registry.find(ONE).tags["mark"] == "all"
