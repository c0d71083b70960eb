"""The journal of studies: on a file system, and for an object store."""

import optuna
import pytest

from raxalign.errors import StorageError
from raxalign.plan.load import open_grid
from raxalign.plan.study_record import StudyRecord
from raxalign.store.files import files_of
from raxalign.store.lease import lease
from raxalign.store.sealed import unseal
from raxalign.store.storage import Storage
from raxalign.store.studies import read_studies, write_study
from raxalign.sweep.search.journal import Journal
from raxalign.sweep.search.run import Owner, StudyRun
from raxalign.sweep.search.samplers import Proposal
from tests.searches import open_search, run, search_grid, source_of

POINT = Proposal({"lambda": 0.5, "layers": "last"})


def study_of(storage, study):
    return StudyRun(study, storage, Owner(Storage("memory://owner")), lambda values: None)


@pytest.fixture
def study(tmp_path):
    path = search_grid(tmp_path, "trials: 4, confirm: 0")
    return open_grid(path, storage=str(tmp_path / "storage")).plan.studies[0]


def test_a_point_is_one_line_of_the_journal(tmp_path, study):
    journal = Journal.open(Storage(str(tmp_path)), tmp_path)
    with journal.turn() as storage:
        log = study_of(storage, study)
        before = journal.path.read_bytes().count(b"\n")
        assert log.add(POINT, {"owner": "me"}) == 0
        assert journal.path.read_bytes().count(b"\n") == before + 1


def test_optuna_opens_the_journal_by_itself(tmp_path):
    opened = open_search(search_grid(tmp_path, "trials: 3, confirm: 0"))
    source = source_of(opened)
    run(source)
    backend = optuna.storages.journal.JournalFileBackend(str(source.journal.path))
    storage = optuna.storages.JournalStorage(backend)
    loaded = optuna.load_study(study_name=opened.plan.studies[0].name, storage=storage)
    assert [trial.state.name for trial in loaded.trials] == ["COMPLETE"] * 3


def point(number):
    return Proposal({"lambda": 0.1 * (number + 1), "layers": "last"})


def machines(tmp_path, *names):
    """Journals of one object store on several machines."""
    return [Journal.open(Storage(f"memory://{tmp_path}"), tmp_path / name) for name in names]


def add(journal, study, number):
    with journal.turn() as storage:
        assert study_of(storage, study).add(point(number), {"owner": "me"}) == number


def points(journal, study):
    with journal.turn() as storage:
        return [trial.params["lambda"] for trial in study_of(storage, study).trials()]


def values(count):
    return [point(number).values["lambda"] for number in range(count)]


def test_machines_take_turns_at_the_journal_of_an_object_store(tmp_path, study):
    one, other = machines(tmp_path, "one", "other")
    for number, journal in enumerate([one, other, other, one, other]):
        add(journal, study, number)
    assert points(one, study) == points(other, study) == values(5)
    assert other.path.read_bytes() == stored(tmp_path)


def stored(tmp_path):
    return files_of(f"memory://{tmp_path}").read("studies/journal.log")


def test_a_turn_that_was_killed_is_taken_up_by_its_own_machine(tmp_path, study):
    killed, heir = machines(tmp_path, "one", "one")
    add(killed, study, 0)
    leave_unsent(killed, study, 1)
    assert points(heir, study) == values(2)
    assert stored(tmp_path) == heir.path.read_bytes()


def test_a_turn_that_was_killed_is_dropped_where_another_machine_has_written_since(tmp_path, study):
    killed, other, heir = machines(tmp_path, "one", "other", "one")
    add(killed, study, 0)
    leave_unsent(killed, study, 1)
    add(other, study, 1)
    add(other, study, 2)
    assert points(heir, study) == values(3)
    assert heir.path.read_bytes() == stored(tmp_path)
    assert stored(tmp_path).startswith(other.path.read_bytes())


def leave_unsent(journal, study, number):
    """What a driver leaves that is killed between its last write and the end of its turn."""

    def killed():
        with journal.turn() as storage:
            study_of(storage, study).add(point(number), {"owner": "me", "lost": True})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()


def test_a_machine_that_was_silent_in_its_turn_overwrites_nothing(tmp_path, study):
    late, other = machines(tmp_path, "one", "other")
    add(late, study, 0)

    def silent():
        with late.turn() as storage:
            study_of(storage, study).add(point(1), {"owner": "late"})
            with lease(late.storage, "studies", patience=lambda holder: 0.0):  # was overtaken
                pass
            add(other, study, 1)

    with pytest.raises(StorageError, match=r"another machine has written.*Run the grid again"):
        silent()
    assert stored(tmp_path) == other.path.read_bytes()


def test_a_driver_without_a_question_asks_an_object_store_seldom(tmp_path, study):
    (journal,) = machines(tmp_path, "one")
    assert not journal.rests
    add(journal, study, 0)
    assert journal.rests
    on_disk = Journal.open(Storage(str(tmp_path)), tmp_path)
    add(on_disk, study, 0)
    assert not on_disk.rests


def test_a_record_is_read_back_and_a_damaged_one_is_named(tmp_path):
    files, name = files_of(str(tmp_path)), "finetune-de-1"
    readers = dict.fromkeys([name, "other"], lambda data: unseal(data, StudyRecord))
    write_study(files, name, StudyRecord(name))
    assert read_studies(files, readers) == {name: StudyRecord(name)}
    (tmp_path / "studies" / "finetune-de-1.json").write_text("{")
    with pytest.raises(StorageError, match=r"finetune-de-1\.json: is not a record of a study"):
        read_studies(files, readers)
