"""Retrieval on planted vectors, all counts worked by hand."""

import math

import pyarrow as pa
import pytest
import torch

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import WordVectors
from raxalign.errors import DataError
from raxalign.pairing.build import build_seen, types_schema, write_types
from raxalign.tasks.retrieval import SeenTypes, with_sentence
from raxalign.tasks.transfer.rows import unit
from tests.tasks.outcomes import evaluated, made, values, write_heldout


class Planted(Encoder):
    """An encoder whose words have the vectors that a table gives them; words that it has no vector
    for are absent.
    """

    family = "static"
    hidden_size, n_layers, device = 4, 1, "cpu"

    def __init__(self, table):
        self.table = table
        self.hidden_size = len(next(iter(table.values())))

    def save(self, folder):
        raise NotImplementedError

    def iter_words(self, sentences, lang, *, layers, pooling):
        for i, sentence in enumerate(sentences):
            found = [self.table.get((lang, tuple(sentence), j)) for j in range(len(sentence))]
            vectors = torch.tensor([v or (0.0,) * self.hidden_size for v in found])
            vectors = vectors.reshape(-1, 1, self.hidden_size).repeat(1, len(layers), 1)
            present = torch.tensor([v is not None for v in found], dtype=torch.bool)
            yield [i], WordVectors(vectors, [0, len(sentence)], present)


def axis(i, weight=1.0, other=None):
    vector = [0.0] * 4
    vector[i] = weight
    if other is not None:
        vector[other] = 1.0
    return tuple(vector)


# id, source, target, links
ROWS = [
    (7, ["der", "Hund", "Rex"], ["the", "dog", "Rex"], [(0, 0), (1, 1), (2, 2)]),
    (9, ["Hund", "!"], ["hound", "!"], [(0, 0)]),
]
TABLE = {
    ("de", ("der", "Hund", "Rex"), 0): axis(0),
    ("de", ("der", "Hund", "Rex"), 1): axis(1),
    ("de", ("der", "Hund", "Rex"), 2): axis(2),
    ("de", ("Hund", "!"), 0): axis(1, 3.0, 0),
    ("de", ("Hund", "!"), 1): axis(3),
    ("en", ("the", "dog", "Rex"), 0): axis(0),
    # nearest to the exclamation mark, which nothing links
    ("en", ("the", "dog", "Rex"), 1): axis(3),
    ("en", ("the", "dog", "Rex"), 2): axis(2),
    ("en", ("hound", "!"), 0): axis(1, 2.0, 0),
    ("en", ("hound", "!"), 1): axis(3, 1.0, 2),
}
FRENCH = TABLE | {("fr", *key[1:]): value for key, value in TABLE.items() if key[0] == "de"}


def artifact(folder, rows):
    ids, src, tgt, links = ([row[i] for row in rows] for i in range(4))
    src_links, tgt_links = ([[link[i] for link in row] for row in links] for i in (0, 1))
    columns = {"src": src, "tgt": tgt, "src_links": src_links, "tgt_links": tgt_links}
    return write_heldout(folder, id=ids, **columns)


def seen(folder, pairs):
    types = [{"src": src, "tgt": tgt} for src, tgt in pairs]
    for name, rows in (("types", types), ("dictionary", [])):
        write_types(pa.Table.from_pylist(rows, types_schema()), folder / f"{name}.arrow")
    return folder


SEEN = (("der", "the"),)


def run(tmp_path, *, rows=ROWS, known=SEEN, aligned=None, languages=("de",), **params):
    """The outcome with planted vectors, or those of `aligned`."""
    heldout = {lang: artifact(tmp_path / f"pairs-{lang}", rows) for lang in languages}
    types = {lang: seen(tmp_path / f"seen-{lang}", known) for lang in languages}
    task = made("retrieval", **{"measure": "cosine", **params})
    return evaluated(task, aligned or planted(), languages, heldout=heldout, seen=types)


def planted(table=TABLE, *transforms):
    return AlignedEncoder(Planted(table), transforms)


def counts(outcome):
    return outcome.notes["de-en"]["test"]


