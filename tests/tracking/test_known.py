"""A driver searches for runs only where another one may have made some. MLflow and its database
are real.
"""

from __future__ import annotations

import shutil

import pytest

from raxalign.store.alive import maker_name
from raxalign.tracking.client import connect, find_experiment
from raxalign.tracking.drivers import Driver
from raxalign.tracking.locks import Turns
from raxalign.tracking.registry import Change, Entry, Known, Registry
from raxalign.tracking.runs import Run

pytestmark = pytest.mark.slow
GRID, TRIAL = Run("grid:g", "grid", "g"), Run("trial:1", "trial", "one")


class Searched(Registry):
    """The registry, which counts what is searched for."""

    searched = 0

    def find(self, key: str) -> Entry | None:
        self.searched += 1
        return super().find(key)


@pytest.fixture(scope="module")
def client(tmp_path_factory, no_runs):
    return connect(f"sqlite:///{shutil.copy(no_runs, tmp_path_factory.mktemp('known'))}")


@pytest.fixture
def site(client, request) -> tuple[Searched, Known, Entry]:
    """A driver that has signed on alone."""
    experiment = find_experiment(client, "sqlite:///x/mlflow.db", request.node.name)
    registry = Searched(client, experiment, Turns("http://x"))
    known = Known(registry, Driver(maker_name()))
    grid = registry.make(GRID, known.signs)
    known.take(registry.all(), alone=True)
    registry.searched = 0
    return registry, known, grid


def test_the_only_driver_makes_and_finds_its_runs_without_a_search(site) -> None:
    registry, known, grid = site
    known.look(grid)
    assert known.find(TRIAL.key) is None
    made = known.make(TRIAL, {})
    assert known.find(TRIAL.key) is made
    assert registry.searched == 0
    known.drop(TRIAL.key)
    again = known.find(TRIAL.key)
    assert again is not None
    assert (again.id, registry.searched) == (made.id, 1)


def test_after_another_driver_signed_on_its_runs_are_found(site) -> None:
    registry, known, grid = site
    other = Driver("0badcafe-1-1")
    registry.save(grid, Change(tags=Known(registry, other).signs))
    theirs = registry.make(TRIAL, {})
    known.look(grid)
    assert not known.complete
    found = known.find(TRIAL.key)
    assert found is not None
    assert found.id == theirs.id


def test_one_that_came_and_left_between_two_looks_is_noticed(site) -> None:
    registry, known, grid = site
    other = Driver("0badcafe-1-1")
    registry.save(grid, Change(tags=Known(registry, other).signs))
    registry.save(grid, Change(without=[other.tag]))
    known.look(grid)
    assert not known.complete
