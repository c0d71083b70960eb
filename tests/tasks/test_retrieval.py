"""Retrieval on planted vectors, all counts worked by hand."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
import torch

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import WordVectors
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.retrieval import Retrieval, with_sentence
from raxalign.tasks.transfer.fingerprints import unit
from raxalign.tasks.vectors.pairs import SideWords
from raxalign.tasks.vectors.sentences import add_specials
from raxalign.train.runtime import Runtime
from tests.tiny import tiny_bert

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("src", pa.list_(pa.string())),
        ("tgt", pa.list_(pa.string())),
        ("src_links", pa.list_(pa.int32())),
        ("tgt_links", pa.list_(pa.int32())),
    ]
)


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
            vectors = (
                torch.tensor([v or (0.0,) * self.hidden_size for v in found])
                .reshape(-1, 1, self.hidden_size)
                .repeat(1, len(layers), 1)
            )
            yield (
                [i],
                WordVectors(
                    vectors,
                    [0, len(sentence)],
                    torch.tensor([v is not None for v in found], dtype=torch.bool),
                ),
            )


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
    ("en", ("the", "dog", "Rex"), 1): axis(
        3
    ),  # nearest to the exclamation mark, which nothing links
    ("en", ("the", "dog", "Rex"), 2): axis(2),
    ("en", ("hound", "!"), 0): axis(1, 2.0, 0),
    ("en", ("hound", "!"), 1): axis(3, 1.0, 2),
}


def artifact(folder, dev, test):
    for name, rows in (("dev", dev), ("data", test)):
        if rows is None:
            continue
        with DatasetWriter(folder / name, SCHEMA, {}) as writer:
            links = [row[3] for row in rows]
            writer.write(
                {
                    "id": [r[0] for r in rows],
                    "src": [r[1] for r in rows],
                    "tgt": [r[2] for r in rows],
                    "src_links": [[a for a, _ in ls] for ls in links],
                    "tgt_links": [[b for _, b in ls] for ls in links],
                }
            )
    return folder


def seen(folder, pairs):
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "src": pa.array([a for a, _ in pairs], pa.string()),
            "tgt": pa.array([b for _, b in pairs], pa.string()),
        }
    )
    with pa.ipc.new_file(str(folder / "types.arrow"), table.schema) as file:
        file.write_table(table)
    return folder


def run(
    tmp_path,
    *,
    rows=ROWS,
    dev=None,
    known=(("der", "the"),),
    table=TABLE,
    transforms=(),
    languages=("de",),
    **params,
):
    inputs = TaskInputs(
        pivot="en",
        heldout={lang: artifact(tmp_path / f"pairs-{lang}", dev, rows) for lang in languages},
        seen={lang: seen(tmp_path / f"seen-{lang}", known) for lang in languages},
    )
    params = {"measure": "cosine", **params}
    aligned = AlignedEncoder(Planted(table), transforms)
    return Retrieval(Retrieval.Params(**params)).evaluate(
        aligned, tuple(languages), inputs, Runtime(), None
    )


def values(outcome, split="test", lang="de-en"):
    return {s.metric: s.value for s in outcome.scores if s.split == split and s.lang == lang}


def test_all_values_by_hand(tmp_path):
    """Links: der-the right both ways (seen); Hund-dog wrong both ways; Rex-Rex right (identical);
    Hund-hound right both ways.

    To the pivot, `Hund` (row 1) is nearest to `hound`, not to `dog`; from it, `dog` is nearest to
    `!`.
    """
    found = values(run(tmp_path))
    # unseen, not identical: Hund-dog, Hund-hound
    assert found["contextual_accuracy_pairs"] == 2
    assert (
        found["contextual_accuracy_to_pivot"]
        == found["contextual_accuracy_from_pivot"]
        == found["contextual_accuracy"]
        == 0.5
    )
    # with seen ones: der-the too
    assert found["contextual_accuracy_all_pairs"] == 3
    assert found["contextual_accuracy_all"] == pytest.approx(2 / 3)
    # of first occurrences (Hund of the second sentence is taken out, and with it its pair):
    # Hund-dog, wrong both ways
    assert (
        found["noncontextual_accuracy_to_pivot"]
        == found["noncontextual_accuracy_from_pivot"]
        == found["noncontextual_accuracy"]
        == 0
    )
    assert found["noncontextual_accuracy_pairs"] == 1
    # with seen ones: der-the too
    assert found["noncontextual_accuracy_all"] == 0.5
    assert found["noncontextual_accuracy_all_pairs"] == 2


def test_all_values_where_repeated_types_are_taken_out_of_the_queries_alone(tmp_path):
    found = values(run(tmp_path, noncontextual="queries"))
    # first of each query's type: to the pivot `Hund` asks once (for dog: wrong); from it dog
    # (wrong) and hound (right)
    assert found["noncontextual_accuracy_to_pivot"] == 0
    assert found["noncontextual_accuracy_from_pivot"] == 0.5
    assert found["noncontextual_accuracy"] == 0.25
    assert found["noncontextual_accuracy_pairs"] == 2
    # with seen ones: der (right), Hund (wrong) / the (right), dog (wrong), hound (right)
    assert found["noncontextual_accuracy_all"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert found["noncontextual_accuracy_all_pairs"] == 3


def test_types_that_are_aligned_are_all_found_out_of_context_whatever_their_contexts_are(tmp_path):
    """80 types with one vector on both sides, each occurrence 5 % away from it: noise alone tells
    occurrences apart.
    """
    rng = np.random.default_rng(0)
    drawn, types = rng.integers(0, 80, (60, 6)), rng.normal(size=(80, 32))
    rows, table = [], {}
    for i, sentence in enumerate(drawn.tolist()):
        sides = {lang: [f"{lang}{word}" for word in sentence] for lang in ("de", "en")}
        rows.append((i, sides["de"], sides["en"], [(j, j) for j in range(6)]))
        for lang, words in sides.items():
            table |= {
                (lang, tuple(words), j): tuple((types[word] + 0.05 * rng.normal(size=32)).tolist())
                for j, word in enumerate(sentence)
            }
    outcome = run(tmp_path / "corpus", rows=rows, table=table, known=(), measure="csls")
    found, counts = values(outcome), outcome.notes["de-en"]["test"]
    assert found["noncontextual_accuracy"] == 1
    assert (
        found["noncontextual_accuracy_pairs"]
        == counts["pairs_first"]
        == counts["first_src"]
        == counts["first_tgt"]
        == len(np.unique(drawn))
    )
    assert found["contextual_accuracy"] < 0.5
    assert counts["candidates_src"] == 360
    other = values(
        run(
            tmp_path / "queries",
            rows=rows,
            table=table,
            known=(),
            measure="csls",
            noncontextual="queries",
        )
    )
    assert other["noncontextual_accuracy"] < 0.5
    assert other["noncontextual_accuracy_pairs"] == found["noncontextual_accuracy_pairs"]
    assert other["contextual_accuracy"] == found["contextual_accuracy"]


def test_a_pair_is_out_of_context_where_both_its_words_are_first(tmp_path):
    """dog was there before Tier is linked with it; Hund was there, unlinked, before the sentence
    that links it.
    """
    rows = [
        (1, ["Tier", "Köter"], ["a", "dog"], [(1, 1)]),
        (2, ["Biest", "Hund"], ["dog", "x"], [(0, 0)]),
        (3, ["Hund", "Maus"], ["hound", "mouse"], [(0, 0), (1, 1)]),
    ]
    vectors = {
        ("de", "Köter"): 0,
        ("en", "dog"): 0,
        ("de", "Biest"): 0,
        ("de", "Hund"): 1,
        ("en", "hound"): 1,
        ("de", "Maus"): 2,
        ("en", "mouse"): 2,
    }
    table = {
        (lang, tuple(words), j): axis(vectors.get((lang, word), 3))
        for _, src, tgt, _ in rows
        for lang, words in (("de", src), ("en", tgt))
        for j, word in enumerate(words)
    }
    outcome = run(tmp_path / "a", rows=rows, table=table, known=())
    assert values(outcome)["noncontextual_accuracy_pairs"] == 2
    flagged = [(row["src"], row["first_unseen"]) for row in outcome.predictions.to_pylist()]
    assert flagged == 2 * [("Köter", True), ("Biest", False), ("Hund", False), ("Maus", True)]
    # where the first sentence's Hund was not read, the next one is the first; a link must still be
    # to a first word
    unread = {key: value for key, value in table.items() if key != ("de", ("Biest", "Hund"), 1)}
    assert (
        values(run(tmp_path / "b", rows=rows, table=unread, known=()))[
            "noncontextual_accuracy_pairs"
        ]
        == 3
    )
    linked = run(tmp_path / "c", rows=rows, table=table, known=(), candidates="linked").notes[
        "de-en"
    ]["test"]
    assert (
        linked["first_src"],
        linked["first_tgt"],
        linked["candidates_src"],
        linked["candidates_tgt"],
    ) == (2, 2, 4, 4)
    counted = outcome.notes["de-en"]["test"]
    assert (
        counted["pairs_first"],
        counted["first_src"],
        counted["first_tgt"],
        counted["candidates_src"],
    ) == (2, 5, 5, 6)


def test_standard_errors_take_sentences_as_units(tmp_path):
    """Two sentences with one pair each, one wrong, one right, in both directions: u = (-.5/2,
    .5/2), variance 2 (.0625 + .0625).
    """
    assert values(run(tmp_path))["contextual_accuracy_stderr"] == pytest.approx(
        math.sqrt(2 * 2 * 0.0625)
    )


def test_a_single_sentence_has_no_standard_error(tmp_path):
    found = values(run(tmp_path, rows=ROWS[:1]))
    assert "contextual_accuracy" in found
    assert "contextual_accuracy_stderr" not in found


def test_the_first_pair_of_a_query_is_the_first_that_passes_the_filter(tmp_path):
    found = values(run(tmp_path / "queries", known=[("Hund", "dog")], noncontextual="queries"))
    assert found["noncontextual_accuracy_to_pivot"] == 1.0  # der-the, Hund-hound
    assert found["noncontextual_accuracy_pairs"] == 2
    found = values(
        run(tmp_path / "corpus", known=[("Hund", "dog")])
    )  # filters do not decide which occurrence is the first
    assert (found["noncontextual_accuracy"], found["noncontextual_accuracy_pairs"]) == (
        1,
        1,
    )  # der-the


def test_unseen_is_judged_by_cased_forms(tmp_path):
    assert (
        values(run(tmp_path, known=[("Der", "the"), ("hund", "dog")]))["contextual_accuracy_pairs"]
        == 3
    )


def test_no_pairs_is_no_metric_and_a_note(tmp_path):
    outcome = run(tmp_path, known=[("der", "the"), ("Hund", "dog"), ("Hund", "hound")])
    found = values(outcome)
    assert "contextual_accuracy" not in found
    assert "noncontextual_accuracy" not in found
    assert found["contextual_accuracy_all_pairs"] == 3
    assert [note.split(":")[0] for note in outcome.notes["de-en"]["test"]["absent"]] == [
        "contextual_accuracy",
        "noncontextual_accuracy",
    ]


@pytest.mark.parametrize("measure", ["csls", "cosine", "dot", "released_cao"])
def test_no_links_at_all(tmp_path, measure):
    outcome = run(tmp_path, rows=[(0, ["der"], ["the"], [])], measure=measure)
    assert values(outcome) == {}
    assert outcome.predictions.num_rows == 0
    assert len(outcome.notes["de-en"]["test"]["absent"]) == 4


def test_words_that_were_not_read_are_neither_asked_nor_found(tmp_path):
    table = {key: value for key, value in TABLE.items() if key != ("en", ("hound", "!"), 0)}
    outcome = run(tmp_path, table=table)
    counts = outcome.notes["de-en"]["test"]
    assert (counts["pairs"], counts["pairs_truncated"], counts["candidates_tgt"]) == (4, 1, 4)
    assert values(outcome)["contextual_accuracy_pairs"] == 1
    assert "hound" not in outcome.predictions["found"].to_pylist()


def test_candidates_are_all_words_unless_linked_ones_are_asked_for(tmp_path):
    assert "!" in run(tmp_path).predictions["found"].to_pylist()
    linked = run(tmp_path, candidates="linked")
    assert "!" not in linked.predictions["found"].to_pylist()
    assert linked.notes["de-en"]["test"]["candidates_src"] == 4


def test_dev_and_test_are_both_kept(tmp_path):
    outcome = run(tmp_path, dev=ROWS[:1])
    assert values(outcome, "dev")["contextual_accuracy_pairs"] == 1
    assert values(outcome, "test")["contextual_accuracy_pairs"] == 2
    assert set(outcome.predictions["split"].to_pylist()) == {"dev", "test"}


def test_transforms_of_the_pivot_follow_the_language(tmp_path):
    """With the pivot turned for French, German is as before; turned for German, everything points
    the wrong way.
    """
    turn = torch.eye(4)[[1, 2, 3, 0]]
    plain = values(run(tmp_path))
    for lang, same in (("fr", True), ("de", False)):
        found = values(
            run(
                tmp_path,
                transforms=(Transform("en", 1, steps=(Affine(weight=turn),), toward=lang),),
            )
        )
        assert (found == plain) is same


def test_averages_are_over_languages(tmp_path):
    table = TABLE | {("fr", *key[1:]): value for key, value in TABLE.items() if key[0] == "de"}
    outcome = run(tmp_path, languages=("de", "fr"), table=table)
    found = values(outcome, lang="avg")
    assert found["contextual_accuracy"] == 0.5
    assert all(metric.endswith(("accuracy", "accuracy_all")) for metric in found)
    assert not values(run(tmp_path), lang="avg")


def test_where_one_language_has_no_score_there_is_no_mean_over_the_others(tmp_path):
    """No word of French has a vector, so none of its pairs counts."""
    outcome = run(tmp_path, languages=("de", "fr"))
    assert values(outcome)["contextual_accuracy"] == 0.5
    assert values(outcome, lang="fr-en") == {}
    assert values(outcome, lang="avg") == {}


def test_languages_without_pairs_have_no_mean(tmp_path):
    assert list(run(tmp_path, rows=[], languages=("de", "fr")).scores) == []


@pytest.mark.parametrize("noncontextual", ["corpus", "queries"])
def test_predictions_recompute_to_the_scores(tmp_path, noncontextual):
    outcome = run(tmp_path, dev=ROWS[:1], noncontextual=noncontextual)
    for split in ("dev", "test"):
        rows = [
            row
            for row in outcome.predictions.to_pylist()
            if row["split"] == split and not row["identical"]
        ]
        picks = {
            "contextual_accuracy": [r for r in rows if r["unseen"]],
            "contextual_accuracy_all": rows,
            "noncontextual_accuracy": [r for r in rows if r["first_unseen"]],
            "noncontextual_accuracy_all": [r for r in rows if r["first"]],
        }
        for metric, chosen in picks.items():
            by_direction = defaultdict(list)
            suffix = "_first" if metric.startswith("non") else ""
            for row in chosen:
                gold = (
                    row["id"],
                    row["tgt_position"] if row["direction"] == "to_pivot" else row["src_position"],
                )
                assert row[f"correct{suffix}"] == (
                    (row[f"found{suffix}_id"], row[f"found{suffix}_position"]) == gold
                )
                by_direction[row["direction"]].append(row[f"correct{suffix}"])
            mean = sum(sum(right) / len(right) for right in by_direction.values()) / 2
            assert values(outcome, split)[metric] == pytest.approx(mean)


def test_predictions_name_the_word_found_out_of_context_where_it_was_asked_for(tmp_path):
    """The pairs of der, Hund and Rex are first ones; both words of the last are of one surface
    form.
    """
    rows = run(tmp_path / "a").predictions.to_pylist()[:4]
    assert [row["found_first"] for row in rows] == ["the", "hound", "Rex", None]
    assert [row["correct_first"] for row in rows] == [True, False, True, None]
    assert [row["found_first_id"] for row in rows] == [7, 9, 7, None]
    assert [(row["first_any"], row["first"], row["first_unseen"]) for row in rows] == [
        (True, True, False),
        (True, True, True),
        (True, False, False),
        (False, False, False),
    ]
    rows = run(tmp_path / "b", noncontextual="queries").predictions.to_pylist()[:4]
    assert [(row["found_first"], row["correct_first"]) for row in rows] == [
        (row["found"], row["correct"]) for row in rows
    ]
    assert [row["first_any"] for row in rows] == [True, True, True, False]


def test_one_sentence_of_the_pivot_is_one_unit_in_all_languages(tmp_path):
    table = TABLE | {("fr", *key[1:]): value for key, value in TABLE.items() if key[0] == "de"}
    rows = run(tmp_path, languages=("de", "fr"), table=table).predictions.to_pylist()
    assert {(row["id"], row["unit"]) for row in rows} == {
        (7, unit(["the", "dog", "Rex"])),
        (9, unit(["hound", "!"])),
    }
    assert all(0 <= row["unit"] < 2**63 for row in rows)
    assert unit(["a b"]) != unit(["a", "b"]) != unit(["b", "a"])


def test_a_link_beyond_its_sentence_names_the_row(tmp_path):
    with pytest.raises(DataError, match=r":2: link to word 5 of a sentence of 2 words"):
        run(tmp_path, rows=[ROWS[0], (9, ["a", "b"], ["c"], [(5, 0)])])


def test_what_cannot_change_the_result_is_no_part_of_it():
    def canonical(**params):
        return Retrieval(Retrieval.Params(**params)).canonical()

    assert canonical(unseen_in=10) == canonical()
    assert canonical(measure="cosine", k=3) == canonical(measure="cosine")
    assert canonical(k=3) != canonical()
    assert canonical(noncontextual="queries") != canonical()
    assert not Retrieval(Retrieval.Params()).has_chance()


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
    assert with_sentence(vectors[:0], torch.zeros(0, dtype=torch.int64), present[:0]).shape == (
        0,
        8,
    )


def test_sentences_tell_equal_words_apart(tmp_path):
    """`Hund` has one vector in both sentences; the word next to it finds the right `dog`."""
    first, second = (["Hund", "Rex"], ["dog", "Rex"]), (["Hund", "!"], ["dog", "!"])
    rows = [(1, *first, [(0, 0)]), (2, *second, [(0, 0)])]
    table = {}
    for src, tgt in (first, second):
        for lang, words in (("de", src), ("en", tgt)):
            beside = axis(1) if "Rex" in words else axis(2)
            table |= {(lang, tuple(words), 0): axis(0), (lang, tuple(words), 1): beside}
    assert (
        values(run(tmp_path / "a", rows=rows, table=table))["contextual_accuracy"] == 0.5
    )  # a tie: the first
    assert (
        values(run(tmp_path / "b", rows=rows, table=table, augmentation="sentence"))[
            "contextual_accuracy"
        ]
        == 1.0
    )


def test_special_pieces_are_linked_words_where_they_are_wanted(tmp_path):
    """Two sentences per side of a tiny BERT, the pivot's the same words: with CSLS off every piece
    finds itself, and specials are pairs too.
    """
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path / "tiny", ["der", "Hund", "bellt"]))
    rows = [(1, ["der", "Hund"], ["der", "Hund"], [(1, 0)]), (2, ["bellt"], ["bellt"], [])]
    inputs = TaskInputs(
        "en", {"de": artifact(tmp_path / "pairs", None, rows)}, {"de": seen(tmp_path / "seen", [])}
    )
    params = {"measure": "cosine", "layers": "1-2"}
    outcomes = {
        specials: (
            Retrieval(Retrieval.Params(**params, specials=specials)).evaluate(
                AlignedEncoder(encoder), ("de",), inputs, Runtime(), None
            )
        )
        for specials in ("exclude", "include")
    }
    assert values(outcomes["exclude"])["contextual_accuracy"] == 0  # Hund, linked with der
    found = values(outcomes["include"])
    assert found["contextual_accuracy_pairs"] == 5
    assert found["contextual_accuracy"] == 4 / 5
    assert found["noncontextual_accuracy"] == 2 / 3
    assert (
        found["noncontextual_accuracy_pairs"] == 3
    )  # Hund, and the specials of the first sentence
    assert {row["unit"] for row in outcomes["include"].predictions.to_pylist()} == {
        unit(["der", "Hund"]),
        unit(["bellt"]),
    }
    rows = [
        row for row in outcomes["include"].predictions.to_pylist() if row["direction"] == "to_pivot"
    ]
    assert [
        (row["src"], row["id"], row["src_position"], row["found"], row["found_id"]) for row in rows
    ] == [
        ("Hund", 1, 1, "Hund", 1),
        ("[CLS]", 1, 2, "[CLS]", 1),
        ("[CLS]", 2, 1, "[CLS]", 2),
        ("[SEP]", 1, 3, "[SEP]", 1),
        ("[SEP]", 2, 2, "[SEP]", 2),
    ]
    hidden = AlignedEncoder(encoder).hidden(encoder.collate(encoder.pieces([["bellt"]], "de")))
    words = SideWords([["der", "Hund"], ["bellt"]])
    wide, read = add_specials(
        AlignedEncoder(encoder), words, "de", torch.zeros(3, 32), np.array([True, False, True]), "2"
    )
    assert read.tolist() == [True, False, True, True, True, True, True]
    assert torch.allclose(wide[5:], hidden[2][0, [0, 2]], atol=1e-5)
    assert wide[[0, 1, 4]].abs().sum() == 0


def test_static_vectors_have_no_special_pieces(tmp_path):
    with pytest.raises(RaxalignError, match="static vectors have no special pieces"):
        run(tmp_path, specials="include")
    with pytest.raises(ValueError, match=r"cannot be combined with `augmentation"):
        Retrieval.Params(specials="include", augmentation="sentence")
