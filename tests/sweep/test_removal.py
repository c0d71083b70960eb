"""Dropping weights while a grid runs: results stay the same, and other drivers keep what they
need.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.inspect.plans import PlanView
from raxalign.inspect.status import Status
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal
from raxalign.store.storage import Storage
from raxalign.sweep.events import Began, JobEnded
from raxalign.sweep.grid import Keeper
from raxalign.sweep.job import Job
from raxalign.values.results import rows
from raxalign.values.retention import weights_of
from tests.grids import TINY, write_grid

XNLI = (
    "xnli: {setting: zero-shot, data: phrasebook, epochs: 1, readout: keep,"
    " phrasebook: {train: 24, dev: 9, test: 9}}"
)


def open_at(folder: Path, *, tasks: tuple[str, ...] = (XNLI,)) -> Opened:
    folder.mkdir(exist_ok=True)
    sizes = {"languages": "{each: [de]}", "sentences": "[40]", "seeds": "[0, 1]"}
    methods, every = ("rotation: {}", "finetune: {batch_size: 8}"), ("retrieval: {}", *tasks)
    path = write_grid(folder, encoder=TINY, size=160, methods=methods, tasks=every, **sizes)
    return open_grid(path, storage=str(folder / "storage"))


def run(opened: Opened, keep: str, made: list[str] | None = None) -> Keeper:
    root = opened.root
    keeper = Keeper(opened.plan, Storage(root), keep)  # type: ignore[arg-type]
    workshop = Job(Storage(root), StoredPlans(Storage(root)).write(opened.plan)).open_workshop()
    if made is not None:
        workshop.announce = lambda stage, seconds: made.append(stage.kind)
    for trial in opened.plan.trials:
        keeper.hear(Began(trial))
        workshop.run_trial(trial.key)
        keeper.hear(JobEnded(trial))
    return keeper


def values(opened: Opened) -> list[str]:
    found = rows(opened.plan, opened.storage.ledger)
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def stored(opened: Opened) -> set[str]:
    weights = weights_of(opened.plan)
    return {key for _, key in opened.storage.artifacts.keys() if key in weights}  # noqa: SIM118


@pytest.mark.slow
def test_values_are_those_of_keep_all_and_a_new_task_makes_weights_again(tmp_path):
    expected, left = [], {}
    for keep in ("all", "none"):
        opened = open_at(tmp_path / keep, tasks=())
        run(opened, keep)
        more, made = open_at(tmp_path / keep), []
        run(more, keep, made).finish()
        expected.append(values(more))
        left[keep] = stored(more)
        if keep == "none":
            assert made.count("aligned") == 2, "the two fine-tuned encoders; rotations stay"
    assert expected[0] == expected[1]
    assert left["all"] == weights_of(open_at(tmp_path / "all").plan)
    assert left["none"] == set()


@pytest.fixture
def finished(tmp_path) -> Opened:
    """A grid with made-up results and weights."""
    opened = open_at(tmp_path)
    store, ledger = opened.storage.artifacts, opened.storage.ledger
    for key in weights_of(opened.plan):
        kind = opened.plan.stages[key].kind
        store.make(kind, key, lambda folder: {"n": (folder / "w").write_bytes(b"w" * 1000)})
    for trial in opened.plan.trials:
        for task, key in trial.evaluations.items():
            scores = [{"lang": "de", "metric": "accuracy", "split": "dev", "value": 0.5}]
            fields = {"scores": scores if task == "xnli" else [], "params": {}, "seconds": 1.0}
            ledger.write(key, fields, None)
    return opened


def drop_weights(opened: Opened) -> str | None:
    return Keeper(opened.plan, opened.storage, opened.run.keep).finish()


def with_keep(opened: Opened, keep: str) -> Opened:
    return Opened(opened.grid, opened.run.model_copy(update={"keep": keep}), opened.plan)


def test_a_finished_grid_drops_when_it_is_run_again_and_says_how_much(finished):
    assert drop_weights(finished) is None
    count = len(stored(finished))
    message = drop_weights(with_keep(finished, "none"))
    assert message == f"run.keep: none: the weights of {count} stages were not kept (6.0 kB)"
    assert stored(finished) == set()
    assert drop_weights(with_keep(finished, "none")) is None


def test_plan_and_status_tell_dropped_from_never_made(finished):
    drop_weights(with_keep(finished, "none"))
    text = PlanView(finished.plan, Storage(finished.root), finished.run).text()
    assert "2 finetune" not in text
    assert "(0 done, 2 not kept)" in text
    assert "nothing is left to run" in text
    told = Status.of(finished.plan, Ledger(finished.root)).text(finished.plan)
    assert "the weights of 6 stages were not kept (run.keep)" in told


def test_what_another_living_driver_needs_stays(finished):
    folder, tasks = finished.grid.path.parent / "other", (XNLI, "mlqa: {data: phrasebook}")
    other = open_at(folder, tasks=tasks)
    place = StoredPlans(Storage(finished.root)).write(other.plan)
    lock = f"locks/drivers/0badcafe-1-1-ab.{place.rpartition('/')[2]}/1"
    record = {"maker": "0badcafe-1-1", "host": "h", "pid": 1, "nonce": "x", "beat": 0}
    finished.storage.files.write(lock, seal({**record, "done": False}))
    drop_weights(with_keep(finished, "none"))
    kinds = sorted(finished.plan.stages[key].kind for key in stored(finished))
    assert kinds == ["aligned", "aligned"], "mlqa is still to be evaluated on them"
    finished.storage.files.remove(lock.rpartition("/")[0])
    drop_weights(with_keep(finished, "none"))
    assert stored(finished) == set()


def test_a_storage_that_refuses_keeps_the_weights_and_is_reported(finished, monkeypatch):
    from raxalign.errors import StorageError

    def refuse(*args: object) -> int:
        raise StorageError("x: cannot remove: no permission")

    monkeypatch.setattr("raxalign.store.storage.Storage.drop", refuse)
    message = drop_weights(with_keep(finished, "none"))
    assert "some weights could not be removed: x: cannot remove: no permission" in message
