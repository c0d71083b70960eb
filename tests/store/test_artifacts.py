"""Artifacts on every kind of storage: visible whole or not at all, and never used when damaged."""

import json
from importlib.util import find_spec

import fsspec
import pytest

from raxalign.errors import DamagedArtifact, StorageError
from raxalign.store import artifacts
from raxalign.store.artifacts import MANIFEST, ArtifactStore, Verified
from raxalign.store.storage import Storage

KEY = "ab" * 32


def build(folder):
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "words.txt").write_text("Haus\n" * 100, encoding="utf-8")
    (folder / "data" / "deep" / "links.bin").write_bytes(bytes(range(256)))
    return {"links": 3, "digest": "π"}


def never(folder):
    raise AssertionError("it was there")


def new_process(monkeypatch):
    """What a process remembers of verified folders is gone."""
    monkeypatch.setattr(artifacts, "_verified", Verified())


def stored(store, name):
    """The file system, and where in it a file of the artifact lies."""
    files, folder = fsspec.url_to_fs(store.folder("pairs", KEY))
    [path] = [found for found in files.find(folder) if found.endswith(f"/{name}")]
    return files, path


def flip(data):
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize("root", ["folder", "file", "bucket", "memory"], indirect=True)
def test_what_was_built_is_there_with_its_notes_also_on_another_machine(
    root, tmp_path, monkeypatch
):
    store = ArtifactStore(root)
    assert not store.has("pairs", KEY)
    store.make("pairs", KEY, build)
    new_process(monkeypatch)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another"))
    folder = ArtifactStore(root).open("pairs", KEY)
    assert store.has("pairs", KEY)
    assert (folder / "words.txt").read_text() == "Haus\n" * 100
    assert (folder / "data" / "deep" / "links.bin").read_bytes() == bytes(range(256))
    manifest = store.manifest("pairs", KEY)
    sizes = {name: entry.size for name, entry in manifest.files.items()}
    assert sizes == {"words.txt": 500, "data/deep/links.bin": 256}
    assert manifest.notes == {"links": 3, "digest": "π"}
    assert (manifest.kind, manifest.key) == ("pairs", KEY)
    assert manifest.seconds >= 0
    assert store.size("pairs", KEY) == 756


def test_what_is_there_is_not_built_again(root):
    ArtifactStore(root).make("pairs", KEY, build)
    again = ArtifactStore(root)
    assert again.make("pairs", KEY, never) == again.open("pairs", KEY)


def test_an_absent_artifact_is_an_error_that_names_it(root):
    store = ArtifactStore(root)
    with pytest.raises(StorageError, match=KEY) as caught:
        store.open("pairs", KEY)
    assert not isinstance(caught.value, DamagedArtifact)
    assert store.verify("pairs", KEY) is False


def test_keys_lists_what_is_whole(root):
    store = ArtifactStore(root)
    assert list(store.keys()) == []
    store.make("pairs", KEY, build)
    store.make("text", "cd" * 32, build)
    assert sorted(store.keys()) == [("pairs", KEY), ("text", "cd" * 32)]


def test_a_removed_artifact_is_gone_and_can_be_made_again(root):
    store = ArtifactStore(root)
    store.remove("pairs", KEY)
    store.make("pairs", KEY, build)
    store.remove("pairs", KEY)
    assert not store.has("pairs", KEY)
    assert list(store.keys()) == []
    assert (store.make("pairs", KEY, build) / "words.txt").exists()


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("words.txt", flip, "words.txt was changed"),
        ("words.txt", lambda data: data[:-1], "words.txt has 499 bytes instead of 500"),
        ("links.bin", lambda data: b"", "data/deep/links.bin has 0 bytes instead of 256"),
        ("links.bin", None, "data/deep/links.bin is missing"),
        (
            MANIFEST,
            lambda data: data.replace(b'"links": 3', b'"links": 4'),
            f"{MANIFEST} was changed",
        ),
        (MANIFEST, lambda data: data[: len(data) // 2], f"{MANIFEST} was changed"),
        (MANIFEST, lambda data: b"", f"{MANIFEST} has no checksum"),
        (MANIFEST, lambda data: b"\xff\x00", f"{MANIFEST} has no checksum"),
        (MANIFEST, lambda data: b"[]", f"{MANIFEST} has no checksum"),
    ],
)
def test_damage_is_named_set_aside_and_made_again(root, tmp_path, monkeypatch, name, damage, said):
    store = ArtifactStore(root)
    store.make("pairs", KEY, build)
    files, path = stored(store, name)
    if damage is None:
        files.rm_file(path)
    else:
        files.pipe_file(path, damage(files.cat_file(path)))
    new_process(monkeypatch)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another"))
    store = ArtifactStore(root)
    with pytest.raises(DamagedArtifact, match=said) as caught:
        store.open("pairs", KEY)
    assert store.folder("pairs", KEY) in str(caught.value)
    assert f"pairs-{KEY}-1" in str(caught.value)
    assert not store.has("pairs", KEY)
    assert list(store.keys()) == []
    folder = store.make("pairs", KEY, build)
    assert (folder / "words.txt").read_text() == "Haus\n" * 100
    assert store.verify("pairs", KEY)


def test_make_builds_a_damaged_one_again_and_says_so(root, tmp_path, monkeypatch):
    store = ArtifactStore(root)
    for number in (1, 2):
        store.make("pairs", KEY, build)
        files, path = stored(store, "words.txt")
        files.pipe_file(path, b"rubbish")
        new_process(monkeypatch)
        monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / f"another-{number}"))
        store = ArtifactStore(root)
        told = rf"words.txt has 7 bytes instead of 500.*pairs-{KEY}-{number}"
        with pytest.warns(UserWarning, match=told):
            folder = store.make("pairs", KEY, build)
        assert (folder / "words.txt").read_text() == "Haus\n" * 100


