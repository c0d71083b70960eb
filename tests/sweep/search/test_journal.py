"""The journal of studies: on a file system, and for an object store."""

from __future__ import annotations

from pathlib import Path

import fsspec
import optuna
import pytest

from raxalign.errors import StorageError
from raxalign.plan.load import open_grid
from raxalign.plan.study import Study
from raxalign.store.studies import Studies
from raxalign.sweep.search.journal import Journal, StudyLog
from raxalign.sweep.search.samplers import Proposal
from tests.searches import open_search, run, search_grid, source_of

POINT = Proposal({"lambda": 0.5, "layers": "last"})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = search_grid(tmp_path, "trials: 4, confirm: 0")
    return open_grid(path, storage=str(tmp_path / "storage")).plan.studies[0]


def test_a_point_is_one_line_of_the_journal(tmp_path: Path, study: Study) -> None:
    journal = Journal.open(str(tmp_path), tmp_path)
    with journal.turn() as storage:
        log = StudyLog(storage, study)
        before = journal.path.read_bytes().count(b"\n")
        assert log.add(POINT, {"owner": "me"}) == 0
        assert journal.path.read_bytes().count(b"\n") == before + 1


def test_optuna_opens_the_journal_by_itself(tmp_path: Path) -> None:
    opened = open_search(search_grid(tmp_path, "trials: 3, confirm: 0"))
    source = source_of(opened)
    run(source)
    backend = optuna.storages.journal.JournalFileBackend(str(source.journal.path))
    loaded = optuna.load_study(
        study_name=opened.plan.studies[0].name, storage=optuna.storages.JournalStorage(backend)
    )
    assert [trial.state.name for trial in loaded.trials] == ["COMPLETE"] * 3


def test_the_journal_of_an_object_store_is_brought_and_fetched(
    tmp_path: Path, study: Study
) -> None:
    root = f"memory://{tmp_path.name}"
    first = Journal.open(root, tmp_path / "one")
    with first.turn() as storage:
        StudyLog(storage, study).add(POINT, {"owner": "me"})
    assert fsspec.filesystem("memory").exists(f"/{tmp_path.name}/studies/journal.log")
    second = Journal.open(root, tmp_path / "two")
    with second.turn() as storage:
        (trial,) = StudyLog(storage, study).trials()
    assert trial.params == POINT.values


def test_a_record_is_read_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    studies = Studies(str(tmp_path))
    studies.write("finetune-de-1", {"study": "finetune-de-1"})
    assert studies.read_many(["finetune-de-1", "other"]) == {
        "finetune-de-1": {"study": "finetune-de-1"}
    }
    (tmp_path / "studies" / "finetune-de-1.json").write_text("{")
    with pytest.raises(StorageError, match=r"finetune-de-1\.json: is not a record of a study"):
        studies.read_many(["finetune-de-1"])
