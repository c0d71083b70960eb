"""Collecting what a grid on an object store has made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from raxalign.errors import StorageError
from raxalign.plan.load import Opened, open_grid
from raxalign.store.storage import Storage
from raxalign.sweep import grid
from raxalign.sweep.events import JobEnded, Planned
from raxalign.sweep.grid import Collector, collect_plan
from tests.grids import write_grid

Pairs = Iterable[tuple[str, str]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A grid of 12 trials."""
    path = write_grid(tmp_path, languages="{each: [de]}", sentences="[100]", seeds="[0, 1, 2]")
    return open_grid(path, storage=str(tmp_path / "storage"))


def test_all_stages_and_results_of_a_plan_are_collected(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, str] = {}

    def collect(storage: Storage, artifacts: Pairs, evaluations: Iterable[str]) -> None:
        assert storage.root == "root"
        found.update({key: kind for kind, key in artifacts})
        found.update(dict.fromkeys(evaluations, "evaluation"))

    monkeypatch.setattr(Storage, "collect", collect)
    collect_plan(opened.plan, Storage("root"))
    stages = opened.plan.stages.values()
    assert found == {stage.key: stage.kind for stage in stages if not stage.inline}


def test_a_sweep_collects_after_each_500_trials(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[str] = []
    monkeypatch.setattr(grid, "collect_plan", lambda plan, root: times.append(plan.name))
    collector = Collector(Storage("root"))
    collector.hear(Planned(opened.plan, 1, 0, 0))
    for number in range(1, 1001):
        collector.hear(JobEnded(opened.plan.trials[0]))
        assert len(times) == number // 500


def test_a_store_that_refuses_stops_nothing(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(storage: Storage, artifacts: Pairs, evaluations: Iterable[str]) -> None:
        raise StorageError(storage.root)

    monkeypatch.setattr(Storage, "collect", refuse)
    collect_plan(opened.plan, Storage("root"))
