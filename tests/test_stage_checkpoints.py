"""Checkpoints that outlive their machine, and one training for all machines."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from raxalign.plan.load import open_grid
from raxalign.plan.stage import Stage
from raxalign.stages import Workshop, workshop
from raxalign.stages import checkpoints as module
from raxalign.stages.bench import Bench
from raxalign.stages.checkpoints import Checkpoints
from raxalign.store import lease
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.mirror import Mirror
from raxalign.train.runtime import Runtime
from tests.grids import write_grid


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return f"memory://{tmp_path}/root"


def step(kept: Checkpoints, number: int) -> None:
    """A checkpoint, as a training writes one, and one that is being written."""
    folder = kept.folder / "train"
    for place in (folder / f"step-{number}", folder / ".step.part"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "state.json").write_text(str(number))


def steps(kept: Checkpoints) -> set[str]:
    return {
        path.relative_to(kept.folder / "train").parts[0] for path in kept.folder.rglob("*.json")
    }


def test_another_machine_goes_on_from_the_last_copy(root: str, tmp_path: Path) -> None:
    one, two = (Checkpoints(root, tmp_path / name, "key") for name in ("one", "two"))
    step(one, 200)
    one.saved()
    two.restore()
    assert steps(two) == {"step-200"}
    step(two, 400)
    two.saved()
    step(one, 300)  # an older machine that comes back with what was never copied
    one.restore()
    assert steps(one) == {"step-200", "step-400"}
    one.remove()
    assert not one.folder.exists()
    assert files_of(root).names("checkpoints") == {}


def test_a_machine_keeps_what_is_newer_than_its_own_copy(root: str, tmp_path: Path) -> None:
    kept = Checkpoints(root, tmp_path / "one", "key")
    step(kept, 200)
    kept.saved()
    step(kept, 400)
    kept.restore()
    assert {"step-200", "step-400"} <= steps(kept)


def test_copies_leave_most_of_the_time_to_the_training(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = []
    clock = [100.0]

    def push(mirror: Mirror, files: object) -> str:
        pushed.append(clock[0])
        clock[0] += 10.0
        return "version"

    monkeypatch.setattr(Mirror, "push", push)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    kept = Checkpoints(root, tmp_path, "key")
    for _ in range(20):
        kept.saved()
        clock[0] += 20.0
    assert pushed == [100.0, 210.0, 320.0, 430.0]


def test_on_a_file_system_they_stay_where_they_are(tmp_path: Path) -> None:
    kept = Checkpoints(str(tmp_path), tmp_path, "key")
    step(kept, 200)
    kept.saved()
    kept.restore()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["key"]


def test_of_two_machines_one_trains_and_the_other_one_finds_it_made(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_grid(tmp_path, languages="{each: [de]}", size=200, sentences="[100]")
    plan = open_grid(path, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    made, waits = list[Path](), threading.Event()

    def train(bench: Bench, stage: Stage, folder: Path) -> Mapping[str, Any]:
        made.append(bench.local)
        assert waits.wait(60), "the other machine waits meanwhile"
        (folder / "weights").write_text("trained")
        return {}

    monkeypatch.setattr(lease, "LOOK", 0.01)
    monkeypatch.setitem(workshop._MAKERS, "encoder", train)

    def work(local: Path) -> str:
        bench = Workshop(plan, ArtifactStore(root), Ledger(root), Runtime(), local)
        bench.tell = lambda text: waits.set()
        return (bench.ensure(key) / "weights").read_text()

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(work, (tmp_path / "one", tmp_path / "two")))
    assert found == ["trained", "trained"]
    assert len(made) == 1
    assert files_of(root).names("locks") == {}
