"""The plans that a storage keeps: a changed one is refused, and none of them runs a program."""

# ruff: noqa: F811 - a fixture is imported

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign import catalog as catalog_module
from raxalign.errors import StorageError
from raxalign.grid import metrics
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.inspect.garbage import unfinished
from raxalign.stages import Workshop
from raxalign.store.files import files_of
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from raxalign.train.runtime import Runtime
from tests.aws import BUCKET
from tests.test_cli import run  # noqa: F401 - a fixture
from tests.toys.pages import write_page


@pytest.fixture
def root(request, tmp_path, monkeypatch):
    """A storage: a folder, or a bucket where a test asks for one."""
    if getattr(request, "param", "folder") == "folder":
        return str(tmp_path / "storage")
    request.getfixturevalue("proxy")
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def plan(tmp_path, root, monkeypatch):
    """The stored plan of the grid of docs/how-to/plugins.md, the last of whose trials ran; its
    plug-ins are then unknown, as in another process.
    """
    opened = open_grid(write_page(tmp_path), storage=root)
    if not root.startswith("s3:"):
        workshop = Workshop(opened.plan, Storage(root), Runtime())
        workshop.run_trial(opened.plan.trials[-1].key)
    StoredPlans(Storage(root)).write(opened.plan)
    monkeypatch.setattr(catalog_module, "_loaded", {})
    metrics._made.cache_clear()
    return opened.plan


def forged(plan, folder):
    """The plan with another file for each of its plug-ins, as who may write to the storage can make
    it, and what these files write when they run.
    """
    ran, files, text = folder / "it ran", [], plan.to_json()
    for file in plan.plugins:
        other = folder / "forged" / f"{file.name}.py"
        other.parent.mkdir(exist_ok=True)
        code = f"open({str(ran)!r}, 'a').close()\n" + Path(file.path).read_text(encoding="utf-8")
        other.write_text(code, encoding="utf-8")
        digest = hashlib.sha256(code.encode()).hexdigest()
        files.append(replace(file, path=str(other), digest=digest))
    return replace(Plan.from_json(text), plugins=tuple(files)), ran


@pytest.mark.parametrize("root", ["folder", "bucket"], indirect=True)
def test_a_plan_that_was_edited_is_refused_by_workers_and_passed_over_by_commands(
    plan, root, tmp_path
):
    edited, ran = forged(plan, tmp_path)
    place = f"{root}/{StoredPlans.path(plan.to_json())}"
    files_of(root).write(StoredPlans.path(plan.to_json()), edited.to_json().encode())
    with pytest.raises(StorageError, match=r"\.json: was changed: .* Run its grid again to write"):
        Job(Storage(""), place).read_plan()
    with pytest.warns(UserWarning, match=r"was changed.* It is passed over"):
        assert list(StoredPlans(Storage(root))) == []
    with pytest.warns(UserWarning, match="was changed"):
        assert unfinished(Storage(root), [])[1] == []
    StoredPlans(Storage(root)).write(plan)
    assert list(StoredPlans(Storage(root))) == [plan]
    assert not ran.exists()


def test_no_command_runs_a_file_because_a_stored_plan_names_it(plan, root, tmp_path, run):
    made, ran = forged(plan, tmp_path)
    key = plan.trials[-1].key
    files_of(root).delete(StoredPlans.path(plan.to_json()))
    files_of(root).write(
        StoredPlans.path(made.to_json()), made.to_json().encode()
    )  # under its own digest
    at = ("--storage", root)
    export = ("export", key, tmp_path / "out", *at)
    for command in (export, ("show", key, *at), ("diff", root, root)):
        done = run(*command)
        assert done.code == 2, done
        assert "a storage alone makes no file run" in done.err.replace("\n", " ")
        assert "--plugins FILE" in done.err
    assert run("gc", tmp_path / "grid.yaml", *at).code == 0
    assert not ran.exists()
    assert not (tmp_path / "out").exists()


def test_the_user_s_own_files_are_run_where_a_command_names_them(plan, root, tmp_path, run):
    key = plan.trials[-1].key
    named = [word for file in plan.plugins for word in ("--plugins", file.path)]
    at = ("--storage", root)
    done = run("export", key, tmp_path / "out", *at, *named)
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "shapes.json").exists()
    assert "close" in run("show", key, *at, *named).out
    assert run("diff", root, root, *named).code == 0


def test_a_named_file_with_another_content_is_not_that_of_the_plan(plan, root, tmp_path, run):
    Path(plan.plugins[0].path).write_text("# edited\n" + Path(plan.plugins[0].path).read_text())
    named = [word for file in plan.plugins for word in ("--plugins", file.path)]
    used = next(file for file in plan.plugins if file.folder == "encoders")
    Path(used.path).write_text("# edited\n" + Path(used.path).read_text())
    done = run("export", plan.trials[-1].key, tmp_path / "out", "--storage", root, *named)
    assert done.code == 2
    assert f"shapes.py (SHA-256 {used.digest[:16]}...)" in done.err


def test_a_plan_of_another_version_is_passed_over(root):
    files_of(root).write(StoredPlans.path("{}"), b"{}")
    with pytest.warns(UserWarning, match="not a plan of this version"):
        assert list(StoredPlans(Storage(root))) == []
    with pytest.raises(StorageError, match="not a plan of this version"):
        Job(Storage(""), f"{root}/{StoredPlans.path('{}')}").read_plan()
