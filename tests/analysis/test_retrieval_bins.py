"""Retrieval by part of speech and by frequency: all by hand."""

import pyarrow as pa

from raxalign.report.sections.word_retrieval import (
    GROUPS,
    Bin,
    by_part_of_speech,
    by_rank_difference,
    majority_tags,
    ranks_of,
    tags_of_places,
    tags_of_types,
)


def predictions(*rows, **flags):
    """Rows of (direction, src, tgt, correct), the last both in context and out of it; flags are
    true where not given, `identical` false.
    """
    names, n = ("direction", "src", "tgt", "correct"), len(rows)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    columns |= {"id": range(n), "src_position": [0] * n, "tgt_position": [1] * n}
    columns["correct_first"] = columns["correct"]
    for name in ("first", "first_any", "identical", "unseen"):
        columns[name] = [name != "identical"] * n
    return pa.table(columns | flags)


def test_accuracy_by_part_of_speech_is_the_mean_of_directions_and_of_parts():
    """NOUN: to the pivot 1 of 2, from it 1 of 1, so 3/4; VERB 0 of 1; open classes (3/4 + 0) / 2.
    What is not first, or untagged, is out.
    """
    table = predictions(
        ("to_pivot", "hund", "dog", True),
        ("to_pivot", "haus", "house", False),
        ("from_pivot", "hund", "dog", True),
        ("to_pivot", "malt", "paints", False),
        ("to_pivot", "und", "and", True),
        ("to_pivot", "weil", "because", False),
        ("to_pivot", "hund", "dog", False),
        ("to_pivot", "?", "x", False),
        first=[True] * 6 + [False, True],
    )
    tags = ["NOUN", "NOUN", "NOUN", "VERB", "CCONJ", "SCONJ", "NOUN", None]
    found = {entry.name: entry for entry in by_part_of_speech(table, tags)}
    assert found["NOUN"] == Bin("NOUN", 0.75, 3)
    assert found["VERB"] == Bin("VERB", 0.0, 1)
    assert found["CONJ"] == Bin("CONJ", 0.5, 2)
    assert found["ADV"] == Bin("ADV", None, 0)
    assert found["open-class-average"] == Bin("open-class-average", 0.375, 4)
    assert found["closed-class-average"] == Bin("closed-class-average", 0.5, 2)
    assert found["lexical-overlap-average"] == Bin("lexical-overlap-average", None, 0)
    assert list(found) == [
        name for group, parts in GROUPS.items() for name in (*parts, f"{group}-average")
    ]


def test_parts_of_speech_are_counted_out_of_context_with_or_without_words_of_one_form():
    """`und` is found out of context alone, `12` in context alone; what was not asked for out of
    context has no answer there.
    """
    table = predictions(
        ("to_pivot", "und", "and", False),
        ("to_pivot", "und", "and", True),
        ("to_pivot", "12", "12", True),
        ("from_pivot", "und", "and", False),
        correct_first=[True, None, False, True],
        first=[True, False, False, True],
        first_any=[True, False, True, True],
    )
    tags = ["CCONJ", "CCONJ", "NUM", "CCONJ"]
    for identical, numbers in ((True, Bin("NUM", 0.0, 1)), (False, Bin("NUM", None, 0))):
        found = {entry.name: entry for entry in by_part_of_speech(table, tags, identical=identical)}
        assert found["CONJ"] == Bin("CONJ", 1.0, 2)
        assert found["NUM"] == numbers


def test_rank_differences_fall_into_half_open_bins():
    ranks = {"a": 1, "b": 10, "c": 11, "d": 200}
    table = predictions(
        ("to_pivot", "a", "b", True),  # 9
        ("to_pivot", "a", "c", False),  # 10
        ("from_pivot", "c", "a", True),  # 10
        ("to_pivot", "d", "a", True),  # 199
        ("to_pivot", "a", "unknown", True),
        ("to_pivot", "b", "b", True),  # identical
        ("to_pivot", "a", "b", False),  # seen
        identical=[False] * 5 + [True, False],
        unseen=[True] * 6 + [False],
    )
    assert [found for found in by_rank_difference(table, ranks, ranks) if found.queries] == [
        Bin("0–9", 1.0, 1),
        Bin("10–29", 0.5, 2),
        Bin("100–299", 1.0, 1),
        Bin("no rank", 1.0, 1),
    ]


def test_equally_frequent_words_share_a_rank():
    ranks = ranks_of({"x": 1, "y": 3, "z": 2, "w": 1})
    assert ranks == {"y": 1, "z": 2, "x": 3, "w": 3}


def test_tags_of_words_and_of_places():
    tagged = [(["close", "Hund"], ["VERB", "NOUN"]), *[(["close"], ["ADJ"])] * 2]
    lexicon = majority_tags(tagged)
    assert lexicon == {"close": "ADJ", "Hund": "NOUN"}
    table = predictions(("to_pivot", "Hund", "Close", True), ("to_pivot", "hund", "open", True))
    assert tags_of_types(table, "tgt", lexicon) == ["ADJ", None]
    assert tags_of_types(table, "src", lexicon) == ["NOUN", None]
    assert tags_of_places(table, "tgt", {0: ["X", "ADV"], 1: ["X"]}) == ["ADV", None]
    assert tags_of_places(table, "src", {1: ["X"]}) == [None, "X"]
