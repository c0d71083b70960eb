from __future__ import annotations

import pytest

from raxalign.corpora._dictionary import read_dictionary
from raxalign.errors import DataError


def test_words_are_divided_by_spaces_or_tabs(tmp_path):
    path = tmp_path / "de-en.txt"
    path.write_text("Haus house\nja\tyes\n\n  Haus   home \n", encoding="utf-8")
    assert read_dictionary(path) == [("Haus", "house"), ("ja", "yes"), ("Haus", "home")]


@pytest.mark.parametrize("line", ["Haus", "ein Haus house"])
def test_a_line_without_two_words_is_named(tmp_path, line):
    path = tmp_path / "de-en.txt"
    path.write_text(f"ja yes\n\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"de-en\.txt:3: \d words?"):
        read_dictionary(path)


def test_an_empty_or_missing_dictionary_is_refused(tmp_path):
    path = tmp_path / "de-en.txt"
    with pytest.raises(DataError, match="cannot be read"):
        read_dictionary(path)
    path.write_text("\n\n")
    with pytest.raises(DataError, match="no entries"):
        read_dictionary(path)


def test_real_dictionaries_are_read(real_data):
    assert len(read_dictionary(real_data / "dictionaries" / "zh-en.train.txt")) > 100
