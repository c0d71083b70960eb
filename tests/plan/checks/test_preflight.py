"""Which files are read before a grid starts, and how their faults are reported."""

from pathlib import Path

import pytest

from raxalign.corpora.readers.inspection import FileRead
from raxalign.errors import DataError, RaxalignError
from raxalign.grid.checks import SHOWN, FilesRead, LocalData, _shown
from raxalign.grid.load import open_grid
from tests.grids import write_grid

XNLI = "xnli: {data: {train: 'train.{pivot}', dev: 'dev.{lang}'}}"
EACH = "{each: [de, fr]}"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("RAXALIGN_STORAGE", str(tmp_path / "storage"))

    def write_(*methods, tasks=(XNLI,), aligner="fast_align", languages=EACH, **files):
        good = {"train.en": "A\tB\t0\n", "dev.en": "C\tD\t1\n", "dev.de": "E\tF\t2\n"}
        good |= {"dev.fr": "G\tH\t2\nI\tJ\t0\n"}
        for name, text in {**good, **files}.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        parts = {"sentences": "100", "aligner": aligner, "languages": languages}
        parts |= {"methods": methods or ("none: {}",), "tasks": tasks}
        return open_grid(write_grid(tmp_path, **parts)).plan

    return write_


def test_each_file_is_read_once_over_all_trials(write):
    found = LocalData(write("none: {}", "rotation: {center: [false, true]}")).files()
    assert found == FilesRead(4, 5)
    assert str(found) == "4 data files were read: 5 rows"


def test_only_what_is_left_to_run_is_read(write):
    plan = write(**{"dev.fr": "G\tH\tmaybe\n"})
    french = next(trial for trial in plan.trials if trial.languages == ("fr",))
    assert len(LocalData(plan).files().faults) == 1
    assert LocalData(plan).files(done=set(french.evaluations.values())) == FilesRead(3, 3)
    every = {key for trial in plan.trials for key in trial.evaluations.values()}
    assert LocalData(plan).files(done=every) == FilesRead(0, 0)
    others = plan.only(trial for trial in plan.trials if trial is not french)
    assert LocalData(others).files().faults == ()


def test_what_was_found_good_is_remembered_until_it_changes(write, tmp_path):
    memory = tmp_path / "memory"
    assert LocalData(write()).files(memory=memory).files == 4
    assert LocalData(write()).files(memory=memory) == FilesRead(0, 0)
    broken = write(**{"dev.de": "E\tF\tmaybe\n"})
    for _ in range(2):  # what was found bad is not remembered
        assert len(LocalData(broken).files(memory=memory).faults) == 1


def test_dictionaries_of_methods_and_links_of_word_aligners_are_read(write):
    methods = ("rotation: {supervision: dictionary, dictionary: 'dict.{lang}'}", "finetune: {}")
    files = {"dict.de": "Haus house\n", "dict.fr": "maison the house\n"}
    files |= {"links.de": "0-0 1-1\n\n", "links.fr": "0-0\nx-y\n"}
    tasks, links = ("retrieval: {}",), "links, path: 'links.{lang}'"
    (fault,) = LocalData(write(*methods, tasks=tasks, **files)).files().faults
    assert fault.rsplit("/", 1)[-1].split(";")[0] == "dict.fr:1: 3 words"
    found = LocalData(write(*methods, tasks=tasks, aligner=links, **files)).files()
    assert sorted(fault.rsplit("/", 1)[-1].split(". ")[0] for fault in found.faults) == [
        "dict.fr:1: 3 words; an entry is two, divided by a space or a tab",
        "links.fr:2: 'x-y' is not a link",
    ]
    assert (found.files, found.rows) == (4, 3)


def test_a_dictionary_whose_sides_are_swapped_is_doubted_until_it_is_mended(write, tmp_path):
    entries = [("Ο γάτος κοιμάται", "cat"), ("Ο σκύλος γαβγίζει", "dog")] * 9
    methods = ("rotation: {supervision: dictionary, dictionary: 'dict.{lang}'}",)

    def doubts(order):
        lines = "".join(" ".join((el.split()[1], en)[::order]) + "\n" for el, en in entries)
        parts = {"languages": "{each: [el]}", "dict.el": lines}
        plan = write(*methods, tasks=("retrieval: {}",), **parts)
        return LocalData(plan).files(memory=tmp_path / "memory").remarks

    for _ in range(2):  # what is doubted is not remembered as good
        (doubt,) = doubts(-1)
        assert doubt.startswith(f"{tmp_path}/dict.el: the sides of el-en seem to be swapped: 100%")
    assert doubts(1) == ()


def test_what_is_left_out_of_good_files_is_told_each_time(write, tmp_path):
    rows = "text\tlabel\nA\tyes\nB\t-\nC\tno\n"
    names = ("train.en", "test.en", "test.de")
    task = (
        "classification: {columns: {first: text}, labels: [no, yes], selection: last,"
        " data: {train: 'train.{pivot}', test: 'test.{lang}'}}"
    )
    texts = {name: rows.replace("A", f"A{name}").replace("C", f"C{name}") for name in names}
    plan = write("none: {}", tasks=(task,), languages="{each: [de]}", **texts)
    told = [f"{tmp_path}/{name}: 1 of 3 rows is left out: without a label" for name in names]
    for _ in range(2):
        found = LocalData(plan).files(memory=tmp_path / "memory")
        assert [*found.remarks] == told
    assert (found.files, found.faults) == (0, ()), "they are not read again"
    assert LocalData(plan).remembered(tmp_path / "memory") == told
    assert LocalData(plan).remembered(tmp_path / "none") == []
    assert LocalData(plan).files(memory=tmp_path / "memory", again=True).files == 3


def test_all_files_are_named_before_more_faults_of_one(tmp_path):
    faults = tuple(DataError("a", "x", line=line) for line in range(1, 21))
    many = FileRead(tmp_path / "a", 0, faults, more=30)
    other = FileRead(tmp_path / "b", 0, (DataError("b", "y", line=1),))
    shown, more = _shown([many, other, other])
    assert shown == (*(f"a:{line}: x" for line in range(1, SHOWN)), "b:1: y")
    assert more == 31


def test_faults_are_one_error_that_counts_them():
    with pytest.raises(RaxalignError) as told:
        FilesRead(2, 0, ("a:1: x", "b:1: y"), 3).refuse_faults(Path("grid.yaml"))
    assert str(told.value).splitlines() == [
        "grid.yaml: 5 faults in its data files; nothing was started",
        "  a:1: x",
        "  b:1: y",
        "  and 3 more",
    ]
    FilesRead(2, 7).refuse_faults("grid.yaml")
