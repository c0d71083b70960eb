"""Looks at comparisons: the same runs are one look, others are a further one, and a storage that
takes no record is reported.
"""

import subprocess
import sys
import warnings

import pytest

from raxalign.store.files import files_of
from raxalign.store.ledger import FOLDER, Looks
from raxalign.store.sealed import seal

FEW = {"pair": ("few", 4, ["de", "fr"])}
MORE = {"pair": ("more", 9, ["de"]), "new": ("other", 2, ["de"])}


def earlier(root, tested):
    found = Looks(files_of(str(root))).take(tested)
    return {name: [look.runs for look in looks] for name, looks in found.items()}


def test_the_same_runs_are_one_look_and_others_a_further_one(tmp_path):
    assert earlier(tmp_path, FEW) == earlier(tmp_path, FEW) == {"pair": []}
    assert earlier(tmp_path, MORE) == earlier(tmp_path, MORE) == {"pair": [4], "new": []}
    assert earlier(tmp_path, FEW) == {"pair": []}, "it was the first, and stays it"
    assert earlier(tmp_path, {"pair": ("third", 5, ["de"])}) == {"pair": [4, 9]}
    assert len([*(tmp_path / FOLDER).iterdir()]) == 3


def test_a_look_knows_its_languages(tmp_path):
    earlier(tmp_path, FEW)
    (look,) = Looks(files_of(str(tmp_path))).take(MORE)["pair"]
    assert look.languages == {"de", "fr"}


def test_a_record_of_an_earlier_version_counts_for_all_languages(tmp_path):
    record = seal({"when": "2026-11-01T00:00:00+00:00", "tested": {"pair": ["few", 4]}})
    files_of(str(tmp_path)).create(f"{FOLDER}/old.json", record)
    (look,) = Looks(files_of(str(tmp_path))).take(MORE)["pair"]
    assert (look.runs, look.languages) == (4, None)


def test_processes_that_look_at_once_leave_one_record(tmp_path):
    code = "import sys; from tests.store.test_look_records import *; earlier(sys.argv[1], FEW)"
    both = [subprocess.Popen([sys.executable, "-c", code, tmp_path]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert earlier(tmp_path, MORE)["pair"] == [4]
    assert len([*(tmp_path / FOLDER).iterdir()]) == 2


def test_a_read_only_storage_is_read_and_told_of(small_disk):
    earlier(small_disk, FEW)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.warns(UserWarning, match=r"this look at comparisons is not recorded.*read-only"):
        assert earlier(small_disk, MORE)["pair"] == [4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert earlier(small_disk, FEW) == {"pair": []}, "there is nothing to write"


def test_a_damaged_record_is_named_and_does_not_count(tmp_path):
    earlier(tmp_path, FEW)
    (record,) = (tmp_path / FOLDER).iterdir()
    record.write_bytes(record.read_bytes().replace(b"pair", b"pear"))
    with pytest.warns(UserWarning, match=f"{record.name}: this look does not count"):
        assert earlier(tmp_path, MORE)["pair"] == []