def test_verify_sees_what_changed_since_the_artifact_was_opened(root):
    store = ArtifactStore(root)
    store.make("pairs", KEY, build)
    assert store.verify("pairs", KEY)
    files, path = stored(store, "words.txt")
    files.pipe_file(path, b"rubbish")
    with pytest.warns(UserWarning, match=r"words.txt has 7 bytes instead of 500"):
        assert not store.verify("pairs", KEY)
    assert not store.has("pairs", KEY)


def test_a_build_that_raises_leaves_nothing(root, tmp_path):
    def half(folder):
        (folder / "words.txt").write_text("half")
        raise KeyError("a bug of the maker")

    store = ArtifactStore(root)
    with pytest.raises(KeyError, match="a bug of the maker"):
        store.make("pairs", KEY, half)
    assert not store.has("pairs", KEY)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not list(tmp_path.rglob(".tmp-*"))


def test_an_error_about_an_input_of_the_maker_stays_what_it_is(root):
    def unreadable(folder):
        (folder.parent.parent.parent / "no such corpus").read_text()
        return {}

    with pytest.raises(FileNotFoundError):
        ArtifactStore(root).make("pairs", KEY, unreadable)


def test_links_and_a_manifest_of_the_makers_own_are_refused(root, tmp_path):
    def linked(folder):
        (folder / "words.txt").symlink_to(tmp_path)
        return {}

    def presumptuous(folder):
        (folder / "manifest.json").write_text("{}")
        return {}

    store = ArtifactStore(root)
    with pytest.raises(ValueError, match=r"words.txt.*no links"):
        store.make("pairs", KEY, linked)
    with pytest.raises(ValueError, match=r"manifest.json is the storage's own"):
        store.make("pairs", KEY, presumptuous)
    assert list(store.keys()) == []


def test_notes_that_are_no_json_are_refused_and_leave_nothing(root):
    store = ArtifactStore(root)
    with pytest.raises(TypeError):
        store.make("pairs", KEY, lambda folder: {"path": folder})
    assert not store.has("pairs", KEY)


def test_files_that_a_library_adds_are_no_damage(tmp_path):
    store = ArtifactStore(str(tmp_path / "root"))
    (store.make("pairs", KEY, build) / "data" / "cache-1.arrow").write_bytes(b"added")
    assert store.verify("pairs", KEY)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a b"])
def test_names_that_would_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot name"):
        ArtifactStore(str(tmp_path)).folder("pairs", name)


def test_a_folder_is_an_absolute_path_in_the_layout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root, place in (
        ("here", f"{tmp_path}/here"),
        (f"file://{tmp_path}", tmp_path),
        ("memory://here/", "memory://here"),
    ):
        assert ArtifactStore(root).folder("pairs", KEY) == f"{place}/artifacts/pairs/ab/{KEY}"


def test_the_manifest_is_json_that_lists_every_file(tmp_path):
    folder = ArtifactStore(str(tmp_path)).make("pairs", KEY, build)
    record = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert record["files"]["data/deep/links.bin"] == {
        "size": 256,
        "sha256": "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880",
    }


def test_a_damaged_local_copy_is_no_fault_of_the_object_store(tmp_path, monkeypatch):
    root = f"bucket://{tmp_path}/root"
    folder = ArtifactStore(root).make("pairs", KEY, build)
    (folder / "words.txt").write_bytes(flip((folder / "words.txt").read_bytes()))
    (folder / "data" / "deep" / "links.bin").unlink()
    new_process(monkeypatch)
    store = ArtifactStore(root)
    assert store.open("pairs", KEY) == folder
    assert store.verify("pairs", KEY)
    assert (folder / "words.txt").read_text() == "Haus\n" * 100


def test_an_object_store_without_its_library_says_what_to_install():
    if find_spec("gcsfs") is not None:
        pytest.skip("gcsfs is installed")
    with pytest.raises(Exception, match=r"raxalign\[gcs\]"):
        ArtifactStore("gs://bucket/raxalign")


def test_an_unknown_kind_of_storage_is_an_error():
    told = r"nosuch://x: is not a storage \(.*s3://bucket/folder, gs:"
    with pytest.raises(StorageError, match=told):
        ArtifactStore("nosuch://x")


def test_a_dropped_artifact_leaves_size_time_and_reason_and_can_be_made_again(root):
    storage = Storage(root)
    store, tombstones = storage.artifacts, storage.tombstones
    assert storage.manifest_of("pairs", KEY) is None
    for _ in range(2):
        store.make("pairs", KEY, build)
        before = storage.manifest_of("pairs", KEY)
        assert storage.drop("pairs", KEY, "run.keep: none") == 756
        assert list(store.keys()) == []
        assert list(tombstones.keys()) == [("pairs", KEY)]
        left = tombstones.of("pairs", KEY)
        assert (left.manifest, left.why) == (before, "run.keep: none")
        assert left.when.startswith("20")
        assert storage.manifest_of("pairs", KEY) == before


def test_a_damaged_record_of_a_dropped_artifact_is_named_and_counts_as_none(tmp_path):
    storage = Storage(str(tmp_path))
    storage.artifacts.make("pairs", KEY, build)
    storage.drop("pairs", KEY, "run.keep: none")
    path = tmp_path / "dropped" / "pairs" / "ab" / KEY / "dropped.json"
    path.write_bytes(path.read_bytes().replace(b"none", b"best"))
    with pytest.warns(UserWarning, match="dropped.json: is left out: it was changed"):
        assert storage.tombstones.of("pairs", KEY) is None
