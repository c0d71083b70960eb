from collections import Counter

import pytest

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.errors import DataError


def test_words_are_divided_by_spaces_or_tabs(tmp_path):
    """White space of other kinds is part of a word."""
    path = tmp_path / "de-en.txt"
    path.write_text("Haus house\nja\tyes\n\n  Haus   home \n10\u00a0000\tmyriad\n", "utf-8")
    found = [("Haus", "house"), ("ja", "yes"), ("Haus", "home"), ("10\u00a0000", "myriad")]
    assert DictionaryFile.lines(path) == found
    assert DictionaryFile.lines(path, swap=True) == [entry[::-1] for entry in found]


def test_a_line_without_two_words_and_a_file_without_entries_are_named(tmp_path):
    path = tmp_path / "de-en.txt"
    with pytest.raises(DataError, match="there is no such file"):
        DictionaryFile.lines(path)
    for text, told in (
        ("ja yes\n\nHaus\n", r"de-en\.txt:3: 1 word; an entry is two"),
        ("ja yes\nein Haus house\n", r"de-en\.txt:2: 3 words"),
        ("oui\u3000yes\n", r"de-en\.txt:1: 1 word; an entry is two"),
        ("\n\n", "no entries"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=told):
            DictionaryFile.lines(path)


def dictionary(folder, entries, *, swap=False, langs=("de", "en")):
    path = folder / "d.txt"
    path.write_text("\n".join(map(" ".join, entries)), encoding="utf-8")
    return DictionaryFile.read(path, langs, swap=swap)


def found(folder, entries, *, swap=False):
    src, tgt = (Counter(["radio", *(f"{first}{i}" for i in range(40))]) for first in "de")
    entries = [entry[::-1] if swap else entry for entry in entries]
    return dictionary(folder, entries, swap=swap).coverage((src, tgt))["entries_in_text"]


def test_different_entries_are_counted_in_any_case(tmp_path):
    entries = [("D1", "e1"), ("d1", "E1"), ("d2", "x"), ("d3", "e4"), ("radio", "radio")]
    assert found(tmp_path, entries) == 3


@pytest.mark.parametrize(
    ("right", "turned", "refused"),
    [(0, 5, True), (0, 4, False), (2, 10, True), (2, 9, False), (20, 20, False), (0, 0, False)],
)
def test_sides_are_the_other_way_round_where_five_times_as_many_entries_say_so(
    right, turned, refused, tmp_path
):
    entries = [
        *((f"d{i}", f"e{i}") for i in range(right)),
        *((f"e{i}", f"d{i}") for i in range(turned)),
        ("x", "y"),
    ]
    if not refused:
        assert found(tmp_path, entries) == right
        return
    message = (
        rf"d\.txt: {right} of {right + turned + 1} entries have both words in the texts as a word"
        rf" of de and one of en; the other way round {turned}"
    )
    swapped = rf"{message} have\. The pivot's word comes first: set `swap: true`"
    with pytest.raises(DataError, match=swapped):
        found(tmp_path, entries)
    with pytest.raises(DataError, match=r"as a word of en and one of de;.*leave out `swap`"):
        found(tmp_path, entries, swap=True)


def test_coverage_counts_entries_and_the_running_words_of_those_in_the_text(tmp_path):
    entries = [("Haus", "house"), ("haus", "house"), ("haus", "home"), ("ja", "yes")]
    read = dictionary(tmp_path, entries)
    counts = (Counter(haus=3, ja=2, der=5), Counter(house=2, the=6))
    # haus-house alone is there: 3 of 10 German words, 2 of 8 English ones.
    shares = {"de": 0.3, "en": 0.25}
    notes = {"entries": 3, "entries_in_text": 1, "running_words": shares}
    assert read.coverage(counts) == notes
    notes |= {"entries_in_text": 0, "running_words": dict.fromkeys(shares, 0.0)}
    assert read.coverage((Counter(), Counter())) == notes


def test_entries_in_other_letters_are_the_same(tmp_path):
    entries = [("\ufeffe\u0301te\u0301", "sum\u00admer"), ("Été", "Summer")]
    read = dictionary(tmp_path, entries, langs=("fr", "en"))
    assert read.entries == [("été", "summer")]
    assert read.coverage((Counter(été=1), Counter(summer=1)))["entries_in_text"] == 1
