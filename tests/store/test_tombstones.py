"""What is dropped on purpose is told from what was never made, and can be made again."""

from __future__ import annotations

import pytest

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage

KEY = "ab" * 32


def build(folder):
    (folder / "weights").write_bytes(b"123456")
    return {"unknown": {"de": 0.5}}


@pytest.fixture(params=["folder", "memory"])
def root(request, tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    return str(tmp_path / "root") if request.param == "folder" else f"memory://{tmp_path.name}"


def test_a_dropped_artifact_leaves_size_time_and_reason(root) -> None:
    store, tombstones = ArtifactStore(root), Storage(root).tombstones
    store.make("tuned", KEY, build)
    assert Storage(store.root).drop("tuned", KEY, "run.keep: none") == 6
    assert not store.has("tuned", KEY)
    assert list(tombstones.keys()) == [("tuned", KEY)]
    left = tombstones.of("tuned", KEY)
    assert left is not None
    assert (left.manifest.size, left.why, left.manifest.notes) == (
        6,
        "run.keep: none",
        {"unknown": {"de": 0.5}},
    )
    assert left.when.startswith("20")


def test_it_can_be_made_again_and_dropped_again(root) -> None:
    store = ArtifactStore(root)
    for _ in range(2):
        store.make("tuned", KEY, build)
        assert store.verify("tuned", KEY)
        assert list(store.keys()) == [("tuned", KEY)]
        Storage(store.root).drop("tuned", KEY, "run.keep: none")
    assert list(store.keys()) == []


def test_notes_outlive_the_artifact_and_what_was_never_made_has_none(root) -> None:
    store = ArtifactStore(root)
    assert Storage(store.root).manifest_of("tuned", KEY) is None
    store.make("tuned", KEY, build)
    before = Storage(store.root).manifest_of("tuned", KEY)
    Storage(store.root).drop("tuned", KEY, "run.keep: none")
    assert Storage(store.root).manifest_of("tuned", KEY) == before


def test_a_damaged_record_is_named_and_counts_as_none(tmp_path) -> None:
    root = str(tmp_path)
    store = ArtifactStore(root)
    store.make("tuned", KEY, build)
    Storage(store.root).drop("tuned", KEY, "run.keep: none")
    path = tmp_path / "dropped" / "tuned" / "ab" / KEY / "dropped.json"
    path.write_bytes(path.read_bytes().replace(b"none", b"best"))
    with pytest.warns(UserWarning, match="dropped.json: is left out: it was changed"):
        assert Storage(root).tombstones.of("tuned", KEY) is None
