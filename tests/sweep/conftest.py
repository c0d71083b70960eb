"""A grid of one language for the tests of `sweep`, and a small Ray that those of a module share."""

from __future__ import annotations

import pytest

from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.stored import StoredPlans
from raxalign.grid.trial import Trial
from raxalign.store.storage import Storage
from raxalign.sweep.events import Event, GroupsWaiting, JobEnded, Said
from raxalign.sweep.job import Job
from raxalign.sweep.order import SweepJob
from tests.grids import small_plan


def expected_job(key, group, seconds, inputs=frozenset(), family=""):
    """A trial as it is expected."""
    return SweepJob(key, is_trial=True, inputs=inputs, cost=seconds, group=group, family=family)


class Heard:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def _ends(self, kind: type) -> list[JobEnded]:
        ends = [event for event in self.events if isinstance(event, JobEnded)]
        return [event for event in ends if isinstance(event.what, kind) and not event.pruned]

    @property
    def _said(self) -> list[Said]:
        return [event for event in self.events if isinstance(event, Said)]

    @property
    def trials(self) -> list[tuple[str, str | None]]:
        return [(event.what.key, event.error) for event in self._ends(Trial)]

    @property
    def stages(self) -> list[tuple[str, str | None]]:
        return [(event.what.kind, event.error) for event in self._ends(Stage)]

    @property
    def pruned(self) -> list[tuple[str, str]]:
        ends = [event for event in self.events if isinstance(event, JobEnded)]
        return [(event.what.key, event.pruned) for event in ends if event.pruned]

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self._said if event.what is None]

    @property
    def delays(self) -> list[tuple[object, str]]:
        return [(event.what, event.message) for event in self._said if event.what is not None]

    @property
    def waits(self) -> list[GroupsWaiting]:
        return [event for event in self.events if isinstance(event, GroupsWaiting)]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="session")
def plan(tmp_path_factory) -> Plan:
    """`none` and `rotation` on German with 100 sentences."""
    parts = {"languages": "{each: [de]}", "sentences": "[100]"}
    methods = ("none: {}", "rotation: {}")
    return small_plan(tmp_path_factory.mktemp("sweep"), size=200, methods=methods, **parts)


@pytest.fixture
def job(plan, tmp_path) -> Job:
    storage, scratch = Storage(str(tmp_path / "storage")), str(tmp_path / "scratch")
    return Job(storage, StoredPlans(storage).write(plan), max_failures=0, scratch=scratch)
