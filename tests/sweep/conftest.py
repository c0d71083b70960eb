"""A grid of one language for the tests of `sweep`, and a small Ray that those of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.store.storage import Storage
from raxalign.sweep.cluster import connect, disconnect
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.observer import Observer
from tests.grids import write_grid


class Heard(Observer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str | None]] = []
        self.trials: list[tuple[str, str | None]] = []
        self.pruned: list[tuple[str, str]] = []
        self.notices: list[str] = []
        self.delays: list[tuple[object, str]] = []
        self.waits: list[dict[str, object]] = []

    def noticed(self, message: str) -> None:
        self.notices.append(message)

    def delayed(self, step, message) -> None:
        self.delays.append((step, message))

    def trials_waiting(self, waits) -> None:
        self.waits.append(dict(waits))

    def stage_finished(self, stage, seconds, error) -> None:
        self.stages.append((stage.kind, error))

    def trial_finished(self, trial, error) -> None:
        self.trials.append((trial.key, error))

    def trial_pruned(self, trial, where) -> None:
        self.pruned.append((trial.key, where))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """`none` and `rotation` on German with 100 sentences."""
    path = write_grid(
        tmp_path,
        languages="{each: [de]}",
        size=200,
        sentences="[100]",
        methods=("none: {}", "rotation: {}"),
    )
    return open_grid(path, storage=str(tmp_path / "storage")).plan


@pytest.fixture
def job(plan: Plan, tmp_path: Path) -> Job:
    root = str(tmp_path / "storage")
    return Job(
        Storage(root),
        write_plan(plan, Storage(root)),
        max_failures=0,
        scratch=str(tmp_path / "scratch"),
    )


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """Ray on this machine, for one module: `run_grid` of other tests starts and ends its own."""
    connect(None, Job(Storage(""), "", threads=1))
    yield
    disconnect()
