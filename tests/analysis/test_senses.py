"""Words with several senses, counted by hand."""

from __future__ import annotations

import pyarrow as pa

from raxalign.analysis.retrieval_bins import Sense, ambiguous, senses

ROWS = [  # pivot word, gold, found, exactly that occurrence
    ("close", "nah", "nah", True),
    ("Close", "nah", "nah", False),
    ("close", "nah", "schließen", False),
    ("close", "schließen", "Schließen", True),
    ("close", "schließen", "schließen", True),
    ("like", "wie", "wie", True),
    ("dog", "Hund", "Hund", True),
    ("dog", "Hunde", "Hund", False),
    ("who", ",", ",", True),
    ("who", "der", "der", True),
]


def table() -> pa.Table:
    columns = {
        name: [row[i] for row in ROWS] for i, name in enumerate(("tgt", "src", "found", "correct"))
    }
    asked = pa.table({**columns, "direction": ["from_pivot"] * len(ROWS)})
    return pa.concat_tables([asked, pa.table({**columns, "direction": ["to_pivot"] * len(ROWS)})])


def test_a_word_with_its_senses_against_its_most_frequent_translation() -> None:
    close, like = senses(table(), ["Close", "like", "order"])
    assert close.senses == (Sense("nah", 3, 2, 1), Sense("schließen", 2, 2, 2))
    assert (close.occurrences, close.in_context, close.majority) == (5, 4 / 5, 3 / 5)
    assert (like.in_context, like.majority) == (1, 1)


def test_ambiguous_words_have_two_translations_often_enough() -> None:
    assert [word.word for word in ambiguous(table(), least=2)] == ["close"]
    assert [word.word for word in ambiguous(table(), least=1)] == ["close", "dog"]
    assert [word.word for word in ambiguous(table(), least=1, most=1)] == ["close"]
    assert ambiguous(table(), least=3) == []
