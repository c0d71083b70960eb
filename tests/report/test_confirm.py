"""What a grid chose on dev, run again with fresh seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from raxalign.analysis.cells import cells
from raxalign.cli import app
from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.plan.values.results import rows
from raxalign.report.cells.choice import points_of_methods
from raxalign.report.cells.confirmed import confirmed
from raxalign.report.cells.results import Results
from tests.grids import write_grid
from tests.ledgers import fill, made_up
from tests.searches import search_grid


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
