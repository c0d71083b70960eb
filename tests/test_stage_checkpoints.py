"""Checkpoints that outlive their machine, and one training for all machines."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tests.fake_bucket  # noqa: F401 registers the file system
from raxalign.grid.estimates import Times
from raxalign.grid.load import open_grid
from raxalign.grid.stage import Stage
from raxalign.stages import Workshop
from raxalign.stages import checkpoints as module
from raxalign.stages.checkpoints import Checkpoints, Mirror
from raxalign.store import lease
from raxalign.store.files import files_of
from raxalign.store.storage import Storage
from raxalign.train.loop import fit
from raxalign.train.objective import Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.forks import forks
from tests.grids import write_grid
from tests.train.problems import Regression


def at(root: str, local: Path) -> Storage:
    """A storage as the machine sees it whose own folder is `local`."""
    storage = Storage(root)
    vars(storage)["local"] = local
    return storage


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return f"memory://{tmp_path}/root"


@pytest.fixture
def machines(root: str, tmp_path: Path) -> list[Checkpoints]:
    """The checkpoints of one training as three machines have them."""
    return [Checkpoints(at(root, tmp_path / name), "key") for name in ("one", "two", "three")]


def copies(root: str) -> int:
    return len({name.partition("/")[0] for name in files_of(root).names("checkpoints/key")})


def step(kept: Checkpoints, number: int, *, copied: bool = True) -> None:
    """A checkpoint, as a training writes one, and one that is being written."""
    folder = kept.folder / "train"
    for place in (folder / f"step-{number}", folder / ".tmp-step"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "state.json").write_text(str(number))
    if copied:
        kept.saved()


def steps(kept: Checkpoints) -> set[str]:
    return {
        path.relative_to(kept.folder / "train").parts[0] for path in kept.folder.rglob("*.json")
    }


def test_another_machine_goes_on_from_the_last_copy(machines, root, tmp_path):
    one, two, _ = machines
    step(one, 200)
    two.restore()
    assert steps(two) == {"step-200"}
    step(two, 400)
    step(one, 300, copied=False)  # an older machine that comes back with what was never copied
    one.restore()
    assert steps(one) == {"step-200", "step-400"}
    step(one, 500, copied=False)
    one.restore()
    assert {"step-400", "step-500"} <= steps(one), "it keeps what is newer than its own copy"
    one.remove()
    assert not one.folder.exists()
    assert files_of(root).names("checkpoints") == {}
    local = Checkpoints(Storage(str(tmp_path / "local")), "key")
    step(local, 200)
    local.restore()
    places = (tmp_path / "local" / "checkpoints").iterdir()
    assert [path.name for path in places] == ["key"], "on a file system they stay where they are"


def test_a_copy_that_another_machine_has_overtaken_is_not_gone_on_from(machines, root, monkeypatch):
    """The owner comes back after another machine took over, and copies what it has."""
    monkeypatch.setattr(module, "SHARE", 1.0)
    owner, heir, third = machines
    owner.restore()
    step(owner, 200)
    heir.restore()
    step(heir, 400)
    assert copies(root) == 1, "the owner's is behind"
    step(owner, 300)
    assert copies(root) == 2
    assert third.steps() == 400
    third.restore()
    assert "step-400" in steps(third)


def test_a_copy_that_is_of_no_use_does_not_stand_before_later_ones(machines) -> None:
    """As of another version of the training, which begins anew."""
    old, new, third = machines
    step(old, 900)
    new.restore()
    shutil.rmtree(new.folder)
    step(new, 100)
    third.restore()
    assert steps(third) == {"step-100"}


def test_copies_leave_most_of_the_time_to_the_training(machines, monkeypatch) -> None:
    pushed, clock = [], [100.0]

    def push(mirror: Mirror, files: object) -> str:
        pushed.append(clock[0])
        clock[0] += 10.0
        return "version"

    monkeypatch.setattr(Mirror, "push", push)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    for _ in range(20):
        machines[0].saved()
        clock[0] += 20.0
    assert pushed == [100.0, 210.0, 320.0, 430.0]


def test_of_two_machines_one_trains_and_the_other_one_finds_it_made(root, tmp_path, monkeypatch):
    path = write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="[100]")
    plan = open_grid(path, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    made, waits = list[Path](), threading.Event()

    def train(bench: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
        made.append(bench.storage.local)
        assert waits.wait(60), "the other machine waits meanwhile"
        (folder / "weights").write_text("trained")
        return {}

    monkeypatch.setattr(lease, "LOOK", 0.01)
    monkeypatch.setitem(Workshop.MAKERS, "encoder", train)

    def work(local: Path) -> str:
        bench = Workshop(plan, at(root, local), Runtime())
        bench.tell = lambda text: waits.set()
        return (bench.ensure(key) / "weights").read_text()

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(work, (tmp_path / "one", tmp_path / "two")))
    assert found == ["trained", "trained"]
    assert len(made) == 1
    assert Storage(root).locks.living() == {}


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_a_training_run_that_was_killed_took_what_all_its_processes_worked(
    kind, tmp_path, monkeypatch
) -> None:
    """Each until its last checkpoint: what came after it is done again, and counted then."""
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    grid = write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="[100]")
    place, ahead, clock = tmp_path / "root", [0.0], time.monotonic
    root = f"bucket://{place}" if kind == "bucket" else str(place)
    plan = open_grid(grid, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    ends = [True, True, False]

    def train(bench: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
        runtime, own = bench.runtime_for(stage), bench.checkpoints(stage.key)
        ahead[0] += 1000.0
        step(own, 100 * (4 - len(ends)), copied=False)
        runtime.saved()
        ahead[0] += 70.0
        if ends and ends.pop(0):
            raise KeyboardInterrupt
        (folder / "weights").write_text("trained")
        return {}

    monkeypatch.setattr(module.time, "monotonic", lambda: clock() + ahead[0])
    monkeypatch.setitem(Workshop.MAKERS, "encoder", train)
    for name in ("one", "two"):
        storage = at(root, tmp_path / name) if kind == "bucket" else Storage(root)
        with pytest.raises(KeyboardInterrupt):
            Workshop(plan, storage, Runtime()).ensure(key)
    bench = Workshop(plan, Storage(root), Runtime())
    bench.ensure(key)
    assert 3070 <= bench.store.manifest("encoder", key).seconds < 3140
    assert Times(plan, bench.storage).by_key()[key] == bench.store.manifest("encoder", key).seconds
    bench.store.remove("encoder", key)
    bench.ensure(key)
    again = bench.store.manifest("encoder", key).seconds
    assert 1070 <= again < 1140, "what is made again from the beginning takes its own time"


def test_a_time_that_cannot_be_noted_costs_no_training(machines) -> None:
    (own, *_) = machines
    (own.folder / "worked").mkdir(parents=True)
    with pytest.warns(UserWarning, match="the time of a training run was not noted: .*worked"):
        step(own, 200)
    assert steps(own) == {"step-200", ".tmp-step"}


def test_a_damaged_note_of_the_time_costs_the_time_alone(machines) -> None:
    (own, *_) = machines
    step(own, 200)
    (own.folder / "worked").write_text('{"seconds": 7')
    with pytest.warns(UserWarning, match="worked has no checksum: the time .* is unknown"):
        own.restore()
    assert own.seconds == 0.0
    assert steps(own) == {"step-200", ".tmp-step"}


SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, steps=120)


class Waiting(Regression):
    """A training that says so before a step, and then waits."""

    stop: int
    line: Connection

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        if step.number == self.stop:
            self.line.send(f"before step {step.number}")
            self.line.recv()
        return super().loss(step, positions)


def train_waiting(bench: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Train, and keep the weights."""
    problem = Waiting()
    fit(problem, 22, SETTINGS, bench.runtime_for(stage))
    weights = torch.cat([p.detach().flatten() for p in problem.module.parameters()])
    (folder / "weights").write_bytes(weights.numpy().tobytes())
    problem.line.send("trained to its end")
    return {}


