"""`raxalign status --watch` shows a grid as it advances, and ends with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from raxalign.cli import app
from raxalign.grid.load import open_grid
from raxalign.inspect.status import Status
from raxalign.store.ledger import Ledger
from tests.ledgers import fill_all, made_up

pytestmark = pytest.mark.slow


def test_watch_shows_what_changes_and_ends_with_the_grid(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path, methods=("none: {}", "rotation: {}"), more="")
    empty = open_grid(opened.grid.path, storage=str(tmp_path / "other"))
    shown = Status.watched(empty)
    first = next(shown)
    assert first.startswith("small: 0 of ")
    fill_all(empty.storage.ledger, opened)
    rest = list(shown)
    total = sum(bool(trial.evaluations) for trial in opened.plan.trials)
    assert rest[-1].startswith(f"small: {total} of {total} trials done")


def test_watch_of_a_grid_with_a_failed_trial_exits_with_1(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path, methods=("none: {}",), more="")
    other = Ledger(str(tmp_path / "other"))
    for trial in opened.plan.trials:
        other.fail(trial.run, {"message": "out of luck"})
    command = ["status", "--watch", str(opened.grid.path), "--storage"]
    failed = CliRunner().invoke(app, [*command, other.root])
    assert (failed.exit_code, "out of luck" in failed.stdout) == (1, True)
    assert CliRunner().invoke(app, [*command, ledger.root]).exit_code == 0
