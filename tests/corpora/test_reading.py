"""Reading a file to its end, with all its faults."""

from __future__ import annotations

import pytest

from raxalign.config.sources import LocalFile, RemoteData
from raxalign.corpora.readers import lines
from raxalign.corpora.readers.inspection import (
    KEPT,
    Refusals,
    Translations,
    read_dictionaries,
    read_through,
    refuse,
)
from raxalign.errors import DataError


def test_reported_and_raised_faults_are_collected_in_order(tmp_path):
    def read(report):
        report(DataError("f", "one", line=1))
        raise DataError("f", "two", line=2)

    found = read_through(tmp_path, read)
    assert [fault.line for fault in found.faults] == [1, 2]
    assert (found.rows, found.more) == (0, 0)


def test_no_more_faults_of_a_file_are_kept_than_can_be_shown(tmp_path):
    def read(report):
        for line in range(KEPT + 7):
            report(DataError("f", "x", line=line))
        return 5

    found = read_through(tmp_path, read)
    assert (len(found.faults), found.more, found.rows) == (KEPT, 7, 5)


def test_a_file_that_cannot_be_opened_is_a_fault_that_names_it(tmp_path):
    found = read_through(tmp_path, lambda _: len(tmp_path.read_bytes()))
    assert str(found.faults[0]) == f"{tmp_path}: cannot be read (Is a directory)"


def test_a_reader_stops_at_the_first_fault_unless_it_is_asked_to_go_on():
    refused = Refusals(refuse)
    with pytest.raises(DataError):
        refused(DataError("f", "x"))
    assert refused.count == 0
    kept = []
    refused = Refusals(kept.append)
    refused(DataError("f", "x"))
    assert refused.count == len(kept) == 1


def test_dictionaries_are_read_and_remote_ones_are_not(tmp_path):
    (tmp_path / "good").write_text("Haus house\nja yes\n", encoding="utf-8")
    (tmp_path / "bad").write_text("Haus the house\n", encoding="utf-8")
    sources = {
        "de": {"dictionary": LocalFile(tmp_path / "good")},
        "fr": {"dictionary": LocalFile(tmp_path / "bad")},
        "es": {"dictionary": RemoteData("hub:x")},
        "el": {"teacher": LocalFile(tmp_path / "good")},
        "bg": {},
    }
    good, bad = read_dictionaries(sources, "en", swap=False)
    assert (good.rows, good.faults) == (2, ())
    assert good.translations == Translations("de", "en", [("Haus", "house"), ("ja", "yes")])
    assert "bad:1: 3 words" in str(bad.faults[0])


def test_a_line_without_an_end_is_refused_with_file_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_LONGEST", 3 << 20)
    (tmp_path / "a").write_bytes(b"one\ntwo\n" + b"x" * (5 << 20))
    with (tmp_path / "a").open("rb") as stream, pytest.raises(DataError, match="a:3: the line is"):
        list(lines.read_lines(stream, tmp_path / "a"))
