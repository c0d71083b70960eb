"""Files have the permissions that the umask gives, also where a library wrote them."""

import os
import stat

import pytest
import torch
from safetensors.torch import save_file

from raxalign.grid.lock import Lock
from raxalign.single.place import OutFolder
from raxalign.store.artifacts import ArtifactStore, as_umask_says
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.train.checkpoint import Checkpoint, write_checkpoint


@pytest.fixture(params=[0o002, 0o027])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


def wanted(folder, umask):
    return {name: (0o777 if (folder / name).is_dir() else 0o666) & ~umask for name in modes(folder)}


def private(folder):
    """Write as safetensors does, which makes files for their owner alone."""
    (folder / "deep").mkdir(mode=0o700)
    save_file({"a": torch.zeros(2)}, folder / "deep" / "model.safetensors")
    (folder / "deep" / "model.safetensors").chmod(0o600)
    return {}


def test_a_storage_has_them_on_every_file(tmp_path, umask):
    root = tmp_path / "root"
    ArtifactStore(str(root)).make("aligned", "ab" * 32, private)
    ledger = Ledger(str(root))
    ledger.write("cd" * 32, {"scores": [], "notes": {}}, None)
    ledger.fail("ef" * 32, {"message": "x", "trace": ""})
    spool = Spool(Storage(str(root)), "ef" * 32, {"ef" * 32: "none"})
    spool.report({"loss": 1.0}, 1)
    spool.flush()
    files_of(str(root)).write("plans/plan.json", b"{}")
    tensors = {"module/a": torch.zeros(2)}
    record = {"fingerprint": "x"}
    write_checkpoint(root / "checkpoints" / "k", 200, Checkpoint(record, tensors, tensors))
    assert len(modes(root)) > 12
    assert modes(root) == wanted(root, umask)


def test_an_export_and_a_lock_file_have_them(tmp_path, umask):
    with OutFolder(tmp_path / "out" / "encoder").appearing() as partial:
        private(partial)
    Lock(tmp_path / "out" / "grid.lock", {"a": "b"}).save()
    assert modes(tmp_path / "out") == wanted(tmp_path / "out", umask)
    assert not list((tmp_path / "out").glob(".*.????????"))


def test_more_than_the_umask_gives_is_not_taken_away_and_links_are_left_alone(tmp_path):
    before = os.umask(0o077)
    try:
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "open").write_text("x")
        (folder / "open").chmod(0o644)
        (folder / "link").symlink_to("/nowhere")
        as_umask_says(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "open").stat().st_mode) == 0o644
