"""Vectors of words, by hand and by an encoder, and the layers that params name."""

import random

import numpy as np
import pytest
import torch

from raxalign.caveats import Caveats
from raxalign.encoders.models.pieces import TextPieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Spans, parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods.mean_shift import MeanShift
from raxalign.methods.rotation import Rotation
from raxalign.tasks.retrieval import Retrieval
from tests.encoders.architectures import model_of
from tests.encoders.tokenizers_of_kinds import tokenizer_of

# Two rows: word 0 has pieces 1 and 2, word 1 none, word 2 piece 3; the second row's word 0 has
# piece 1.
WORDS = np.array([[-1, 0, 0, 2, -1], [-1, 0, -1, -1, -1]])
STATES = torch.tensor(
    [[[9.0, 9], [1, 2], [3, 6], [5, 5], [9, 9]], [[9, 9], [7, 8], [9, 9], [0, 0], [0, 0]]]
)
EXPECTED = {
    "first": [[1.0, 2], [0, 0], [5, 5], [7, 8]],
    "last": [[3.0, 6], [0, 0], [5, 5], [7, 8]],
    "mean": [[2.0, 4], [0, 0], [5, 5], [7, 8]],
    "sum": [[4.0, 8], [0, 0], [5, 5], [7, 8]],
}


@pytest.mark.parametrize("pooling", EXPECTED)
def test_pooling_is_what_one_computes_by_hand_and_gradient_flows_to_what_was_read(pooling):
    spans, states = Spans.of_words(WORDS, WORDS, [3, 1], pooling), STATES.clone().requires_grad_()
    pooled = spans.pool([states])[:, 0]
    assert pooled.tolist() == EXPECTED[pooling]
    assert spans.present("cpu").tolist() == [True, False, True, True]
    pooled.sum().backward()
    shares = {"first": (1.0, 0.0), "last": (0.0, 1.0), "mean": (0.5, 0.5), "sum": (1.0, 1.0)}
    assert states.grad[0, :, 0].tolist() == [0.0, *shares[pooling], 1.0, 0.0]


def test_a_fraction_of_the_depth_is_the_nearest_layer_and_a_half_rounds_up():
    for layers, depth, found in (("0.0", 12, 0), ("0.5", 12, 6), ("0.5", 5, 3), ("0.5", 7, 4)):
        assert parse_layers(layers, depth) == (found,)
    for layers, depth, found in (("0.29", 50, 15), (".25", 4, 1), ("0.66 - 0.67", 3, 2)):
        assert parse_layers(layers, depth) == (found,)
    assert parse_layers("0.5-1.0", 6) == (3, 4, 5, 6)
    for layers, wanted in (("last", (12,)), ("1.0", (12,)), ("1", (1,)), ("9-11", (9, 10, 11))):
        assert parse_layers(layers, 12) == wanted, "a number without a point is a layer"


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ("1.5", "a fraction of the depth, at most 1.0"),
        ("9.0", "a fraction of the depth, at most 1.0"),
        ("0.5-12", "two numbers, or two fractions"),
        ("1-1.0", "two numbers, or two fractions"),
        ("0.9-0.1", "begins with its smaller number"),
        ("0.", "write `last`"),
        ("first", "write `last`"),
        ("", "write `last`"),
        ("13", "this encoder has the layers 0 .* to 12"),
        ("3-1", "begins with its smaller number"),
    ],
)
def test_other_forms_are_refused_with_a_sentence(layers, said):
    with pytest.raises(RaxalignError, match=said):
        parse_layers(layers, 12)


def test_what_changes_states_after_a_block_refuses_a_fraction_that_is_the_embeddings():
    assert parse_layers("0.25-0.5", 4, blocks=True) == (1, 2)
    with pytest.raises(RaxalignError, match="with 4 blocks this begins at layer 0"):
        parse_layers("0.1", 4, blocks=True)
    shift = MeanShift(MeanShift.Params(layers="0.1"))
    assert shift.acts(12).stream_from == 1
    with pytest.raises(RaxalignError, match="with 4 blocks this begins at layer 0"):
        shift.acts(4)


def test_plans_resolve_fractions_at_the_depth_of_each_encoder_without_opening_it():
    rotation = Rotation(Rotation.Params(layers="0.5"))
    retrieval = Retrieval(Retrieval.Params(layers="0.5-1.0"))
    assert [rotation.acts(depth).readouts for depth in (12, 24)] == [{6}, {12}]
    assert retrieval.reads(4).layers == {2, 3, 4}


SENTENCES = [["the", "playing", "dogs"], ["der"], [], ["a", "\u00ad", "cat"]]
SENTENCES += [["die", "Katze", "schläft", "."], ["played"] * 5]


def test_layers_come_in_the_order_asked_for(encoder):
    both = encoder.words(SENTENCES, "en", layers=(1, 2), pooling="last").vectors_NLH
    one = encoder.words(SENTENCES, "en", layers=(1,), pooling="last").vectors_NLH
    assert torch.equal(both[:, 0], one[:, 0])
    assert not torch.equal(both[:, 0], both[:, 1])