HUND = [("Hund", "dog")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                # to the pivot Hund (row 1) is nearest to hound, not to dog; from it dog to !
                # unseen, not identical: Hund-dog, Hund-hound; with seen ones der-the too
                "contextual": {"": 0.5, "_to_pivot": 0.5, "_from_pivot": 0.5, "_all": 2 / 3},
                "contextual pairs": {"_pairs": 2, "_all_pairs": 3},
                # two sentences with one pair each, one wrong, one right, in both directions:
                # u = (-.5/2, .5/2), variance 2 (.0625 + .0625)
                "contextual error": {"_stderr": math.sqrt(2 * 2 * 0.0625)},
                # of first occurrences (Hund of the second sentence is taken out, and with it its
                # pair): Hund-dog, wrong both ways; with seen ones der-the too
                "noncontextual": {"": 0, "_to_pivot": 0, "_from_pivot": 0, "_all": 0.5},
                "noncontextual pairs": {"_pairs": 1, "_all_pairs": 2},
            },
        ),
        # filters do not decide which occurrence is the first: der-the
        ({"known": HUND}, {"noncontextual": {"": 1, "_pairs": 1}}),
        # the first sentence alone: no standard error
        ({"rows": ROWS[:1]}, {"contextual": {"": 0, "_stderr": None}}),
    ],
)
def test_all_values_by_hand(tmp_path, options, expected):
    found = values(run(tmp_path, **options))
    for name, wanted in expected.items():
        stem = f"{name.split()[0]}_accuracy"
        assert {end: found.get(f"{stem}{end}") for end in wanted} == pytest.approx(wanted)


def test_a_pair_is_out_of_context_where_both_its_words_are_first(tmp_path):
    """dog was there before Tier is linked with it; Hund was there, unlinked, before the sentence
    that links it.
    """
    rows = [
        (1, ["Tier", "Köter"], ["a", "dog"], [(1, 1)]),
        (2, ["Biest", "Hund"], ["dog", "x"], [(0, 0)]),
        (3, ["Hund", "Maus"], ["hound", "mouse"], [(0, 0), (1, 1)]),
    ]
    vectors = {"Köter": 0, "dog": 0, "Biest": 0, "Hund": 1, "hound": 1, "Maus": 2, "mouse": 2}
    table = {
        (lang, tuple(words), j): axis(vectors.get(word, 3))
        for _, src, tgt, _ in rows
        for lang, words in (("de", src), ("en", tgt))
        for j, word in enumerate(words)
    }
    outcome = run(tmp_path, rows=rows, aligned=planted(table), known=())
    assert values(outcome)["noncontextual_accuracy_pairs"] == 2
    flagged = [(row["src"], row["first_unseen"]) for row in outcome.predictions.to_pylist()]
    assert flagged == 2 * [("Köter", True), ("Biest", False), ("Hund", False), ("Maus", True)]
    names = ("first_src", "first_tgt", "candidates_src", "candidates_tgt")
    assert counts(outcome)["pairs_first"] == 2
    assert [counts(outcome)[name] for name in names] == [5, 5, 6, 6]
    # where the first sentence's Hund was not read, the next one is the first; a link must still be
    # to a first word
    unread = {key: value for key, value in table.items() if key != ("de", ("Biest", "Hund"), 1)}
    found = values(run(tmp_path, rows=rows, aligned=planted(unread), known=()))
    assert found["noncontextual_accuracy_pairs"] == 3


def test_no_pairs_is_no_metric_and_a_note(tmp_path):
    outcome = run(tmp_path, known=[("der", "the"), ("Hund", "dog"), ("Hund", "hound")])
    found = values(outcome)
    assert "contextual_accuracy" not in found
    assert "noncontextual_accuracy" not in found
    assert found["contextual_accuracy_all_pairs"] == 3
    absent = [note.split(":")[0] for note in counts(outcome)["absent"]]
    assert absent == ["contextual_accuracy", "noncontextual_accuracy"]


@pytest.mark.parametrize("measure", ["csls", "cosine", "dot", "released_cao"])
@pytest.mark.parametrize("rows", [[(0, ["der"], ["the"], [])], []])
def test_no_links_at_all(tmp_path, rows, measure):
    outcome = run(tmp_path, rows=rows, measure=measure)
    assert values(outcome) == {}
    assert outcome.predictions.num_rows == 0
    assert not rows or len(counts(outcome)["absent"]) == 4


def test_words_that_were_not_read_are_neither_asked_nor_found(tmp_path):
    table = {key: value for key, value in TABLE.items() if key != ("en", ("hound", "!"), 0)}
    outcome = run(tmp_path, aligned=planted(table))
    names = ("pairs", "pairs_truncated", "candidates_tgt")
    assert [counts(outcome)[name] for name in names] == [4, 1, 4]
    assert values(outcome)["contextual_accuracy_pairs"] == 1
    assert "hound" not in outcome.predictions["found"].to_pylist()


