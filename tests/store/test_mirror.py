"""The copy of a folder in a storage: as it was at one moment, or nothing."""

import pytest

from raxalign.errors import StorageError
from raxalign.stages.checkpoints import Mirror
from raxalign.store.files import files_of
from raxalign.store.sealed import seal
from raxalign.store.storage import Storage


def files(folder, **texts):
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, text in texts.items():
        (folder / name).write_text(text)
        found[f"deep/{name}"] = folder / name
    return found


def test_another_machine_gets_the_folder_of_the_last_push(root, tmp_path):
    mirror = Mirror(Storage(root), "checkpoints/key")
    assert mirror.version() is None
    assert mirror.pull(tmp_path / "there") is None
    mirror.push(files(tmp_path / "here", one="1", two="2"))
    version = mirror.push(files(tmp_path / "here", two="2", three="3"))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old").write_text("old")
    pulled = Mirror(Storage(root), "checkpoints/key").pull(tmp_path / "there")
    assert pulled == version == mirror.version()
    found = {path.name: path.read_text() for path in (tmp_path / "there" / "deep").iterdir()}
    assert found == {"two": "2", "three": "3"}
    assert not (tmp_path / "there" / "old").exists()
    assert len(files_of(root).names("checkpoints/key/files")) == 2, "old files are removed"


def test_a_damaged_copy_leaves_the_local_folder(root, tmp_path):
    mirror = Mirror(Storage(root), "checkpoints/key")
    mirror.push(files(tmp_path / "here", one="1"))
    storage = files_of(root)
    (name,) = storage.names("checkpoints/key/files")
    storage.write(f"checkpoints/key/files/{name}", b"2")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own").write_text("own")
    assert mirror.pull(tmp_path / "there") is None
    storage.delete(f"checkpoints/key/files/{name}")
    assert mirror.pull(tmp_path / "there") is None
    assert (tmp_path / "there" / "own").read_text() == "own"


def test_an_index_that_names_a_file_elsewhere_is_not_followed(root, tmp_path):
    data = seal({"files": {"../outside": "0" * 64}})
    files_of(root).write("checkpoints/key/index.json", data)
    mirror = Mirror(Storage(root), "checkpoints/key")
    assert mirror.version() is None
    assert mirror.pull(tmp_path / "there") is None


def test_a_push_that_fails_leaves_the_copy_of_before(root, tmp_path, monkeypatch):
    mirror = Mirror(Storage(root), "checkpoints/key")
    version = mirror.push(files(tmp_path / "here", one="1"))

    def full(path, data):
        raise StorageError("full")

    monkeypatch.setattr(mirror._files, "write", full)
    with pytest.raises(StorageError, match="full"):
        mirror.push(files(tmp_path / "here", two="2"))
    assert mirror.version() == version
    assert mirror.pull(tmp_path / "there") == version


def test_a_removed_copy_is_gone(root, tmp_path):
    mirror = Mirror(Storage(root), "checkpoints/key")
    mirror.push(files(tmp_path / "here", one="1"))
    mirror.remove()
    assert mirror.version() is None
    assert files_of(root).names("checkpoints") == {}
