"""Curves of trials: each of the training that made it, whichever grids have a trial of its key."""

import json

import pytest

from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from raxalign.sweep.work import attempt
from tests.grids import TINY, write_grid


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path / "storage"))


def shown(spool, **named):
    return {(name, step): value for name, value, step, _ in spool.read(**named)}


def test_a_trial_shows_the_trainings_of_its_own_parts_and_the_runs_of_no_other_tasks(storage):
    one = Spool(storage, "trial", {"aligned": "finetune", "nli": "xnli", "tags": "pos"})
    one.report({"finetune/loss": 8.0}, 1, "aligned")
    one.report({"xnli/loss": 1.0}, 1, "nli")
    one.report({"gpu_hours/0": 2.0}, 10)
    one.flush()
    longer = Spool(storage, "trial", {"aligned": "finetune", "longer": "xnli", "tags": "pos"})
    assert shown(longer) == {("finetune/loss", 1): 8.0}
    longer.report({"xnli/loss": 3.0}, 1, "longer")
    longer.report({"gpu_hours/0": 4.0}, 20)
    longer.flush()
    of_both = {("finetune/loss", 1): 8.0}
    assert shown(longer) == {**of_both, ("xnli/loss", 1): 3.0, ("gpu_hours/0", 20): 4.0}
    assert shown(one) == {**of_both, ("xnli/loss", 1): 1.0, ("gpu_hours/0", 10): 2.0}
    parts = {"aligned": "finetune", "nli": "xnli", "tags": "pos", "more": "ner"}
    more = Spool(storage, "trial", parts)
    more.report({"gpu_hours/0": 0.5}, 30)
    more.flush()
    assert shown(more) == {**shown(one), ("gpu_hours/0", 30): 0.5}, "what it took before counts"


def test_two_trainings_of_one_name_have_a_curve_each(storage):
    spool = Spool(storage, "trial", {"aligned": "none", "a": "xnli.en", "b": "xnli.de"})
    spool.report({"xnli/loss": 1.0}, 1, "a")
    spool.flush()
    assert shown(spool) == {("xnli/loss", 1): 1.0}
    spool.report({"xnli/loss": 2.0}, 1, "b")
    spool.flush()
    assert shown(spool) == {("xnli.en/xnli/loss", 1): 1.0, ("xnli.de/xnli/loss", 1): 2.0}


def test_curves_of_earlier_versions_are_those_of_a_finished_trial_with_no_others(storage):
    spool = Spool(storage, "trial", {"aligned": "none", "a": "xnli"})
    earlier = {"node": "host", "points": [["xnli/loss", 1.0, 1, 1000]]}
    storage.files.write("spool/trial/1-1.json", json.dumps(earlier).encode())
    assert shown(spool, whole=True) == {("xnli/loss", 1): 1.0}
    assert shown(spool) == {}, "they may be of another grid's trial"
    spool.report({"xnli/loss": 2.0}, 1, "a")
    spool.flush()
    assert shown(spool, whole=True) == shown(spool) == {("xnli/loss", 1): 2.0}


@pytest.mark.slow
def test_a_grid_whose_task_trains_longer_has_curves_and_failures_of_its_own(tmp_path, storage):
    def trial_of(folder, steps):
        (tmp_path / folder).mkdir()
        task = f"xnli: {{setting: zero-shot, data: phrasebook, {steps}}}"
        methods = ("finetune: {batch_size: 16, steps: 2}",)
        parts = {"encoder": TINY, "languages": "{each: [de]}", "sentences": "100"}
        path = write_grid(tmp_path / folder, **parts, methods=methods, tasks=(task,))
        plan = open_grid(path, storage=storage.root).plan
        return Job(storage, StoredPlans(storage).write(plan)), *plan.trials

    first, one = trial_of("one", "epochs: 1")
    second, other = trial_of("two", "epochs: 2")
    assert one.key == other.key
    assert attempt(first, one.key) is None
    curves = shown(Spool(storage, one.key, one.parts))
    assert {name.partition("/")[0] for name, _ in curves} >= {"scratch", "finetune", "xnli"}
    found = shown(Spool(storage, other.key, other.parts))
    assert found == {at: v for at, v in curves.items() if at[0].startswith(("scratch", "finetune"))}
    second.keep_failure(other.run, "it broke", "")
    assert storage.ledger.failures([one.run, other.run]).keys() == {other.run}
    assert attempt(second, other.key) is None
    assert storage.ledger.failure(other.run) is None
    found = shown(Spool(storage, other.key, other.parts))
    last = max(step for name, step in curves if name == "xnli/loss")
    assert max(step for name, step in found if name == "xnli/loss") == 2 * last
    assert shown(Spool(storage, one.key, one.parts)) == curves
