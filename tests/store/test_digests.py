"""Digests of data files are remembered, and a wrong one is never given."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from raxalign.store.sealed import seal
from raxalign.store.storage import Storage

LONG_AGO = (1_000_000_000, 1_000_000_000)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def corpus(tmp_path):
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


FORGED = [4, LONG_AGO[0] * 10**9, sha256("Maus")]  # what is remembered of the corpus


@pytest.mark.parametrize(
    "memory",
    [
        *(b"", b"{", b"[]", b"7", b'{"PATH": [4, 1000000000000000000]}', b"\xff"),
        *(seal({"files": {"PATH": entry}}) for entry in (FORGED[:2], [*FORGED[:2], "rubbish"])),
        seal({"files": {"PATH": FORGED}}).replace(b"Maus", b"Haus"),
    ],
)
def test_a_memory_that_is_damaged_or_of_another_form_starts_afresh(tmp_path, corpus, memory):
    (tmp_path / "digests.json").write_bytes(memory.replace(b"PATH", str(corpus).encode()))
    assert Storage(str(tmp_path)).digests.of(corpus) == sha256("Haus")
    kept = json.loads((tmp_path / "digests.json").read_text())["files"]
    assert kept[str(corpus)][2] == sha256("Haus")


def test_relative_paths_and_links_are_the_file_they_lead_to(tmp_path, corpus, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link.txt").symlink_to(corpus)
    digests = Storage("root").digests
    assert digests.of(Path("corpus.txt")) == digests.of(Path("link.txt")) == sha256("Haus")
    assert list(json.loads(Path("root/digests.json").read_text())["files"]) == [str(corpus)]


def test_a_missing_file_or_a_folder_is_an_operating_system_error(tmp_path):
    digests = Storage(str(tmp_path / "root")).digests
    os.utime(tmp_path, LONG_AGO)
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        digests.of(tmp_path / "nothing.txt")
    with pytest.raises(IsADirectoryError):
        digests.of(tmp_path)
