"""`raxalign status --watch` shows a grid as it advances, and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raxalign.store.ledger import Ledger
from tests.ledgers import fill, made_up

pytestmark = pytest.mark.slow


@contextmanager
def watching(grid: Path, storage: str) -> Iterator[subprocess.Popen[str]]:
    """The command, with its output line by line."""
    # Where the tests run in the background of a shell, Ctrl-C is ignored, and children inherit it.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from raxalign.cli import main; sys.exit(main())"
    )
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code, "status", "--watch", str(grid), "--storage", storage],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_watch_shows_what_changes_and_ends_with_the_grid(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path, methods=("none: {}", "rotation: {}"), more="")
    empty = Ledger(str(tmp_path / "other"))
    with watching(opened.grid.path, empty.root) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("small: 0 of ")
        for trial in opened.plan.trials:
            for task, key in trial.evaluations.items():
                if not empty.has(key):
                    fill(empty, opened, trial, task, key)
        rest = process.stdout.readlines()
        assert process.wait(timeout=60) == 0
    total = sum(bool(trial.evaluations) for trial in opened.plan.trials)
    assert rest[-1].startswith(f"small: {total} of {total} trials done")
    assert len({first, *rest}) == len([first, *rest])


def test_watch_of_a_grid_with_a_failed_trial_exits_with_1(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path, methods=("none: {}",), more="")
    other = Ledger(str(tmp_path / "other"))
    for trial in opened.plan.trials:
        other.fail(trial.key, {"message": "out of luck"})
    with watching(opened.grid.path, other.root) as process:
        assert "out of luck" in process.communicate(timeout=60)[0]
    assert process.returncode == 1
    with watching(opened.grid.path, ledger.root) as process:
        assert process.wait(timeout=60) == 0


def test_watch_is_ended_by_ctrl_c_as_every_command_is(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path, methods=("none: {}",), more="")
    with watching(opened.grid.path, str(tmp_path / "other")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
