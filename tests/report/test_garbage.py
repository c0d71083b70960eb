"""What `gc` finds, what it leaves to its users and to searches, and why each thing may go."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.inspect import garbage as module
from raxalign.inspect.garbage import collect
from raxalign.store.alive import maker_name
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.sealed import seal
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.searches import leave, measure, open_search, run, search_grid, source_of

OTHER = "f" * 64
AWAY = "0badcafe-1-1"
PARTS = {"sentences": "[100]", "methods": ("none: {}",)}
OLD = "1 temporaries (1.0 kB): their processes died"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder; that of the machine, in which `gc` looks too, is one inside."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in ("tmp", "more"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def opened(folder):
    path = write_grid(folder, languages="{each: [de]}", **PARTS)
    return open_grid(path, storage=str(folder / "storage"))


def gc(opened, *more, delete=False):
    return collect([opened.grid.path, *more], opened.root, delete=delete)


def put(root, path, content="x" * 1000):
    """Write a file of a storage: a text, or a record."""
    file = Path(root) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.fixture
def french(opened, folder):
    """A grid in the same storage, with word pairs that it has made."""
    path = write_grid(folder / "more", languages="{each: [fr]}", **PARTS)
    made = open_grid(path, storage=opened.root)
    key = next(s.key for s in made.plan.stages.values() if s.kind == "pairs")
    opened.storage.artifacts.make("pairs", key, lambda folder: {})
    return made


def take(root, key):
    """Make something, which leaves its lock behind."""
    with Storage(root).locks.hold(f"making/{key}"):
        pass


def driving(storage, plan):
    """What a driver holds that runs a plan."""
    return storage.locks.hold(storage.locks.own_name("drivers", plan.rpartition("/")[2]))


def held_by(root, name, **changes):
    """The lock of a process on another machine."""
    record = {"maker": AWAY, "host": "h", "pid": 1, "nonce": "x", "beat": 0, "done": False}
    return put(root, f"locks/{name}/1", seal({**record, **changes}).decode())


def clutter(root):
    """One thing of each kind that nobody needs, by its line."""
    code = "from raxalign.store.alive import maker_name; print(maker_name(), end='')"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    store = ArtifactStore(root)
    take(root, OTHER)
    for kind in ("pairs", "tuned"):
        store.make(kind, OTHER, lambda folder: {"n": (folder / "f").write_bytes(b"x" * 1000)})
    Storage(root).drop("tuned", OTHER, "run.keep: none")
    return {
        "1 artifacts (1.0 kB): no given grid needs them": Path(store.folder("pairs", OTHER)),
        "1 records (0 bytes): no given grid has the stages": Path(root, "dropped/tuned/ff", OTHER),
        "1 plans (1.0 kB): no given grid has any of their stages": put(root, "plans/a.json"),
        "1 spool (1.0 kB): no given grid has their trials": put(root, f"spool/{OTHER}/1.json"),
        "1 damaged (1.0 kB): they were set aside": put(root, "damaged/pairs-x-1/data"),
        "1 checkpoints (1.0 kB): their training runs are over": put(root, f"checkpoints/{OTHER}/s"),
        "1 locks (0 bytes): no driver lives": Path(root, "locks/making", OTHER),
        "1 former (1.0 kB): an earlier version left": put(root, "collected/all"),
        "1 tracked (1.0 kB): they mark other grids": put(root, "tracked/mark"),
        "1 scratch (1.0 kB): the drivers that used": put(root, f"ray/{dead.stdout}/x/y"),
        OLD: put(root, "ledger/.tmp-x-00000000-1-1-00000000/y"),
    }


def test_every_kind_is_counted_with_bytes_and_reason_and_goes_with_delete(opened):
    found = clutter(opened.root)
    os.utime(found[OLD].parent, (0, 0))  # of another machine, and silent for a day
    told = gc(opened)
    for line in found:
        assert f"would remove {line}" in told
    assert "9.0 kB could be freed with --delete" in told
    assert all(path.exists() for path in found.values())
    assert "9.0 kB freed" in gc(opened, delete=True)
    assert not any(path.exists() for path in found.values())
    assert gc(opened) == "0 bytes could be freed with --delete"


def test_what_a_given_grid_needs_stays(opened, tmp_path):
    root, plan = opened.root, opened.plan
    keys = {stage.kind: stage.key for stage in plan.stages.values()}
    opened.storage.artifacts.make("bitext", keys["bitext"], lambda folder: {})
    put(root, f"checkpoints/{keys['encoder']}/s")
    put(root, f"spool/{plan.trials[0].key}/1.json")
    put(root, "downloads/corpus.zip")
    StoredPlans(Storage(root)).write(plan)
    put(root, "tracked/mark", {"grid": plan.name, "uri": "x"})
    assert gc(opened) == "0 bytes could be freed with --delete"


def test_of_several_grids_all_needs_count(opened, french):
    assert "would remove 1 artifacts" in gc(opened)
    assert "artifacts" not in gc(opened, french.grid.path)


def test_downloads_go_when_nothing_is_left_to_run(opened):
    put(opened.root, "downloads/corpus.zip")
    assert "downloads" not in gc(opened)
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            opened.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert "would remove 1 downloads (1.0 kB): nothing is left to run" in gc(opened)


def test_what_a_living_driver_uses_stays(opened, french):
    place = StoredPlans(opened.storage).write(french.plan)
    take(opened.root, OTHER)
    put(opened.root, f"ray/{maker_name()}/x")
    with driving(opened.storage, place):
        assert gc(opened) == "0 bytes could be freed with --delete"
    put(opened.root, f"checkpoints/{OTHER}/s")
    with opened.storage.locks.hold(f"making/{OTHER}"):
        assert "checkpoints" not in gc(opened), "its lock is held"
    told = gc(opened)
    assert all(f"1 {kind}" in told for kind in ("artifacts", "plans", "locks", "checkpoints"))


def test_a_driver_elsewhere_whose_plan_cannot_be_read_stops_it_until_it_is_silent_for_a_day(opened):
    sign = held_by(opened.root, f"drivers/{AWAY}-ab.plan.json")
    for text in (sign.read_text(), "{"):  # damaged, it may still be that of one which lives
        sign.write_text(text)
        with pytest.raises(RaxalignError, match="a driver runs on this storage, on ") as told:
            gc(opened)
        assert f"{opened.root}/plans/plan.json" in str(told.value)
    for ago in (90_000, -90_000):
        os.utime(sign, (time.time() - ago,) * 2)
        assert "would remove 1 locks" in gc(opened)


def test_an_object_store_is_tidied_with_its_copies_on_this_machine(opened, tmp_path, monkeypatch):
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


@pytest.fixture
def searched(folder):
    return open_search(search_grid(folder, "trials: 3, confirm: 1"))


@pytest.fixture
def other(folder):
    """A grid that shares nothing with the search but its storage."""
    return write_grid(folder / "more", languages="{each: [fr]}", methods=("none: {}",))


def begin(source, ended):
    """Do what a sweep does with the next point: write its plan, then align its encoder."""
    plan = source.more(ended, 1)
    assert plan is not None
    StoredPlans(source.opened.storage).write(plan)
    align(source.opened.root, plan)
    return plan


def align(root, plan):
    for trial in plan.trials:
        ArtifactStore(root).make("aligned", trial.aligned, lambda folder: {})


def aligned(root):
    return {key for kind, key in ArtifactStore(root).keys() if kind == "aligned"}  # noqa: SIM118


def test_a_search_that_was_killed_keeps_the_artifacts_of_its_points(searched, other):
    source = source_of(searched)
    plan = begin(source, {})
    measure(searched.storage.ledger, plan, plan.trials[0])
    second = begin(source, {plan.trials[0].key: None})
    leave(source)
    for grid in (other, searched.grid.path):
        told = collect([grid], searched.root, delete=True)
        assert aligned(searched.root) == {plan.trials[0].aligned, second.trials[0].aligned}
        assert "removed 1 plans" not in told
    name, kept = searched.plan.studies[0].name, "kept what searches need that are not finished"
    assert f"{kept}: {name}." in collect([other], searched.root, delete=True)
    assert "kept" not in gc(searched, delete=True)
    (record,) = (Path(searched.root) / "studies").glob("*.json")
    record.unlink()  # the search is given up
    assert "removed 2 artifacts" in collect([other], searched.root, delete=True)


def test_locks_of_dead_drivers_and_searches_go_while_a_driver_lives(opened):
    plan = StoredPlans(opened.storage).write(opened.plan)
    code = "from raxalign.store.alive import maker_name; print(maker_name(), end='')"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("drivers/x.p", "searching/x", f"making/{OTHER}"):
        held_by(opened.root, name, maker=dead.stdout)
    stray = put(opened.root, "locks/stray")  # of nobody: it takes nothing else with it
    with driving(opened.storage, plan):
        assert "removed 2 locks" in gc(opened, delete=True)
    assert "removed 1 locks" in gc(opened, delete=True)
    assert stray.exists()


def test_a_search_that_is_over_keeps_nothing_for_other_grids(searched, other):
    source = source_of(searched)
    ended = {}
    for _ in range(3 + 1):  # the points, and the best one again
        plan = begin(source, ended)
        assert len(aligned(searched.root)) > 0
        collect([other], searched.root, delete=True)
        assert plan.trials[0].aligned in aligned(searched.root)
        measure(searched.storage.ledger, plan, plan.trials[0])
        ended = {plan.trials[0].key: None}
    assert source.more(ended, 1) is None
    assert "removed 4 artifacts" in collect([other], searched.root, delete=True)
    assert aligned(searched.root) == set()


def test_a_living_search_that_has_spent_its_budget_keeps_what_it_made(searched, other):
    run(source_of(searched))
    plan = open_grid(searched.grid.path, storage=searched.root).plan
    align(searched.root, plan)
    with driving(searched.storage, StoredPlans(searched.storage).write(plan)):
        collect([other], searched.root, delete=True)
        assert len(aligned(searched.root)) == len({trial.aligned for trial in plan.trials})


@pytest.mark.parametrize("which", ["search", "other"])
def test_a_point_that_is_suggested_while_gc_looks_loses_nothing(
    searched, other, which, monkeypatch
):
    source = source_of(searched)
    begin(source, {})
    listed, late = module.waste, []

    def waste(needs):
        if not late:  # gc has read what is needed, and has listed nothing yet
            late.append(begin(source_of(searched), {}))
        yield from listed(needs)

    monkeypatch.setattr(module, "waste", waste)
    collect([other if which == "other" else searched.grid.path], searched.root, delete=True)
    assert late[0].trials[0].aligned in aligned(searched.root)
