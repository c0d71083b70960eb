"""What `gc` finds, what it leaves to those who use it, and why each thing may go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raxalign.errors import RaxalignError
from raxalign.plan.load import Opened, open_grid
from raxalign.report.garbage import collect
from raxalign.store.alive import maker_name
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.drivers import signed_on, signs
from raxalign.store.files import files_of
from raxalign.store.lease import lease
from raxalign.store.storage import Storage
from raxalign.sweep.job import write_plan
from tests.grids import write_grid

OTHER = "f" * 64


@pytest.fixture
def opened(tmp_path: Path, monkeypatch) -> Opened:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = write_grid(tmp_path, languages="{each: [de]}", sentences="[100]", methods=("none: {}",))
    return open_grid(path, storage=str(tmp_path / "storage"))


def gc(opened: Opened, *more: Path, delete: bool = False) -> str:
    return collect([opened.grid.path, *more], opened.root, delete=delete)


def put(root: str, path: str, size: int = 1000) -> Path:
    file = Path(root) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file


def dead_process() -> str:
    """The name of a process that has ended."""
    code = "from raxalign.store.alive import maker_name; print(maker_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def take(root: str, key: str) -> None:
    """Make something, which leaves its lock behind."""
    with lease(Storage(root), f"making/{key}"):
        pass


def clutter(root: str) -> dict[str, Path]:
    """One thing of each kind that nobody needs, by its line."""
    dead, store = dead_process(), ArtifactStore(root)
    take(root, OTHER)
    for kind in ("pairs", "tuned"):
        store.make(kind, OTHER, lambda folder: {"n": (folder / "f").write_bytes(b"x" * 1000)})
    Storage(store.root).drop("tuned", OTHER, "run.keep: none")
    return {
        "1 artifacts (1.0 kB): no given grid needs them": Path(store.folder("pairs", OTHER)),
        "1 records (0 bytes): no given grid has the stages": Path(root, "dropped/tuned/ff", OTHER),
        "1 plans (1.0 kB): no given grid has any of their stages": put(root, "plans/a.json"),
        "1 spool (1.0 kB): no given grid has their trials": put(root, f"spool/{OTHER}/1.json"),
        "1 damaged (1.0 kB): they were set aside": put(root, "damaged/pairs-x-1/data"),
        "1 checkpoints (1.0 kB): their trainings are over": put(root, f"checkpoints/{OTHER}/s"),
        "1 locks (0 bytes): no driver lives": Path(root, "locks/making", OTHER),
        "1 tracked (1.0 kB): they mark other grids": put(root, "tracked/mark"),
        "1 scratch (1.0 kB): the drivers that used them": put(root, f"ray/{dead}/x/y"),
        "1 temporaries (1.0 kB): their processes died": put(
            root, "ledger/.tmp-x-00000000-1-1-00000000/y"
        ),
    }


def test_every_kind_is_counted_with_bytes_and_reason_and_goes_with_delete(opened) -> None:
    found = clutter(opened.root)
    old = found["1 temporaries (1.0 kB): their processes died"].parent
    os.utime(old, (0, 0))  # of another machine, and silent for a day
    told = gc(opened)
    for line in found:
        assert f"would remove {line}" in told
    assert "8.0 kB could be freed with --delete" in told
    assert all(path.exists() for path in found.values())
    assert "8.0 kB freed" in gc(opened, delete=True)
    assert not any(path.exists() for path in found.values())
    assert gc(opened) == "0 bytes could be freed with --delete"


def test_what_a_given_grid_needs_stays(opened, tmp_path) -> None:
    root, plan = opened.root, opened.plan
    stage = next(stage for stage in plan.stages.values() if stage.kind == "encoder")
    store = ArtifactStore(root)
    store.make(
        "bitext", next(s.key for s in plan.stages.values() if s.kind == "bitext"), lambda f: {}
    )
    put(root, f"checkpoints/{stage.key}/s")
    put(root, f"spool/{plan.trials[0].key}/1.json")
    put(root, "downloads/corpus.zip")
    write_plan(plan, Storage(root))
    put(root, "tracked/mark").write_text(json.dumps({"grid": plan.name, "uri": "x"}))
    assert gc(opened) == "0 bytes could be freed with --delete"


def test_of_several_grids_all_needs_count(opened, tmp_path) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    path = write_grid(folder, languages="{each: [fr]}", sentences="[100]", methods=("none: {}",))
    other = open_grid(path, storage=opened.root)
    key = next(s.key for s in other.plan.stages.values() if s.kind == "pairs")
    opened.storage.artifacts.make("pairs", key, lambda folder: {})
    assert "would remove 1 artifacts" in gc(opened)
    assert "artifacts" not in gc(opened, path)


def test_downloads_go_when_nothing_is_left_to_run(opened) -> None:
    put(opened.root, "downloads/corpus.zip")
    assert "downloads" not in gc(opened)
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            opened.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert "would remove 1 downloads (1.0 kB): nothing is left to run" in gc(opened)


def test_what_a_living_driver_uses_stays(opened, tmp_path) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    path = write_grid(folder, languages="{each: [fr]}", sentences="[100]", methods=("none: {}",))
    other = open_grid(path, storage=opened.root)
    place = write_plan(other.plan, opened.storage)
    key = next(s.key for s in other.plan.stages.values() if s.kind == "pairs")
    opened.storage.artifacts.make("pairs", key, lambda folder: {})
    take(opened.root, OTHER)
    put(opened.root, f"ray/{maker_name()}/x")
    with signed_on(opened.storage, place):
        assert gc(opened) == "0 bytes could be freed with --delete"
    told = gc(opened)
    assert "1 artifacts" in told
    assert "1 plans" in told
    assert "1 locks" in told


def test_a_training_whose_lock_is_held_keeps_its_checkpoints(opened) -> None:
    put(opened.root, f"checkpoints/{OTHER}/s")
    with lease(opened.storage, f"making/{OTHER}"):
        assert gc(opened) == "0 bytes could be freed with --delete"
    assert "1 checkpoints" in gc(opened)


def test_a_sign_from_the_far_future_neither_stops_it_nor_has_it_fetch_anything(opened) -> None:
    record = {"host": "h", "pid": 1, "plan": "http://127.0.0.1:9/plan.json", "at": 1e12}
    put(opened.root, "drivers/cafecafe-1-1/driver.json").write_text(json.dumps(record))
    assert "would remove 1 drivers" in gc(opened)
    record["at"] = time.time()
    put(opened.root, "drivers/cafecafe-1-1/driver.json").write_text(json.dumps(record))
    with pytest.raises(RaxalignError, match="a driver runs on this storage") as told:
        gc(opened)
    assert f"{opened.root}/plans/plan.json" in str(told.value)


def test_a_driver_whose_plan_cannot_be_read_stops_it_and_dead_signs_go(opened) -> None:
    unreadable = pytest.raises(RaxalignError, match="a driver runs on this storage")
    with signed_on(opened.storage, f"{opened.root}/plans/gone.json"), unreadable:
        gc(opened)
    record = {"host": "h", "pid": 1, "plan": "p", "at": 0.0}
    put(opened.root, "drivers/cafecafe-1-1/driver.json").write_text(json.dumps(record))
    assert "removed 1 drivers (0 bytes)" in gc(opened, delete=True)
    assert signs(opened.storage) == []


def test_an_object_store_is_tidied_with_its_copies_on_this_machine(
    opened, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))

    root = f"memory://{tmp_path.name}"
    store = ArtifactStore(root)
    for key in (OTHER, "e" * 64):
        store.make("pairs", key, lambda folder: {"n": (folder / "f").write_bytes(b"x" * 1000)})
    Storage(store.root).drop("pairs", OTHER, "run.keep: none")
    files_of(root).write(f"checkpoints/{OTHER}/0badcafe/index.json", b"x" * 1000)
    told = collect([opened.grid.path], root, delete=False)
    assert "would remove 1 artifacts (1.0 kB)" in told
    assert "would remove 1 cache" in told
    assert "would remove 1 checkpoints (1.0 kB)" in told
    collect([opened.grid.path], root, delete=True)
    assert list(store.keys()) == []
    assert list(Storage(root).tombstones.keys()) == []
    assert files_of(root).names("checkpoints") == {}
    assert not list((tmp_path / "cache").glob("*/artifacts/*/*/*"))
