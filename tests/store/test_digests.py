"""Digests of data files are remembered, and a wrong one is never given."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from raxalign.errors import DataError
from raxalign.store import storage as module
from raxalign.store.sealed import seal
from raxalign.store.storage import Storage

LONG_AGO = (1_000_000_000, 1_000_000_000)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A file that counts as old, though nobody can set back when its inode was changed."""
    monkeypatch.setattr(module, "_SETTLED_NS", -(10**9))
    file = tmp_path / "corpus.txt"
    file.write_text("Haus")
    os.utime(file, LONG_AGO)
    return file


def test_a_digest_is_remembered_until_the_file_is_changed(root, corpus):
    assert Storage(root).digests.of(corpus) == sha256("Haus")
    files = Storage(root).files
    kept = json.loads(files.read("digests.json"))["files"]
    files.write("digests.json", seal({"files": {str(corpus): [*kept[str(corpus)][:4], "0" * 64]}}))
    assert Storage(root).digests.of(corpus) == "0" * 64, "bytes were not read again"
    corpus.write_text("Mausoleum")
    assert Storage(root).digests.of(corpus) == sha256("Mausoleum")


@pytest.mark.parametrize("by", [Path.write_text, lambda path, text: other(path, text)])
def test_a_file_of_the_same_size_and_time_is_another_file(root, corpus, by):
    """As `rsync -a`, `cp -p` and archives that are packed anew with a fixed time leave it."""
    assert Storage(root).digests.of(corpus) == sha256("Haus")
    by(corpus, "Maus")
    os.utime(corpus, LONG_AGO)
    assert Storage(root).digests.of(corpus) == sha256("Maus")


def other(path, text):
    """Put another file, with the time that it has, in the place of one."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.utime(new, LONG_AGO)
    new.replace(path)


CHANGES = {
    "another": lambda path: path.write_text("Maus"),
    "gone": Path.unlink,
    "there and back": lambda path: [other(path, text) for text in ("Maus", "Haus")],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_read_is_what_was_planned_before_and_after(tmp_path, corpus, change):
    digests = Storage(str(tmp_path / "root")).digests
    planned = {corpus: digests.of(corpus)}

    def read():
        with digests.unchanged(planned):
            CHANGES[change](corpus)
            corpus.read_text()  # where it is gone, this is not the error that is reported

    with pytest.raises(DataError, match=r"corpus\.txt: (was|cannot be read)"):
        read()


def test_a_file_that_was_just_written_is_read_again(tmp_path):
    file = tmp_path / "new.txt"
    file.write_text("Haus")
    stamp = file.stat().st_mtime_ns
    digests = Storage(str(tmp_path / "root")).digests
    assert digests.of(file) == sha256("Haus")
    file.write_text("Maus")
    os.utime(file, ns=(stamp, stamp))
    assert digests.of(file) == sha256("Maus")


FORGED = [4, LONG_AGO[0] * 10**9, 1, 1, sha256("Maus")]  # what is remembered of the corpus
OLD = [*FORGED[:2], FORGED[4]]  # by versions that did not look at the inode


@pytest.mark.parametrize(
    "memory",
    [
        *(b"", b"{", b"[]", b"7", b'{"PATH": [4, 1000000000000000000]}', b"\xff"),
        *(seal({"files": {"PATH": entry}}) for entry in (OLD, [*FORGED[:4], "rubbish"])),
        seal({"files": {"PATH": FORGED}}).replace(b"Maus", b"Haus"),
    ],
)
def test_a_memory_that_is_damaged_or_of_another_form_starts_afresh(tmp_path, corpus, memory):
    (tmp_path / "digests.json").write_bytes(memory.replace(b"PATH", str(corpus).encode()))
    assert Storage(str(tmp_path)).digests.of(corpus) == sha256("Haus")
    kept = json.loads((tmp_path / "digests.json").read_text())["files"]
    assert kept[str(corpus)][4] == sha256("Haus")


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


def test_what_is_no_regular_file_is_refused_and_not_waited_for(root, tmp_path):
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (pipe, loop):
        with pytest.raises(OSError, match=r"not a regular file|symbolic links"):
            Storage(root).digests.of(path)
