"""The ledger on every kind of storage."""

import json
import math

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raxalign.errors import DamagedArtifact, RaxalignError, StorageError
from raxalign.store.artifacts import FileEntry
from raxalign.store.disk import Published
from raxalign.store.files import files_of
from raxalign.store.key import digest
from raxalign.store.ledger import Ledger
from raxalign.store.sealed import seal

KEY = "12" * 32
SCORE = {"lang": "x", "metric": "m", "split": "test"}
RECORD = {"key": KEY, "task": "xnli", "params": {"setting": "zero-shot"}, "seconds": 1.5}
RECORD |= {"languages": ["de", "ελ"], "scores": [{**SCORE, "value": 0.1 + 0.2}]}
TABLE = pa.table({"id": [1, 2, 3], "prediction": ["a", "b", None]})


def stored(root, name):
    files, folder = fsspec.url_to_fs(f"{root}/ledger")
    [path] = [found for found in files.find(folder) if found.endswith(f"/{name}")]
    return files, path


@pytest.mark.parametrize("root", ["folder", "file", "bucket", "memory"], indirect=True)
def test_records_and_predictions_come_back_as_they_were(root, tmp_path, monkeypatch):
    ledger = Ledger(root)
    assert not ledger.has(KEY)
    assert ledger.keys() == set()
    ledger.write(KEY, RECORD, TABLE)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another machine"))
    again = Ledger(root)
    assert again.has(KEY)
    assert again.keys() == {KEY}
    assert again.read(KEY) == RECORD
    assert again.predictions(KEY).equals(TABLE)


def test_the_first_writer_wins(root):
    ledger = Ledger(root)
    ledger.write(KEY, RECORD, TABLE)
    ledger.write(KEY, {**RECORD, "seconds": 9.0}, TABLE.slice(1))
    assert ledger.read(KEY) == RECORD
    assert ledger.predictions(KEY).equals(TABLE)


def test_an_evaluation_may_have_no_predictions(root):
    ledger = Ledger(root)
    ledger.write(KEY, RECORD, None)
    assert ledger.read(KEY) == RECORD
    assert ledger.predictions(KEY) is None


def test_an_absent_evaluation_is_an_error_that_names_it(root):
    with pytest.raises(StorageError, match=KEY):
        Ledger(root).read(KEY)
    with pytest.raises(StorageError, match=KEY):
        Ledger(root).predictions(KEY)


def test_values_that_are_not_finite_are_kept(root):
    Ledger(root).write(KEY, {"scores": [], "value": math.inf, "other": math.nan}, None)
    record = Ledger(root).read(KEY)
    assert record["value"] == math.inf
    assert math.isnan(record["other"])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"scores": [{**SCORE, "value": math.nan}]}, r"xnli/x/m \(test\) is nan"),
        ({"scores": [{**SCORE, "value": -math.inf}]}, r"xnli/x/m \(test\) is -inf"),
        ({"notes": {"all": {"dev": [0.5, math.nan]}}}, r"xnli: notes\.all\.dev\[1\] is nan"),
    ],
)
def test_a_score_or_a_note_that_is_no_finite_number_is_refused_with_its_place(tmp_path, more, told):
    ledger = Ledger(str(tmp_path))
    with pytest.raises(RaxalignError, match=told):
        ledger.write(KEY, RECORD | more, TABLE)
    assert not ledger.has(KEY)


def test_many_records_are_read_at_once_without_those_that_are_absent(root):
    ledger = Ledger(root)
    assert ledger.read_many([]) == {}
    for number in range(5):
        ledger.write(f"e{number}", {"scores": [], "value": number}, None)
    assert ledger.keys() == {f"e{number}" for number in range(5)}
    wanted = {f"e{n}": {"key": f"e{n}", "scores": [], "value": n} for n in (1, 4)}
    assert ledger.read_many(["e1", "e4", "e7"]) == wanted
    assert ledger.read_many(["e7"]) == {}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data.replace(b"zero-shot", b"zero_shot"), "was changed"),
        (lambda data: data[:-10], "was changed"),
        (lambda data: b"", "has no checksum"),
        (lambda data: b"\xff\xfe", "has no checksum"),
        (lambda data: b"{}", "has no checksum"),
    ],
)
def test_a_damaged_entry_is_named_set_aside_and_not_there(root, damage, said):
    ledger = Ledger(root)
    ledger.write(KEY, RECORD, TABLE)
    ledger.write("whole", RECORD | {"key": "whole"}, None)
    files, folder = fsspec.url_to_fs(f"{root}/ledger/{KEY}")
    path = f"{folder}/evaluation.json"
    files.pipe_file(path, damage(files.cat_file(path)))
    with pytest.warns(UserWarning, match=f"{KEY}: evaluation.json {said}.*counts as not done"):
        assert ledger.read_many([KEY, "whole"]).keys() == {"whole"}
    assert ledger.keys() == {"whole"}
    assert not ledger.has(KEY)
    ledger.write(KEY, RECORD, TABLE)
    assert ledger.read(KEY) == RECORD
    assert ledger.predictions(KEY).equals(TABLE)


