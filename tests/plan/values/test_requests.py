"""What commands ask of an object store: not more for many trials than for a few."""

import pytest

from raxalign.api import run
from raxalign.grid.load import open_grid
from raxalign.inspect.plans import PlanView
from raxalign.inspect.status import Status
from raxalign.sweep.tracker import TrackedGrid
from raxalign.values.results import rows
from tests.aws import BUCKET
from tests.grids import write_grid


@pytest.fixture
def empty(proxy, tmp_path, monkeypatch):
    """Opens a grid of so many weights on an empty bucket."""
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))

    def made(weights, **parts):
        lambdas = [value / 100 for value in range(1, 1 + weights)]
        methods = ("none: {}", f"finetune: {{lambda: {lambdas}}}")
        path = write_grid(tmp_path, languages="{each: [de]}", size=300, methods=methods, **parts)
        return open_grid(path, storage=f"s3://{BUCKET}/{tmp_path.name}")

    return made


@pytest.fixture
def opened(empty, proxy):
    found = empty(19, sentences="[100, 200]", seeds="[0, 1, 2]")
    assert len(found.plan.trials) == 115
    proxy.requests.clear()
    return found


def test_a_plan_of_many_trials_asks_ten_times_at_most(opened, proxy):
    assert "115 trials" in PlanView(opened.plan, opened.storage, opened.run).text()
    assert len(proxy.requests) <= 10
    proxy.requests.clear()
    PlanView(opened.plan, opened.storage, opened.run).json()
    assert len(proxy.requests) <= 10


def test_the_state_of_many_trials_asks_ten_times_at_most(opened, proxy):
    ledger = opened.storage.ledger
    ledger.fail(opened.plan.trials[5].run, {"message": "no"})
    proxy.requests.clear()
    found = Status.of(opened.plan, ledger)
    assert (found.trials, found.done) == (115, 0)
    assert [*found.failed.values()] == ["no"]
    assert len(proxy.requests) <= 10


def test_what_is_done_is_seen_by_listings(opened, proxy):
    store, ledger, plan = opened.storage.artifacts, opened.storage.ledger, opened.plan
    stages = [stage for stage in plan.stages.values() if not stage.inline]
    made = [stage for stage in stages if stage.kind != "evaluation"][:9]
    for stage in made:
        store.make(stage.kind, stage.key, lambda folder: {})
    keys = [key for trial in plan.trials[:9] for key in trial.evaluations.values()]
    for key in keys:
        score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
        ledger.write(key, {"params": {}, "scores": [score], "seconds": 1.0}, None)
    text = PlanView(plan, opened.storage, opened.run).text()
    assert f"evaluations: 115 ({len(set(keys))} done)" in text
    assert len(rows(plan, ledger)) == 9
    for read in (
        lambda: PlanView(plan, opened.storage, opened.run).text(),
        lambda: rows(plan, ledger),
    ):
        proxy.requests.clear()
        read()
        assert len(proxy.requests) <= 10


def test_a_finished_grid_asks_ten_times_at_most(empty, proxy, monkeypatch):
    opened = empty(2, sentences="[100]")
    score = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for key, stage in opened.plan.stages.items():
        if stage.kind == "evaluation":
            ledger.write(key, {"params": {}, "scores": [score], "seconds": 1.0}, None)
        elif not stage.inline:
            store.make(stage.kind, key, lambda folder: {})
    monkeypatch.setattr(TrackedGrid, "copy_all", lambda tracked: 10)
    run(opened)
    proxy.requests.clear()
    assert run(open_grid(opened.grid.path, storage=opened.root)).cached == 3
    assert len(proxy.requests) <= 10
    plan = opened.plan
    looks = {
        "plan": lambda: PlanView(plan, opened.storage, opened.run).text(),
        "status": lambda: Status.of(plan, ledger),
        "results": lambda: rows(plan, opened.storage.ledger),
    }
    for name, look in looks.items():
        look()  # the machine reads what it has not read before
        proxy.requests.clear()
        look()
        assert len(proxy.requests) <= 10, name