def test_averages_are_over_languages(tmp_path):
    outcome = run(tmp_path, languages=("de", "fr"), aligned=planted(FRENCH))
    found = values(outcome, lang="avg")
    assert found["contextual_accuracy"] == 0.5
    assert all(metric.endswith(("accuracy", "accuracy_all")) for metric in found)
    assert not values(run(tmp_path), lang="avg")


def test_predictions_name_the_word_found_out_of_context_where_it_was_asked_for(tmp_path):
    """The pairs of der, Hund and Rex are first ones; both words of the last are of one surface
    form.
    """
    found = run(tmp_path / "a").predictions[:4].to_pydict()
    assert found["found_first"] == ["the", "hound", "Rex", None]
    assert found["correct_first"] == [True, False, True, None]
    assert found["found_first_id"] == [7, 9, 7, None]
    assert found["first_any"] == [True, True, True, False]
    assert found["first"] == [True, True, False, False]
    assert found["first_unseen"] == [False, True, False, False]


def test_one_sentence_of_the_pivot_is_one_unit_in_all_languages(tmp_path):
    rows = run(tmp_path, languages=("de", "fr"), aligned=planted(FRENCH)).predictions.to_pylist()
    units = {(7, unit(["the", "dog", "Rex"])), (9, unit(["hound", "!"]))}
    assert {(row["id"], row["unit"]) for row in rows} == units
    assert all(0 <= row["unit"] < 2**63 for row in rows)
    assert unit(["a b"]) != unit(["a", "b"]) != unit(["b", "a"])


def test_a_link_beyond_its_sentence_names_the_row(tmp_path):
    with pytest.raises(DataError, match=r":2: link to word 5 of a sentence of 2 words"):
        run(tmp_path, rows=[ROWS[0], (9, ["a", "b"], ["c"], [(5, 0)])])


def test_a_sentence_adds_its_mean_largest_and_smallest_values_of_words_that_were_read():
    """Sentence 0: (1, 4), (3, -2) and an absent word; sentence 1: nothing was read; sentence 2: (5,
    6).
    """
    vectors = torch.tensor([[1.0, 4.0], [3.0, -2.0], [0.0, 0.0], [0.0, 0.0], [5.0, 6.0]])
    present = torch.tensor([True, True, False, False, True])
    found = with_sentence(vectors, torch.tensor([0, 0, 0, 1, 2]), present)
    assert found.tolist() == [
        [1, 4, 2, 1, 3, 4, 1, -2],
        [3, -2, 2, 1, 3, 4, 1, -2],
        [0] * 8,
        [0] * 8,
        [5, 6, 5, 6, 5, 6, 5, 6],
    ]
    none = with_sentence(vectors[:0], torch.zeros(0, dtype=torch.int64), present[:0])
    assert none.shape == (0, 8)


def test_sentences_tell_equal_words_apart(tmp_path):
    """`Hund` has one vector in both sentences; the word next to it finds the right `dog`."""
    first, second = (["Hund", "Rex"], ["dog", "Rex"]), (["Hund", "!"], ["dog", "!"])
    rows = [(1, *first, [(0, 0)]), (2, *second, [(0, 0)])]
    table = {}
    for src, tgt in (first, second):
        for lang, words in (("de", src), ("en", tgt)):
            beside = axis(1) if "Rex" in words else axis(2)
            table |= {(lang, tuple(words), 0): axis(0), (lang, tuple(words), 1): beside}
    alone = values(run(tmp_path, rows=rows, aligned=planted(table)))
    assert alone["contextual_accuracy"] == 0.5  # a tie: the first
    both = values(run(tmp_path, rows=rows, aligned=planted(table), augmentation="sentence"))
    assert both["contextual_accuracy"] == 1.0


def test_linked_types_count_as_written_and_dictionary_entries_in_any_case(tmp_path):
    linked = seen(tmp_path / "linked", [("Hund", "dog")]) / "types.arrow"
    build_seen([linked], [], [[("haus", "house"), ("köter", "dog")]], tmp_path / "seen")
    asked = [("Hund", "dog"), ("hund", "dog"), ("Haus", "House"), ("haus", "home")]
    asked += [("Ko\u0308ter", "dog")]
    found = SeenTypes(tmp_path / "seen", ("de", "en"))
    assert [pair in found for pair in asked] == [True, False, True, False, True]