def test_an_entry_under_another_key_is_damaged(tmp_path):
    ledger = Ledger(str(tmp_path))
    ledger.write(KEY, RECORD, None)
    (tmp_path / "ledger" / KEY).rename(tmp_path / "ledger" / "other")
    with pytest.raises(DamagedArtifact, match=f"is that of {KEY}"):
        ledger.read("other")
    assert ledger.keys() == set()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:40], r"has 40 bytes instead of \d+"),
        (lambda data: data.replace(b"PAR1", b"PAR2"), "was changed"),
        (None, "is missing"),
    ],
)
def test_damaged_predictions_take_their_entry_with_them(root, tmp_path, monkeypatch, damage, said):
    Ledger(root).write(KEY, RECORD, TABLE)
    files, path = stored(root, "predictions.parquet")
    if damage is None:
        files.rm_file(path)
    else:
        files.pipe_file(path, damage(files.cat_file(path)))
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another"))
    ledger = Ledger(root)
    with pytest.raises(DamagedArtifact, match=f"predictions.parquet {said}"):
        ledger.predictions(KEY)
    assert not ledger.has(KEY)


def test_a_folder_without_a_record_does_not_count(tmp_path):
    (tmp_path / "ledger" / KEY).mkdir(parents=True)
    (tmp_path / "ledger" / KEY / "predictions.parquet").write_bytes(b"half")
    ledger = Ledger(str(tmp_path))
    assert ledger.keys() == set()
    ledger.write(KEY, RECORD, TABLE)
    assert ledger.predictions(KEY).equals(TABLE)


def test_records_that_could_not_come_back_are_refused(tmp_path):
    ledger = Ledger(str(tmp_path))
    for record in ({"key": "another"}, {"predictions": 1}, {"sha256": "x"}):
        with pytest.raises(ValueError, match=r"key|sha256"):
            ledger.write(KEY, record, None)
    assert ledger.keys() == set()


def test_entries_lie_where_programs_outside_look_for_them(tmp_path):
    Ledger(str(tmp_path)).write(KEY, RECORD, TABLE)
    record = json.loads((tmp_path / "ledger" / KEY / "evaluation.json").read_text(encoding="utf-8"))
    assert record["scores"] == RECORD["scores"]
    file = pq.ParquetFile(tmp_path / "ledger" / KEY / "predictions.parquet")
    assert file.read().equals(TABLE)
    assert file.metadata.row_group(0).column(1).compression == "ZSTD"


@pytest.mark.parametrize("whole", [True, False])
def test_predictions_of_an_earlier_version_are_compared_with_their_digest_and_stay(root, whole):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    data = sink.getvalue().to_pybytes()
    entry, storage = FileEntry.of(data), files_of(root)
    sealed = seal(RECORD | {"predictions": vars(entry)})

    def fill(staged):
        (staged / "predictions.arrow").write_bytes(data if whole else data[:-1] + b"x")
        (staged / "evaluation.json").write_bytes(sealed)
        return Published("evaluation.json", sealed, digest(entry.sha256), ("predictions.arrow",))

    assert storage.publish(f"ledger/{KEY}", fill)
    ledger, before = Ledger(root), storage.names("ledger")
    assert ledger.read(KEY) == RECORD
    if whole:
        assert ledger.predictions(KEY).equals(TABLE)
        ledger.write(KEY, RECORD, TABLE.slice(1))
        assert storage.names("ledger") == before
        assert ledger.sizes() == {KEY: sum(before.values())}
    else:
        with pytest.raises(DamagedArtifact, match=r"predictions\.arrow was changed"):
            ledger.predictions(KEY)


def test_failures_are_kept_replaced_and_forgotten(root):
    ledger = Ledger(root)
    assert ledger.failure("trial") is None
    ledger.clear_failure("trial")
    ledger.fail("trial", {"message": "first"})
    ledger.fail("trial", {"message": "zweiter Fehler: ß"})
    assert Ledger(root).failure("trial") == {"message": "zweiter Fehler: ß"}
    ledger.clear_failure("trial")
    assert ledger.failure("trial") is None
    ledger.fail("trial", {"message": "first"})
    files_of(root).write("failures/trial.json", b'{"mess')
    assert ledger.failure("trial") is None
