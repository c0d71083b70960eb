"""What travels to workers, and a trial or a stage on one: what it leaves, and which errors are kept
or raised.
"""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.errors import DataError, PeerLost, StorageError, TransientError
from raxalign.grid.stored import StoredPlans
from raxalign.stages import Workshop
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.job import Inbox, Job
from raxalign.sweep.order import Holds, SweepJob
from raxalign.sweep.running import missing_stages
from raxalign.sweep.work import _Machine, _run_stage, attempt, run_job


@pytest.fixture
def failing(monkeypatch):

    def fail(error):
        def run_trial(workshop, key):
            raise error

        monkeypatch.setattr(Workshop, "run_trial", run_trial)
        monkeypatch.setattr(Workshop, "train_trial", run_trial)

    return fail


@pytest.mark.parametrize(
    ("error", "message"),
    [(DataError("de.txt", "is empty"), "de.txt: is empty"), (ValueError("odd"), "ValueError: odd")],
)
def test_an_error_of_a_trial_is_kept_with_its_type_and_not_raised(
    plan, job, failing, error, message
):
    key = plan.trials[0].key
    failing(error)
    assert attempt(job, key) == message
    found = job.storage.ledger.failure(job.run_of(key))
    assert found["message"] == message
    assert type(error).__name__ in found["trace"]


def test_what_a_retry_may_mend_is_raised_and_not_kept(plan, job, failing):
    key = plan.trials[0].key
    failing(TransientError("again"))
    with pytest.raises(TransientError):
        attempt(job, key)
    assert job.storage.ledger.failure(job.run_of(key)) is None


def test_losing_a_peer_is_never_kept_whatever_the_code_made_of_it(plan, job, failing):
    key = plan.trials[0].key
    failing(PeerLost("rank 1 is gone"))
    with pytest.raises(PeerLost):
        attempt(job, key, world_size=2)
    bug = TypeError("NoneType")
    bug.__context__ = PeerLost("rank 1 is gone")
    failing(bug)
    with pytest.raises(PeerLost, match="rank 1 is gone"):
        attempt(job, key, world_size=2)
    assert job.storage.ledger.failure(job.run_of(key)) is None


def test_of_a_group_the_first_worker_to_fail_says_why(plan, job, failing):
    key = plan.trials[0].key
    for error in (ValueError("first"), TypeError("second")):
        failing(error)
        with pytest.raises(type(error)):
            attempt(job, key, world_size=2)
    assert job.storage.ledger.failure(job.run_of(key))["message"] == "ValueError: first"


def test_a_storage_that_takes_nothing_hides_no_failure(plan, job):
    nowhere = replace(job, storage=Storage("/dev/null/storage"))
    nowhere.keep_failure(plan.trials[0].run, "odd", "")


def test_the_hours_of_cards_are_those_of_each_worker_of_an_attempt(plan, job, failing):
    key = plan.trials[0].key
    failing(ValueError("odd"))
    for rank in (0, 1):
        with pytest.raises(ValueError, match="odd"):
            attempt(replace(job, gpus=0.5), key, rank=rank, world_size=2)
    found = {
        name: value for name, value, *_ in Spool(job.storage, key, plan.trials[0].parts).read()
    }
    assert found.keys() == {"gpu_hours/0", "gpu_hours/1"}
    assert all(0 < value < 1 for value in found.values())


def test_the_first_worker_samples_the_machine_and_a_short_trial_has_none(
    plan, job, failing, monkeypatch
):
    key, spool = plan.trials[0].key, Spool(job.storage, plan.trials[0].key, plan.trials[0].parts)
    failing(ValueError("odd"))
    attempt(job, key)
    assert spool.read() == []
    monkeypatch.setattr(_Machine, "EVERY", 0.0)
    with pytest.raises(ValueError, match="odd"):
        attempt(job, key, rank=1, world_size=2)
    assert spool.read() == []
    attempt(job, key)
    found = {name: value for name, value, *_ in spool.read()}
    names = ("cpu_utilization_percentage", "process_memory_megabytes")
    assert found.keys() == {Spool.SYSTEM + name for name in names}
    assert found["system/process_memory_megabytes"] > 10


def run_stage(key, job):
    return _run_stage({"stage": key, "trains": False}, job, lambda holder: 0.0)