def test_results_are_in_input_order_whatever_the_batches(encoder):
    shuffled = SENTENCES * 3
    random.Random(0).shuffle(shuffled)
    expected = encoder.words(shuffled, "en", layers=(3,), pooling="first")
    for encoder.batch_tokens in (1, 10):
        found = encoder.words(shuffled, "en", layers=(3,), pooling="first")
        assert torch.allclose(found.vectors_NLH, expected.vectors_NLH, atol=1e-5)
        assert found.present_N.tolist() == expected.present_N.tolist()


def test_batches_come_longest_first(encoder):
    encoder.batch_tokens = 14
    batches = list(encoder.iter_words(SENTENCES, "en", layers=(3,), pooling="mean"))
    assert [indices for indices, _ in batches] == [[5], [0, 4], [3, 1, 2]]
    assert [list(part.offsets) for _, part in batches] == [[0, 5], [0, 3, 7], [0, 3, 4, 4]]


def test_words_beyond_the_positions_are_absent(encoder):
    found = encoder.words([["the"] * 40, ["a"]], "en", layers=(3,), pooling="mean")
    assert found.present_N.tolist() == [True] * 22 + [False] * 18 + [True]
    assert not found.vectors_NLH[22:40].any()


def test_no_sentences_and_no_words_are_no_vectors(encoder):
    found = encoder.words([], "en", layers=(1, 2), pooling="mean")
    assert found.vectors_NLH.shape == (0, 2, 32)
    assert list(found.offsets) == [0]
    none = (np.full((2, 2), -1), np.full((2, 2), -1), [0, 0])
    assert Spans.of_words(*none, "mean").pool([torch.zeros(2, 2, 4)]).shape == (0, 1, 4)
    with pytest.raises(ValueError, match="median"):
        Spans.of_words(*none, "median")


def test_gradient_flows_through_hidden_and_the_mode_decides_on_dropout_there_alone(encoder):
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    states = encoder.hidden(batch)
    assert len(states) == encoder.n_layers + 1
    states[-1].sum().backward()
    assert encoder.model.get_input_embeddings().weight.grad is not None
    encoder.model.train()
    assert not torch.equal(encoder.hidden(batch)[-1], states[-1])
    made = (encoder.words(SENTENCES, "en", layers=(3,), pooling="mean") for _ in range(2))
    first, second = (found.vectors_NLH for found in made)
    assert torch.equal(first, second)
    assert encoder.model.training
    assert not first.requires_grad


def test_unknown_pieces_are_counted_for_each_language_that_is_read(encoder):
    with Caveats.collecting() as found:
        encoder.pieces([["the", "漢", "cat"], ["字"]], "zh")
        encoder.pieces([["the", "dogs"]], "en", [["漢", "cat"]], "zh")
        list(TextPieces.read(encoder.tokenizer, ["the 漢", "cat"], "el"))
    assert found.pieces == {"zh": 6, "en": 2, "el": 3}
    assert found.unknown == {"zh": 3, "en": 0, "el": 1}


def test_vectors_that_are_no_numbers_are_refused_with_the_language(encoder):
    with torch.no_grad():
        encoder.model.bert.encoder.layer[2].output.LayerNorm.weight[0] = float("inf")
    assert encoder.words([["the"]], "de", layers=(2,), pooling="mean").present_N.all()
    said = r"vectors with NaN or infinite values for sentences of de.*learning_rate"
    with pytest.raises(RaxalignError, match=said):
        encoder.words([["the"]], "de", layers=(3,), pooling="mean")


def test_pairs_follow_the_tokenizer_template_where_there_are_no_segments():
    tokenizer = tokenizer_of("unigram")
    encoder = TransformerEncoder(model_of("distilbert", head=False), tokenizer)
    first, second = ["We"], ["have", "mice"]
    batch = encoder.collate(encoder.pieces([first], "de", [second], "en"))
    wanted = tokenizer([first], [second], is_split_into_words=True)["input_ids"]
    assert batch.ids_BT.tolist() == wanted
    begin = wanted[0].index(tokenizer.sep_token_id) + 1
    assert batch.langs_BT.tolist() == [[0] * begin + [1] * (len(wanted[0]) - begin)]
    assert not batch.segments_BT.any()


def test_words_beyond_the_positions_of_an_encoder_are_counted(encoder):
    long = ["the"] * (encoder.max_positions + 20)
    with Caveats.collecting() as found:
        present = encoder.words([["the"], long], "de", layers=(1,), pooling="mean").present_N
        encoder.words([["the"]], "en", layers=(1,), pooling="mean")
    assert found.beyond["de"] == int((~present).sum()) > 20
    said = f"{found.beyond['de']} of de"
    assert found.notes()["partial"] == {
        "words beyond the encoder's positions": said,
        "texts cut at the maximum length": "1 of de",
    }


def test_a_text_that_is_cut_is_counted_once_however_often_it_is_read(encoder):
    long = ["the"] * (encoder.max_positions + 20)
    with Caveats.collecting() as found:
        for _ in range(2):
            encoder.pieces([["the"], long], "de", [["the"], ["the"]], "en")
            encoder.pieces([long[1:]], "en")
    assert found.notes()["partial"] == {"texts cut at the maximum length": "1 of de, 1 of en"}
