from collections import Counter

import pytest

from raxalign.corpora.readers.dictionary import dictionary_coverage, found_entries, read_dictionary
from raxalign.errors import DataError


def test_words_are_divided_by_spaces_or_tabs(tmp_path):
    """White space of other kinds is part of a word."""
    path = tmp_path / "de-en.txt"
    path.write_text("Haus house\nja\tyes\n\n  Haus   home \n10\u00a0000\tmyriad\n", "utf-8")
    found = [("Haus", "house"), ("ja", "yes"), ("Haus", "home"), ("10\u00a0000", "myriad")]
    assert read_dictionary(path) == found
    assert read_dictionary(path, swap=True) == [entry[::-1] for entry in found]


def test_a_line_without_two_words_and_a_file_without_entries_are_named(tmp_path):
    path = tmp_path / "de-en.txt"
    with pytest.raises(DataError, match="there is no such file"):
        read_dictionary(path)
    for text, told in (
        ("ja yes\n\nHaus\n", r"de-en\.txt:3: 1 word; an entry is two"),
        ("ja yes\nein Haus house\n", r"de-en\.txt:2: 3 words"),
        ("oui\u3000yes\n", r"de-en\.txt:1: 1 word; an entry is two"),
        ("\n\n", "no entries"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=told):
            read_dictionary(path)


def found(entries, *, swap=False):
    known = [{"radio", *(f"{first}{i}" for i in range(40))} for first in "de"]
    return found_entries("d.txt", entries, tuple(known), langs=("de", "en"), swap=swap)


def test_different_entries_are_counted_in_any_case():
    assert found([("D1", "e1"), ("d1", "E1"), ("d2", "x"), ("d3", "e4"), ("radio", "radio")]) == 3


@pytest.mark.parametrize(
    ("right", "turned", "refused"),
    [(0, 5, True), (0, 4, False), (2, 10, True), (2, 9, False), (20, 20, False), (0, 0, False)],
)
def test_sides_are_the_other_way_round_where_five_times_as_many_entries_say_so(
    right, turned, refused
):
    entries = [
        *((f"d{i}", f"e{i}") for i in range(right)),
        *((f"e{i}", f"d{i}") for i in range(turned)),
        ("x", "y"),
    ]
    if not refused:
        assert found(entries) == right
        return
    message = (
        rf"d\.txt: {right} of {right + turned + 1} entries have both words in the texts as a word"
        rf" of de and one of en; the other way round {turned}"
    )
    swapped = rf"{message} have\. The pivot's word comes first: set `swap: true`"
    with pytest.raises(DataError, match=swapped):
        found(entries)
    with pytest.raises(DataError, match=r"as a word of en and one of de;.*leave out `swap`"):
        found(entries, swap=True)


def test_coverage_counts_entries_and_the_running_words_of_those_in_the_text():
    entries = [("Haus", "house"), ("haus", "house"), ("haus", "home"), ("ja", "yes")]
    counts = (Counter(haus=3, ja=2, der=5), Counter(house=2, the=6))
    # haus-house alone is there: 3 of 10 German words, 2 of 8 English ones.
    assert dictionary_coverage(entries, counts) == (1, (0.3, 0.25))
    assert dictionary_coverage(entries, (Counter(), Counter())) == (0, (0.0, 0.0))
