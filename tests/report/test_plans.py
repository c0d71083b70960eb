"""Plans and the state of a grid in words, what dev chose with fresh seeds, and devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from raxalign.analysis.cells import cells
from raxalign.cli import app
from raxalign.config.grid import load
from raxalign.config.run import RunConfig
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.expand import expand
from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import rows
from raxalign.report.cells.choice import points_of_methods
from raxalign.report.cells.confirmed import confirmed
from raxalign.report.cells.results import Results
from raxalign.report.doctor import _devices
from raxalign.report.plans import as_json, as_text
from raxalign.report.status import status
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.ledgers import fill, made_up
from tests.searches import search_grid


def plan_of(folder: Path) -> Plan:
    parts = {"languages": "{each: [de]}", "seeds": "[0, 1]", "sentences": "[50, 100]"}
    methods = ("none: {}", "finetune: {}")
    return expand(load(write_grid(folder, methods=methods, **parts)))  # type: ignore[arg-type]


def record(plan: Plan, ledger: Ledger, number: int) -> None:
    for key in plan.trials[number].evaluations.values():
        ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.5}, None)


def test_a_plan_says_what_falls_together_and_what_is_there(tmp_path: Path) -> None:
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    record(plan, Ledger(root), 0)
    stage = next(stage for stage in plan.stages.values() if stage.kind == "bitext")
    ArtifactStore(root).make(
        "bitext", stage.key, lambda folder: {"size": (folder / "x").write_bytes(b"x")}
    )
    text = as_text(plan, Storage(root), RunConfig())
    for told in (
        "small: 8 points, 5 trials (1 cached)",
        "none: 1 trial",
        "finetune: 4 trials",
        "bitext (1 done)",
        "none: 4 points are 1 trial",
    ):
        assert told in text
    assert "evaluations: 5 (1 done)" in text
    assert f"storage: {root}" in text


def test_a_failure_counts_until_its_trial_is_done(tmp_path: Path) -> None:
    plan, ledger = plan_of(tmp_path), Ledger(str(tmp_path / "storage"))
    ledger.fail(plan.trials[0].key, {"message": "out of memory"})
    state = status(plan, ledger)
    assert (state.done, len(state.failed), state.missing) == (0, 1, 4)
    record(plan, ledger, 0)
    state = status(plan, ledger)
    assert (state.done, state.failed, state.missing, state.evaluations_done) == (1, (), 4, 1)


def test_json_has_the_bytes_on_disk_and_what_was_not_kept(tmp_path: Path) -> None:
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    store = ArtifactStore(root)
    keys = [key for key, stage in plan.stages.items() if stage.kind == "aligned"][:2]
    for key in keys:
        store.make("aligned", key, lambda folder: {"size": (folder / "x").write_bytes(b"xyz")})
    Storage(store.root).drop("aligned", keys[0], "run.keep: none")
    data = json.loads(as_json(plan, Storage(root), RunConfig(keep="none")))
    stages = {stage["key"]: stage for stage in data["stages"]}
    assert [stages[key]["done"] for key in keys] == [False, True]
    assert [stages[key]["dropped"] for key in keys] == [True, False]
    assert [stages[key]["bytes"] for key in keys] == [3, 3]
    assert data["disk"]["keep"] == "none"
    assert set(data["disk"]["after"]) == set(data["disk"]["peak"]) == {"all", "best", "none"}


@pytest.mark.parametrize(
    ("capability", "more"), [((7, 5), ""), ((9, 0), "; `run: {precision: bf16}` is faster there")]
)
def test_bf16_is_recommended_on_a_card_that_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], more: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert _devices() == f"device   a card{more}"


def test_what_dev_chose_and_the_baseline_get_seeds_that_the_grid_does_not_have(
    tmp_path: Path,
) -> None:
    opened, ledger = made_up(tmp_path)
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    best = {
        points[0].key: len(points)
        for task in results.tasks
        for points in points_of_methods(results, task)
    }
    assert 3 in best.values(), "finetune has three points"
    again = confirmed(opened, 3).plan
    assert again.name == "small-confirmed"
    assert {trial.cell for trial in again.trials} == set(best)
    assert {trial.seed for trial in again.trials} <= {None, 2, 3, 4}
    trained = [trial for trial in again.trials if trial.method == "finetune"]
    assert len(trained) == 3 * len({trial.cell for trial in trained})
    assert len({trial.cell for trial in trained}) < 6, "not all points were chosen"
    fresh = {trial.aligned for trial in trained}
    assert not fresh & {trial.aligned for trial in opened.plan.trials}


def test_fresh_runs_are_results_of_their_own_and_leave_those_of_the_grid_alone(
    tmp_path: Path,
) -> None:
    opened, ledger = made_up(tmp_path)
    before = rows(opened.plan, ledger)
    again = confirmed(opened, 2)
    command = ["grid", str(opened.grid.path), "--storage", opened.root, "--confirm", "2"]
    assert "small-confirmed" in CliRunner().invoke(app, [*command, "--dry-run"]).output
    for trial in again.plan.trials:
        for task, key in trial.evaluations.items():
            if not ledger.has(key):
                fill(ledger, again, trial, task, key)
    assert rows(opened.plan, ledger) == before
    found = cells(rows(again.plan, ledger), "en", again.plan.measured)
    name = ("xnli", "avg", "accuracy", "test")
    assert {cell.values[name].n for cell in found if cell.method == "finetune"} == {2}
    assert confirmed(opened, 2).plan == again.plan, "the choice does not see the fresh runs"


def test_an_unfinished_grid_and_a_search_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = write_grid(tmp_path)
    with pytest.raises(RaxalignError, match=r"run `raxalign grid grid\.yaml` first"):
        confirmed(open_grid(path, storage=str(tmp_path / "storage")), 3)
    path = search_grid(tmp_path, "budget: 4 trials")
    with pytest.raises(RaxalignError, match=r"search\.confirm"):
        confirmed(open_grid(path, storage=str(tmp_path / "storage")), 3)


def test_a_part_of_a_grid_chooses_nothing(tmp_path: Path) -> None:
    command = ["grid", str(write_grid(tmp_path)), "--confirm", "3", "--limit", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "--confirm chooses among all trials" in done.output


def test_the_ledger_decides_and_not_the_order_of_cells(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path)
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    for points in points_of_methods(results, "xnli"):
        means = [cell.values["xnli", "avg_zero_shot", "accuracy", "dev"].mean for cell in points]
        assert means == sorted(means, reverse=True)
