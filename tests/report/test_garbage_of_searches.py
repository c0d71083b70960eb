"""What `gc` leaves to searches: trials that no grid file names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from raxalign.plan.load import Opened, open_grid
from raxalign.plan.plan import Plan
from raxalign.report import garbage as module
from raxalign.report.garbage import collect
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.drivers import signed_on
from raxalign.sweep.job import write_plan
from raxalign.sweep.search.source import SearchSource
from raxalign.tracking.drivers import Driver
from tests.grids import write_grid
from tests.searches import measure, open_search, run, search_grid, source_of


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return open_search(search_grid(tmp_path, "trials: 3, confirm: 1"))


@pytest.fixture
def other(searched: Opened, tmp_path: Path) -> Path:
    """A grid that shares nothing with the search but its storage."""
    (tmp_path / "other").mkdir()
    return write_grid(tmp_path / "other", languages="{each: [fr]}", methods=("none: {}",))


def gc(grid: Path, root: str, *, delete: bool = True) -> str:
    return collect([grid], root, delete=delete)


def begin(source: SearchSource, ended: dict[str, str | None]) -> Plan:
    """Do what a sweep does with the next point: write its plan, then align its encoder."""
    plan = source.more(ended, 1)
    assert plan is not None
    write_plan(plan, source.opened.storage)
    align(source.opened.root, plan)
    return plan


def align(root: str, plan: Plan) -> None:
    for trial in plan.trials:
        ArtifactStore(root).make("aligned", trial.aligned, lambda folder: {})


def aligned(root: str) -> set[str]:
    return {key for kind, key in ArtifactStore(root).keys() if kind == "aligned"}  # noqa: SIM118


def test_a_search_that_was_killed_keeps_the_artifacts_of_its_points(
    searched: Opened, other: Path
) -> None:
    source = source_of(searched)
    plan = begin(source, {})
    measure(searched.storage.ledger, plan, plan.trials[0])
    second = begin(source, {plan.trials[0].key: None})
    source.owner.leave()
    for grid in (other, searched.grid.path):
        told = gc(grid, searched.root)
        assert aligned(searched.root) == {plan.trials[0].aligned, second.trials[0].aligned}
        assert "removed 1 plans" not in told
    name = searched.plan.studies[0].name
    assert f"kept what searches need that are not finished: {name}." in gc(other, searched.root)
    assert "kept" not in gc(searched.grid.path, searched.root)


def test_a_search_that_is_over_keeps_nothing_for_other_grids(searched: Opened, other: Path) -> None:
    source = source_of(searched)
    ended: dict[str, str | None] = {}
    for _ in range(3 + 1):  # the points, and the best one again
        plan = begin(source, ended)
        assert len(aligned(searched.root)) > 0
        gc(other, searched.root)
        assert plan.trials[0].aligned in aligned(searched.root)
        measure(searched.storage.ledger, plan, plan.trials[0])
        ended = {plan.trials[0].key: None}
    assert source.more(ended, 1) is None
    assert "removed 4 artifacts" in gc(other, searched.root)
    assert aligned(searched.root) == set()


def test_a_search_that_is_given_up_keeps_nothing(searched: Opened, other: Path) -> None:
    begin(source_of(searched), {})
    (record,) = (Path(searched.root) / "studies").glob("*.json")
    record.unlink()
    assert "removed 1 artifacts" in gc(other, searched.root)


def test_a_living_search_that_has_spent_its_budget_keeps_what_it_made(
    searched: Opened, other: Path
) -> None:
    run(source_of(searched))
    plan = open_grid(searched.grid.path, storage=searched.root).plan
    align(searched.root, plan)
    with signed_on(searched.storage, write_plan(plan, searched.storage)):
        gc(other, searched.root)
        assert len(aligned(searched.root)) == len({trial.aligned for trial in plan.trials})


@pytest.mark.parametrize("which", ["search", "other"])
def test_a_point_that_is_suggested_while_gc_looks_loses_nothing(
    searched: Opened, other: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(searched)
    begin(source, {})
    listed, late = module.waste, []

    def waste(needs: module.Needed) -> Iterator[module.Waste]:
        if not late:  # gc has read what is needed, and has listed nothing yet
            late.append(begin(source_of(searched), {}))
        yield from listed(needs)

    monkeypatch.setattr(module, "waste", waste)
    gc(other if which == "other" else searched.grid.path, searched.root)
    assert late[0].trials[0].aligned in aligned(searched.root)


def test_signs_of_dead_drivers_of_searches_go(searched: Opened, other: Path) -> None:
    alive, dead = source_of(searched).owner, source_of(searched).owner
    dead.driver = Driver("0badcafe-1-1")
    dead.beat()
    sign = Path(searched.root) / "studies" / "drivers" / f"{dead.token}.json"
    sign.write_text(json.dumps({**json.loads(sign.read_text()), "at": 0.0}))
    assert "removed 1 drivers" in gc(other, searched.root)
    left = [file.stem for file in sign.parent.iterdir()]
    assert left == [alive.token]
