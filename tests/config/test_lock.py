import pytest

from raxalign.errors import DataError, StorageError
from raxalign.grid.lock import Lock


def test_what_is_saved_is_read_again_beside_the_grid(tmp_path):
    before = Lock.load(tmp_path / "cao.yaml")
    before.with_("hub:bert", "abc").with_("opus:Europarl/de-en", "ü").save()
    assert before.get("hub:bert") is None, "a lock is a value"
    assert [path.name for path in tmp_path.iterdir()] == ["cao.lock"]
    entries = {"hub:bert": "abc", "opus:Europarl/de-en": "ü"}
    assert Lock.load(tmp_path / "cao.yaml").entries == entries


def test_the_text_does_not_depend_on_the_order_of_entries(tmp_path):
    Lock(tmp_path / "a.lock").with_("x", "1").with_("y", "2").save()
    Lock(tmp_path / "b.lock").with_("y", "2").with_("x", "1").save()
    assert (tmp_path / "a.lock").read_bytes() == (tmp_path / "b.lock").read_bytes()


def test_entries_that_another_process_has_saved_are_kept(tmp_path):
    before = Lock.load(tmp_path / "cao.yaml")
    ours, theirs = before.with_("a", "1"), before.with_("b", "2")
    theirs.save()
    ours.save()
    assert Lock.load(tmp_path / "cao.yaml").entries == {"a": "1", "b": "2"}


@pytest.mark.parametrize("content", [b'{"a": "1"', b"[]", b'{"a": 1}', b'{"a": ""}', b"\xff", b""])
def test_a_damaged_lock_is_named(tmp_path, content):
    (tmp_path / "cao.lock").write_bytes(content)
    with pytest.raises(DataError, match=r"cao\.lock.*lock file") as caught:
        Lock.load(tmp_path / "cao.yaml")
    assert "delete it" in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere.*cannot be written"):
        Lock(tmp_path / "nowhere" / "cao.lock", {"a": "1"}).save()


def test_an_existing_lock_survives_a_failed_save(tmp_path):
    lock = Lock(tmp_path / "cao.lock", {"a": "1"})
    lock.save()
    with pytest.raises(TypeError):
        lock.with_("b", object()).save()
    assert Lock.load(tmp_path / "cao.yaml").entries == {"a": "1"}
    assert len(list(tmp_path.iterdir())) == 1
