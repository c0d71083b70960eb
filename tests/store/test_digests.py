"""Digests of data files are remembered, and a wrong one is never given."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from raxalign.store.sealed import seal
from raxalign.store.storage import Storage

LONG_AGO = (1_000_000_000, 1_000_000_000)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text("Haus")
    os.utime(file, LONG_AGO)
    return file


def test_a_digest_is_remembered_by_path_size_and_time_of_change(root, corpus):
    assert Storage(root).digests.of(corpus) == sha256("Haus")
    corpus.write_text("Maus")
    os.utime(corpus, LONG_AGO)
    assert Storage(root).digests.of(corpus) == sha256("Haus"), "bytes were not read again"
    os.utime(corpus, (1_000_000_001, 1_000_000_001))
    assert Storage(root).digests.of(corpus) == sha256("Maus")
    corpus.write_text("Mausoleum")
    os.utime(corpus, (1_000_000_001, 1_000_000_001))
    assert Storage(root).digests.of(corpus) == sha256("Mausoleum")


def test_a_file_that_was_just_written_is_read_again(tmp_path):
    file = tmp_path / "new.txt"
    file.write_text("Haus")
    stamp = file.stat().st_mtime_ns
    digests = Storage(str(tmp_path / "root")).digests
    assert digests.of(file) == sha256("Haus")
    file.write_text("Maus")
    os.utime(file, ns=(stamp, stamp))
    assert digests.of(file) == sha256("Maus")


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "7", '{"PATH": [4, 1000000000000000000]}', "\udcff"]
)
def test_a_damaged_memory_starts_afresh(tmp_path, corpus, damage):
    root = tmp_path / "root"
    root.mkdir()
    (root / "digests.json").write_text(
        damage.replace("PATH", str(corpus)), errors="surrogateescape"
    )
    assert Storage(str(root)).digests.of(corpus) == sha256("Haus")
    assert json.loads((root / "digests.json").read_text())["files"][str(corpus)][2] == sha256(
        "Haus"
    )


@pytest.mark.parametrize("entry", [[4, LONG_AGO[0] * 10**9], [4, LONG_AGO[0] * 10**9, "rubbish"]])
def test_an_entry_of_another_form_is_not_believed(tmp_path, corpus, entry):
    (tmp_path / "digests.json").write_bytes(seal({"files": {str(corpus): entry}}))
    assert Storage(str(tmp_path)).digests.of(corpus) == sha256("Haus")


def test_a_memory_that_was_changed_is_not_believed(tmp_path, corpus):
    Storage(str(tmp_path)).digests.of(corpus)
    memory = tmp_path / "digests.json"
    memory.write_text(memory.read_text().replace(sha256("Haus"), sha256("Maus")))
    assert Storage(str(tmp_path)).digests.of(corpus) == sha256("Haus")


def test_relative_paths_and_links_are_the_file_they_lead_to(tmp_path, corpus, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link.txt").symlink_to(corpus)
    digests = Storage("root").digests
    assert digests.of(Path("corpus.txt")) == digests.of(Path("link.txt")) == sha256("Haus")
    assert list(json.loads(Path("root/digests.json").read_text())["files"]) == [str(corpus)]


def test_several_processes_lose_nothing_that_matters(tmp_path):
    files = [tmp_path / f"{number}.txt" for number in range(20)]
    for file in files:
        file.write_text(file.name)
        os.utime(file, LONG_AGO)
    program = (
        "import sys; from pathlib import Path; from raxalign.store.storage import Storage\nd ="
        " Storage(sys.argv[1]).digests\n"
    )
    program += "print(*[d.of(Path(p)) for p in sys.argv[2:]])"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "root", *files],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    wanted = [sha256(file.name) for file in files]
    assert [process.communicate()[0].split() for process in processes] == [wanted] * 3
    kept = json.loads((tmp_path / "root" / "digests.json").read_text())["files"]
    assert {entry[2] for entry in kept.values()} == set(wanted)


def test_a_missing_file_or_a_folder_is_an_operating_system_error(tmp_path):
    digests = Storage(str(tmp_path / "root")).digests
    os.utime(tmp_path, LONG_AGO)
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        digests.of(tmp_path / "nothing.txt")
    with pytest.raises(IsADirectoryError):
        digests.of(tmp_path)