def train_as_machine(line: Connection, grid: Path, root: str, local: Path, stop: int) -> None:
    os.environ["RAXALIGN_CACHE"] = str(local / "cache")
    lease.BEAT, lease.Locks.EXPIRY, lease.LOOK, module.SHARE = 0.05, 1.0, 0.02, 1.0
    Workshop.MAKERS["encoder"] = train_waiting
    Waiting.stop, Waiting.line = stop, line
    torch.set_num_threads(1)
    plan = open_grid(grid, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    runtime = Runtime(checkpoint_every=1)
    bench = Workshop(plan, at(root, local), runtime, tell=line.send)
    found = bench.ensure(key) / "weights"
    line.send(f"has {hashlib.sha256(found.read_bytes()).hexdigest()}")


@contextmanager
def machine(
    grid: Path, root: str, local: Path, stop: int
) -> Iterator[tuple[BaseProcess, Connection]]:
    """A machine that trains, and waits before a step: its process, and the line to it. Where the
    test fails it is killed: a process that is stopped would never end.
    """
    line, other = forks().Pipe()
    process = forks().Process(target=train_as_machine, args=(other, grid, root, local, stop))
    process.start()
    other.close()
    try:
        yield process, line
        process.join()
    except BaseException:
        process.kill()
        raise


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_an_owner_that_was_stopped_leaves_the_training_to_who_took_it_over(kind, tmp_path) -> None:
    """Two real processes: the first one is stopped for longer than others wait for it."""
    grid = write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="[100]")
    place = tmp_path / "root"
    root, one, two = (
        (f"bucket://{place}", tmp_path / "one", tmp_path / "two")
        if kind == "bucket"
        else (str(place), place, place)
    )
    (key,) = [k for k, s in open_grid(grid).plan.stages.items() if s.kind == "encoder"]
    with machine(grid, root, one, 10) as (owner, first):
        assert first.recv() == "before step 10"
        os.kill(owner.pid, signal.SIGSTOP)
        with machine(grid, root, two, 29) as (heir, second):
            assert second.recv().startswith("waits for ")
            assert second.recv() == "before step 29"
            kept = Checkpoints(at(root, two), key)
            assert kept.steps() == 29, "it went on from the last checkpoint"
            first.send("go on")
            os.kill(owner.pid, signal.SIGCONT)
            assert "another process has taken this lock" in first.recv()
            assert first.recv().startswith("waits for ")
            assert kept.steps() == 29
            assert (two / "checkpoints" / key / "train" / "step-00000029").exists()
            second.send("go on")
            assert second.recv() == "trained to its end"
            result = second.recv()
            assert result.startswith("has ")
        assert first.recv() == result, "it has the other one's result"
    assert (owner.exitcode, heir.exitcode) == (0, 0)
    assert files_of(root).names("checkpoints") == {}
    assert Storage(root).locks.living() == {}