def test_a_stage_that_is_made_is_not_missing_and_its_note_says_that_it_began(plan, job, heard):
    store = job.storage.artifacts
    wanted = [key for trial in plan.trials for key in trial.evaluations.values()]
    missing = missing_stages(plan, wanted, store, heard)
    first = missing[0]
    assert plan.stages[first].kind == "bitext"
    assert SweepJob.of(plan, [first], [], 1, {})[0].needs is Holds.CPUS
    found = run_stage(first, job)
    assert (found["error"], found["done"]) == ("", True)
    assert set(Inbox(job.scratch).advances(missing)) == {first}
    assert missing_stages(plan, wanted, store, heard) == missing[1:]


@pytest.mark.parametrize(
    ("fault", "error"),
    [(DataError("de.txt", "is empty"), "de.txt"), (ValueError("odd"), "ValueError: odd")],
)
def test_an_error_that_no_retry_would_mend_is_reported(plan, job, monkeypatch, fault, error):
    broken(monkeypatch, fault)
    found = run_stage(next(iter(plan.stages)), job)
    assert error in str(found["error"])
    assert ("Traceback" in str(found["trace"])) == isinstance(fault, ValueError)


def test_an_error_that_a_retry_may_mend_is_raised(plan, job, monkeypatch):
    broken(monkeypatch, TransientError("busy"))
    with pytest.raises(TransientError):
        run_stage(next(iter(plan.stages)), job)


def test_a_storage_that_cannot_be_written_is_reported(plan, job):
    nowhere = replace(job, storage=Storage("/dev/null/storage"))
    assert run_stage(next(iter(plan.stages)), nowhere)["error"]


def broken(monkeypatch, fault):

    class Workshop:
        def ensure(self, key):
            raise fault

    monkeypatch.setattr(Job, "open_workshop", lambda *given, **named: Workshop())


def test_a_plan_comes_back_from_the_storage_as_it_was(plan, tmp_path):
    place = StoredPlans(Storage(str(tmp_path))).write(plan)
    assert Job(Storage(""), place).read_plan().to_json() == plan.to_json()
    assert StoredPlans(Storage(str(tmp_path))).write(plan) == place
    assert [path.suffix for path in (tmp_path / "plans").iterdir()] == [".json"]


def test_a_storage_that_takes_no_plan_is_an_error_that_says_what_to_do(plan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write.*--storage"):
        StoredPlans(Storage(str(tmp_path / "file"))).write(plan)


def test_the_local_folder_is_the_storage_or_a_cache_for_each_object_store(monkeypatch):
    monkeypatch.setenv("RAXALIGN_CACHE", "/cache")
    data, one, other = (Storage(root).local for root in ("/data", "s3://one", "s3://other"))
    assert (data, one.parent, other.parent) == (Path("/data"), Path("/cache"), Path("/cache"))
    assert one != other


def test_a_worker_is_held_to_its_threads(plan, job, monkeypatch):
    for name in job.thread_limits:
        monkeypatch.setenv(name, "")
    reports, options = [], {"trains": False, "rank": 1, "world_size": 2}
    options["report"] = lambda metrics, step: reports.append((metrics, step))
    workshop = Job(job.storage, job.plan, threads=3).open_workshop(**options)
    assert os.environ["OMP_NUM_THREADS"] == "3"
    runtime = workshop.runtime
    assert (runtime.threads, runtime.rank, runtime.world_size, runtime.device) == (3, 1, 2, "cpu")
    runtime.report({"loss": 1.0}, 7)
    assert reports == [({"loss": 1.0}, 7)]
    assert workshop.plan.to_json() == plan.to_json()


def test_a_machine_that_joins_without_the_storage_is_named_and_does_nothing(job, tmp_path):
    sign = tmp_path / "sign"
    sign.write_bytes(b"")
    replace(job, sign=str(sign)).open_workshop(trains=False)
    sign.unlink()
    with pytest.raises(StorageError, match=f"{socket.gethostname()} does not see what the driver"):
        replace(job, sign=str(sign)).open_workshop(trains=False)


def test_what_a_job_has_freed_goes_back_to_the_machine(plan, job, failing, monkeypatch):
    """Blocks below the size that the C library maps by themselves, under one that stays."""
    key, kept = plan.trials[0].key, []

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def run_trial(workshop, key):
        blocks = [bytes(64 << 10) for _ in range(4096)]
        kept.extend((bytes(64 << 10), resident()))
        blocks.clear()

    monkeypatch.setattr(Workshop, "run_trial", run_trial)
    config = {"plan": job.plan, "trial": key, "needs": Holds.WORKER.name}
    run_job(config, job, lambda holder: 0.0)
    assert resident() < kept[1] - (100 << 20)
