"""A storage that others can write to must not choose what is read or written elsewhere."""

import hashlib
import json
import math
from pathlib import Path

import fsspec
import pytest

from raxalign.errors import DamagedArtifact
from raxalign.store.artifacts import MANIFEST, ArtifactStore
from raxalign.store.files import files_of
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage

KEY = "cd" * 32
NAMES = (
    *("../../../escaped.txt", "/tmp/escaped.txt", "data/../../escaped.txt", "./words.txt"),
    *("a//b", "", "..\\escaped.txt", "C:/escaped.txt", "bad\x1b[2J.txt", "x\n"),
)
SCORE = {"lang": "de", "metric": "accuracy", "split": "test", "value": 0.5}


def opened(data):
    """The fields of a sealed record."""
    return {name: value for name, value in json.loads(data).items() if name != "sha256"}


def planted(root, name, data=b"evil"):
    """A store with one artifact, whose manifest was sealed anew with another name in it."""
    store = ArtifactStore(root)
    store.make("pairs", KEY, lambda folder: {"n": (folder / "words.txt").write_text("x")})
    files, folder = fsspec.url_to_fs(store.folder("pairs", KEY))
    path = f"{folder}/{MANIFEST}"
    record = opened(files.cat_file(path))
    record["files"] = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    files.pipe_file(path, seal(record))
    return store


def test_a_manifest_that_names_a_file_outside_its_folder_is_refused(root):
    for name in NAMES:
        with pytest.raises(DamagedArtifact, match="names a file outside its folder"):
            planted(root, name).open("pairs", KEY)


def test_a_manifest_with_a_size_or_digest_that_is_none_is_refused(tmp_path):
    store = planted(str(tmp_path), "words.txt")
    path = Path(store.folder("pairs", KEY)) / MANIFEST
    record = opened(path.read_bytes())
    record["files"]["words.txt"]["size"] = -1
    path.write_bytes(seal(record))
    with pytest.raises(DamagedArtifact, match=r"another form \(files.words.txt.size"):
        store.open("pairs", KEY)


def test_a_link_in_place_of_a_file_is_damage_even_if_the_bytes_are_right(tmp_path):
    store = ArtifactStore(str(tmp_path / "root"))
    folder = store.make("pairs", KEY, lambda place: {"n": (place / "words.txt").write_text("x")})
    (tmp_path / "elsewhere").write_text("x")
    (folder / "words.txt").unlink()
    (folder / "words.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="is not a plain file"):
        assert not store.verify("pairs", KEY)


def test_a_damaged_spool_file_is_reported_and_the_others_are_read(tmp_path):
    spool = Spool(Storage(str(tmp_path)), "trial", {"xnli": "xnli"})
    spool.report({"loss": 1.0}, 1)
    spool.flush()
    folder = tmp_path / "spool" / "trial"
    (folder / "0-cut.json").write_text('{"node": "a", "points": [["loss", 1')
    (folder / "0-odd.json").write_text(json.dumps({"points": [["loss"]]}))
    with pytest.warns(UserWarning, match="damaged training curves are left out") as found:
        points = spool.read()
    assert [(name, value, step) for name, value, step, _ in points] == [("loss", 1.0, 1)]
    named = {str(one.message).split(":")[0].rpartition("/")[2] for one in found}
    assert named == {"0-cut.json", "0-odd.json"}


def test_a_record_that_is_nested_too_deeply_is_damage(root):
    ledger, deep = Ledger(root), b"[" * 200_000 + b"]" * 200_000
    storage = files_of(root)
    whole = seal({"key": KEY, "predictions": None, "scores": [], "notes": {"x": 0}})
    body = b"{" + whole[82:].replace(b"0\n", deep)  # what `json` itself cannot write
    seen = hashlib.sha256(body).hexdigest().encode()
    storage.write(f"ledger/{KEY}/evaluation.json", whole[:14] + seen + b'",' + body[1:])
    storage.write(f"failures/{KEY}.json", deep)
    with pytest.raises(DamagedArtifact, match=r"recursion limit exceeded.* It was set aside"):
        ledger.read(KEY)
    assert ledger.failure(KEY) is None
    assert ledger.failures([KEY]) == {}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "scores"),
        ({"scores": {}}, "scores"),
        ({"scores": [SCORE, {**SCORE, "value": "high"}]}, "scores.1.value"),
        ({"scores": [{**SCORE, "value": math.nan}]}, "scores.0.value"),
        ({"scores": [{"value": 0.5}]}, "scores.0.lang"),
        ({"scores": [], "notes": []}, "notes"),
        ({"scores": [], "seconds": "long"}, "seconds"),
    ],
)
def test_a_whole_record_that_is_not_of_an_evaluation_is_damage(root, changes, told):
    record = {"key": KEY, "predictions": None, **changes}
    files_of(root).write(f"ledger/{KEY}/evaluation.json", seal(record))
    with pytest.warns(UserWarning, match=rf"another form \({told}"):
        assert Ledger(root).read_many([KEY]) == {}
    assert not Ledger(root).has(KEY)
