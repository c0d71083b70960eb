"""The journal of a study, which several processes write without a lock."""

import json
import multiprocessing
import threading

import optuna
import pytest

from raxalign.errors import StorageError
from raxalign.grid.load import open_grid
from raxalign.grid.study import StudyRecord
from raxalign.search.journal import Journal, Overtaken
from raxalign.store.key import digest
from raxalign.store.storage import Storage
from tests.searches import finished, search_grid

POINT = {"lambda": 0.5, "layers": "last"}


@pytest.fixture
def study(tmp_path):
    path = search_grid(tmp_path, "trials: 4, confirm: 0")
    return open_grid(path, storage=str(tmp_path / "storage")).plan.studies[0]


@pytest.fixture(params=["", "memory://"])
def storage(request, tmp_path):
    return Storage(f"{request.param}{tmp_path}/root")


def write(root, study, writer):
    journal = Journal(Storage(root), study)
    for number in range(10):
        journal.mark(f"{writer}-{number}", number)
        journal.note(0, f"{writer}-{number}", number)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_writers_at_once_lose_nothing(tmp_path, study, kind):
    root = f"{'' if kind == 'processes' else 'memory://'}{tmp_path}/root"
    Journal(Storage(root), study).add(POINT, {})
    # copies of this process begin at once: to load the libraries anew takes seconds for each
    copies = multiprocessing.get_context("fork")
    maker = copies.Process if kind == "processes" else threading.Thread
    writers = [maker(target=write, args=(root, study, writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    journal = Journal(Storage(root), study)
    expected = {f"{writer}-{number}": number for writer in range(3) for number in range(10)}
    assert journal.marks == journal.trials()[0].user_attrs == expected


def test_a_point_is_one_file_and_is_added_alone_or_not_at_all(storage, study):
    one, other = Journal(storage, study), Journal(storage, study)
    before = len(storage.files.names(f"studies/{study.name}"))
    assert other.add(POINT, {}) == 0
    assert len(storage.files.names(f"studies/{study.name}")) == before + 1
    with pytest.raises(Overtaken), one.alone():
        one.add(POINT, {})
    assert len(one.trials()) == len(other.trials()) == 1
    with one.alone():
        assert one.add({**POINT, "lambda": 0.7}, {}) == 1
    assert (len(other.trials()), other.look(), len(other.trials())) == (1, True, 2)
    assert not other.look()


def test_optuna_opens_the_files_of_a_journal_one_after_the_other(tmp_path):
    opened = finished(tmp_path, "trials: 3, confirm: 0")
    (study,), whole = opened.plan.studies, tmp_path / "whole.log"
    files = sorted((tmp_path / "storage" / "studies" / study.name).iterdir())
    whole.write_bytes(b"".join(file.read_bytes() for file in files))
    backend = optuna.storages.journal.JournalFileBackend(str(whole))
    storage = optuna.storages.JournalStorage(backend)
    loaded = optuna.load_study(study_name=study.name, storage=storage)
    assert [trial.state.name for trial in loaded.trials] == ["COMPLETE"] * 3


UNKNOWN = {"op_code": 4, "trial_id": []}


@pytest.mark.parametrize(
    "left",
    [
        b"",
        b"[]",
        b'{"op_code": 0}',
        b"\xff",
        json.dumps({**UNKNOWN, "sha256": digest(UNKNOWN)}).encode(),
    ],
)
def test_a_damaged_line_is_named_and_says_what_to_delete(storage, study, left):
    Journal(storage, study)
    storage.files.write(f"studies/{study.name}/00000001.log", left)
    with pytest.raises(StorageError, match=rf"0000000[12]\.log: .* delete .*{study.name}: "):
        Journal(storage, study)


def test_a_line_that_is_missing_is_named(storage, study):
    Journal(storage, study).add(POINT, {})
    storage.files.delete(f"studies/{study.name}/00000000.log")
    with pytest.raises(StorageError, match=r"00000000\.log: .* is missing"):
        Journal(storage, study)


def test_a_record_is_read_back_and_a_damaged_one_is_named(tmp_path, study):
    storage, record = Storage(str(tmp_path)), StudyRecord(study.name)
    assert StudyRecord.read(storage, [study]) == {}
    record.write(storage)
    assert StudyRecord.read(storage, [study]) == {study.name: record}
    (tmp_path / "studies" / f"{study.name}.json").write_text("{")
    with pytest.raises(StorageError, match=rf"{study.name}\.json: is not a record of a study"):
        StudyRecord.read(storage, [study])
