"""Which runs are a grid's: of what they were computed from, and in which storage."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.store.storage import Storage
from raxalign.sweep.tracker import TrackedGrid
from raxalign.tracking.client import Target, TrackingError
from raxalign.tracking.recorder import Recorder, RunState, SeenTrial
from raxalign.tracking.runs import PlanRuns, Run
from tests.e2e.runs import tracked
from tests.grids import write_grid
from tests.test_tracking import WHOLE, counts, fill, target

SIZES = {"alice": 300, "bob": 400}
METHODS = ("none: {}", "finetune: {}")
NONE = {"methods": ("none: {}",)}


def opened(folder: Path, **parts):
    folder.mkdir(exist_ok=True)
    given = {"size": 300, "sentences": "[100]", "methods": METHODS, **parts}
    return open_grid(write_grid(folder, **given), storage=str(folder))


def runs_of(plan, storage="one") -> dict[str, Run]:
    """The runs of a plan by their keys."""
    of = PlanRuns(plan)
    found = [of.grid(storage), *map(of.trial, plan.trials), *map(of.cell, plan.trials)]
    return {run.key: run for run in found}


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"seeds": "[0, 1, 2]"}, True),
        ({"tasks": ("retrieval: {}", "sentence_retrieval: {}")}, True),
        ({"size": 400}, False),
        ({"tasks": ("retrieval: {k: 5}",)}, False),
    ],
)
def test_a_grid_that_grows_has_the_same_runs_and_other_data_have_others(tmp_path, more, kept):
    before, after = (
        runs_of(opened(tmp_path / n, **p).plan) for n, p in {"a": {}, "b": more}.items()
    )
    same = {
        key: before[key].made.items() <= after[key].made.items() for key in before if key in after
    }
    assert {"grid:small", *(key for key in before if key.startswith("cell:"))} <= set(same)
    assert set(same.values()) == {kept}
    other = RunState("grid:small", "", "", 0, made=dict(before["grid:small"].made))
    assert not other.fits(
        runs_of(opened(tmp_path / "a").plan, "another storage")["grid:small"].made
    )


def test_the_data_of_a_grid_are_all_its_corpora():
    grid = Path(__file__).parents[2] / "grids" / "cao2020-more-languages.yaml"
    data = PlanRuns(expand(load(grid))).data()
    read = [own["corpus"] for own in json.loads(data["source"])["opus"]]
    assert read == [["Europarl"], ["MultiUN"], ["Tanzil"]]


def test_what_results_were_made_with_names_all_that_differs_and_stays_json_at_any_length():
    first = {"device": "cuda", "versions": {"torch": "2.1"}, "notes": {"links": {"de": "1a"}}}
    second = {"device": "cpu", "versions": {"torch": "2.2", "ray": "3"}, "notes": {}}
    assert PlanRuns.provenance_tags([first, second, second]) == {
        "raxalign.device": "cuda, cpu",
        "raxalign.precision": "fp32",
        "raxalign.versions": '{"ray": "3", "torch": "2.1, 2.2"}',
        "raxalign.links": '{"de": "1a"}',
    }
    many = {"notes": {"links": {f"{number:03}": "a" * 64 for number in range(300)}}}
    links = json.loads(PlanRuns.provenance_tags([many])["raxalign.links"])
    assert links.pop("...") == f"{300 - len(links)} more"
    assert 60 < len(links) < 70, "a link takes 75 of 5,000 characters"
    assert PlanRuns.provenance_tags([]) == {}


@pytest.fixture
def sites(tmp_path, no_runs):
    """Two storages with grids of one name on other data, and the database that both use."""
    uri = f"sqlite:///{shutil.copy(no_runs, tmp_path / 'team.db')}"
    plans = [opened(tmp_path / name, size=size, **NONE).plan for name, size in SIZES.items()]
    return [(plan, target(tmp_path / name, uri)) for plan, name in zip(plans, SIZES, strict=True)]


@pytest.mark.slow
def test_grids_of_one_name_leave_each_others_runs_alone(sites):
    (alice, of_alice), (bob, of_bob) = sites
    begun = Recorder(alice, of_alice)
    begun.open()
    begun.follow([SeenTrial(alice.trials[0])])
    fill(of_bob.storage.local, bob)
    with pytest.warns(UserWarning, match=r"experiment small .* another grid .* another `name:`"):
        Recorder.sync(bob, of_bob)
    assert counts(of_bob.uri) - Counter(WHOLE) == {
        ("grid", "RUNNING"): 1,
        ("cell", "RUNNING"): 1,
        ("trial", "RUNNING"): 1,
    }
    before = {run["id"]: run for run in tracked(of_bob.uri, "small")}
    fill(of_alice.storage.local, alice)
    begun.close()
    assert counts(of_alice.uri) == {kind: 2 * number for kind, number in WHOLE.items()}
    Recorder(alice, of_alice).describe("finetune beats none.")
    assert "beats" not in of_bob.connect().get_experiment("1").tags["mlflow.note.content"]
    ours = {run["id"]: run for run in tracked(of_bob.uri, "small")}
    theirs = {key: run for key, run in before.items() if run["status"] == "FINISHED"}
    assert theirs == {key: ours[key] for key in theirs}


@pytest.mark.slow
def test_runs_of_an_older_version_are_taken_over(sites):
    (plan, where), _ = sites
    fill(where.storage.local, plan)
    Recorder.sync(plan, where)
    client, first = where.connect(), tracked(where.uri, "small")
    for run in first:
        client.delete_tag(run["id"], "raxalign.made_of")
        client.delete_tag(run["id"], "raxalign.storage")
    Recorder.sync(plan, where)
    again = tracked(where.uri, "small")
    assert {run["id"] for run in again} == {run["id"] for run in first}
    assert all("raxalign.made_of" in run["tags"] for run in again)


@pytest.mark.slow
def test_a_deleted_experiment_is_told_with_what_to_do(sites):
    (plan, where), _ = sites
    fill(where.storage.local, plan)
    Recorder.sync(plan, where)
    where.connect().delete_experiment("1")
    with pytest.raises(TrackingError, match=r"small was deleted in MLflow.* restore .*`name:`"):
        Recorder.sync(plan, where)


@pytest.mark.slow
@pytest.mark.parametrize("former_stays", [True, False])
def test_a_storage_that_was_copied_or_moved_writes_into_itself(tmp_path, no_runs, former_stays):
    former, now, page = tmp_path / "former", tmp_path / "now ?%41", tmp_path / "report"
    grid = opened(former, **NONE)
    shutil.copy(no_runs, former / "mlflow.db")
    (former / "plans").mkdir()
    fill(former, grid.plan)
    Recorder.sync(grid.plan, target(former))
    (shutil.copytree if former_stays else shutil.move)(former, now)
    before = {path: path.stat().st_mtime_ns for path in former.rglob("*")}
    page.mkdir()
    (page / "report.html").write_text("<p>so</p>")
    grid = open_grid(now / "grid.yaml", storage=str(now))
    with pytest.warns(UserWarning, match=rf"made in {former} .* kept as mlflow\.db\.moved-"):
        assert TrackedGrid(grid).keep_report(page) is None
    assert {path: path.stat().st_mtime_ns for path in former.rglob("*")} == before
    assert former.exists() == former_stays
    assert len(list(now.glob("mlartifacts/*/artifacts/report/report.html"))) == 1
    assert len(list(now.glob("mlflow.db.moved-*"))) == 1
    assert counts(Target.of(Storage(str(now))).uri) == WHOLE
