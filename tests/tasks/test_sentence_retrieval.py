"""Sentence retrieval: values by hand on planted vectors, and poolings of a tiny BERT."""

import math
from functools import partial

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.grid.options import read_options
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors.frame import SentenceReading
from raxalign.values.predictions import samples_of
from tests.tasks.outcomes import evaluated, made, static, values, write_heldout

SPACES = {
    "de": {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [-1.0, -1.0]},
    "en": {"A": [1.0, 0.1], "B": [0.2, 1.0], "C": [1.0, 0.2]},
}
# (1, .5) finds (1, .1) + (.2, 1); c finds none near but A's opposite; ids are not row numbers.
ROWS = [(10, ["a"], ["A"]), (20, ["b"], ["B"]), (30, ["c"], ["C"]), (40, ["a", "?"], ["A"])]
task = partial(made, "sentence_retrieval")


def run(tmp_path, *, rows=ROWS, dev=0, transforms=(), languages=("de",), **params):
    ids, src, tgt = ([row[i] for row in rows] for i in range(3))
    write_heldout(tmp_path, dev, id=ids, src=src, tgt=tgt)
    bitext = dict.fromkeys(languages, tmp_path)
    return evaluated(task(**params), static(SPACES, transforms), languages, bitext=bitext)


def test_all_values_by_hand(tmp_path):
    """To the pivot a finds A (twice: the fourth sentence's A has the same words), b finds B, c
    finds another. From it A finds a (the first of two equal ones, which for the fourth sentence is
    [a], not [a ?]), B finds b, C finds a.
    """
    outcome = run(tmp_path)
    found = values(outcome)
    assert found["accuracy_to_pivot"] == 3 / 4
    assert found["accuracy_from_pivot"] == 2 / 4
    assert found["accuracy"] == 0.625
    assert found["accuracy_pairs"] == 4
    # residuals (right minus accuracy, over 4 and over 2 directions): row sums 3/32, 3/32, -5/32,
    # -1/32; variance 4/3 of the squares' sum
    assert found["accuracy_stderr"] == pytest.approx(math.sqrt(4 / 3 * (9 + 9 + 25 + 1)) / 32)
    rows = outcome.predictions.to_pylist()
    assert [row["found_id"] for row in rows if row["direction"] == "from_pivot"] == [10, 20, 10, 10]
    assert [row["correct"] for row in rows] == [True, True, False, True, True, True, False, False]
    named = {"lang": "de-en", "split": "test", "direction": "to_pivot", "unit": unit(["A"])}
    assert rows[3] == {**named, "id": 40, "found_id": 10, "correct": True}


def test_queries_of_one_side_are_its_direction_alone(tmp_path):
    direction, expected = "from_pivot", 2 / 4
    outcome = run(tmp_path, profile="xtreme", layers="last")
    found = values(outcome)
    assert set(found) == {"accuracy", f"accuracy_{direction}", "accuracy_pairs", "accuracy_stderr"}
    assert found["accuracy"] == found[f"accuracy_{direction}"] == expected
    # of n sentences with a share p of right ones the variance of the mean is p (1 - p) / (n - 1)
    assert found["accuracy_stderr"] == pytest.approx(math.sqrt(expected * (1 - expected) / 3))
    assert set(outcome.predictions["direction"].to_pylist()) == {direction}
    name = ("de-en", "accuracy", "test")
    same = samples_of(SentenceRetrieval.metrics, outcome.predictions, [name])[name]
    assert len(same.units) == 3  # A stands twice


def test_xtreme_reads_block_8_by_the_pivots_sentences():
    """Its layer 7 counts blocks from 0: the 12 last of the 13 states, of which it takes number
    7.
    """
    states = list(range(13))  # 0: the embeddings
    xtreme = task(profile="xtreme").resolved()
    assert xtreme["layers"] == str(states[-12:][7])
    chosen = [xtreme[name] for name in ("pooling", "specials", "measure", "queries")]
    assert chosen == ["mean", "include", "cosine", "pivot"]
    assert task(profile="xtreme").canonical() == {
        **task(layers="8").canonical(),
        "queries": "pivot",
    }
    assert task(profile="xtreme", layers="14").resolved() == {**xtreme, "layers": "14"}
    assert task(profile="none").canonical() == task().canonical()
    assert "profile" not in task(profile="xtreme").canonical()


def test_layers_are_written_as_numbers_too(tmp_path):
    built = read_options("tasks", "sentence_retrieval", ["layers=8", "profile=xtreme"], tmp_path)
    assert built.layers == "8"


def test_sentences_without_a_vector_are_not_found(tmp_path):
    outcome = run(tmp_path, rows=[(1, ["?"], ["A"]), (2, ["b"], ["B"])])
    assert values(outcome)["accuracy"] == 0.5
    assert outcome.notes["de-en"]["test"] == {"sentences": 2, "unread_src": 1, "unread_tgt": 0}


def test_dev_and_test_averages_and_transforms_of_the_pivot(tmp_path):
    swap = Affine(weight=torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    moved = Transform("en", 0, steps=(swap,), toward="fr")
    outcome = run(tmp_path, dev=2, languages=("de", "fr"), transforms=(moved,))
    assert values(outcome, split="dev")["accuracy"] == 1
    assert values(outcome, "fr-en", "dev")["accuracy"] == 0
    assert values(outcome, "avg", "dev") == {"accuracy": 0.5}
    assert outcome.predictions.num_rows == 2 * 2 * (2 + 4)


def test_nothing_held_out_is_no_metric(tmp_path):
    outcome = run(tmp_path, rows=[])
    assert not outcome.scores
    assert outcome.predictions.num_rows == 0


@pytest.fixture
def encoder(tiny):
    return tiny(["der", "Hund", "play", "##ing"], positions=12)


def test_poolings_are_the_mean_with_special_pieces_or_the_first_piece(encoder):
    sentences = [["der"], ["der", "playing", "Hund"]]
    shift = Transform("de", 1, steps=(Affine(shift=torch.full((32,), 2.0)),))
    aligned = AlignedEncoder(encoder, (shift,))
    with torch.no_grad():
        alone = [
            aligned.hidden(encoder.collate(encoder.pieces([sentence], "de")))
            for sentence in sentences
        ]
    for layers, numbers in (("1", [1]), ("1-2", [1, 2])):
        states = [sum(state[layer] for layer in numbers)[0] for state in alone]
        expected = {
            "mean": [state.mean(0) for state in states],
            "cls": [state[0] for state in states],
        }
        for pooling, vectors in expected.items():
            how = SentenceReading(layers, pooling)
            found, read = how.vectors(aligned, sentences, "de")
            assert torch.allclose(found, torch.stack(vectors), atol=1e-5)
            assert read.tolist() == [True, True]


def test_a_sentence_of_nothing_that_is_read_says_so(encoder):
    aligned, how = AlignedEncoder(encoder), SentenceReading("last", "mean")
    _, read = how.vectors(aligned, [["\u200b"], ["der"]], "de")
    assert read.tolist() == [False, True]
    assert how.vectors(aligned, [], "de")[0].shape == (0, 32)


def test_static_vectors_have_no_first_piece(tmp_path):
    with pytest.raises(RaxalignError, match="`pooling: cls` requires a transformer"):
        run(tmp_path, pooling="cls")
