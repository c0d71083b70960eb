from __future__ import annotations

import random

import pytest
import torch

from raxalign.caveats import collecting
from raxalign.encoders.models.pieces import text_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from tests.encoders.architectures import model_of
from tests.encoders.tokenizers_of_kinds import tokenizer_of

SENTENCES = [
    ["the", "playing", "dogs"],
    ["der"],
    [],
    ["a", "\u00ad", "cat"],
    ["die", "Katze", "schläft", "."],
    ["played"] * 5,
]


def test_layers_come_in_the_order_asked_for(encoder: TransformerEncoder) -> None:
    both = encoder.words(SENTENCES, "en", layers=(1, 2), pooling="last").vectors_NLH
    one = encoder.words(SENTENCES, "en", layers=(1,), pooling="last").vectors_NLH
    assert torch.equal(both[:, 0], one[:, 0])
    assert not torch.equal(both[:, 0], both[:, 1])


@pytest.mark.parametrize("budget", [1, 10, 1000])
def test_results_are_in_input_order_whatever_the_batches(encoder, budget):
    shuffled = SENTENCES * 5
    random.Random(0).shuffle(shuffled)
    expected = encoder.words(shuffled, "en", layers=(3,), pooling="first")
    encoder.batch_tokens = budget
    found = encoder.words(shuffled, "en", layers=(3,), pooling="first")
    assert torch.allclose(found.vectors_NLH, expected.vectors_NLH, atol=1e-5)
    assert found.present_N.tolist() == expected.present_N.tolist()


def test_batches_come_longest_first(encoder: TransformerEncoder) -> None:
    encoder.batch_tokens = 14
    batches = list(encoder.iter_words(SENTENCES, "en", layers=(3,), pooling="mean"))
    assert [indices for indices, _ in batches] == [[5], [0, 4], [3, 1, 2]]
    assert [list(part.offsets) for _, part in batches] == [[0, 5], [0, 3, 7], [0, 3, 4, 4]]


def test_words_beyond_the_positions_are_absent(encoder: TransformerEncoder) -> None:
    found = encoder.words([["the"] * 40, ["a"]], "en", layers=(3,), pooling="mean")
    assert found.present_N.tolist() == [True] * 22 + [False] * 18 + [True]
    assert not found.vectors_NLH[22:40].any()


def test_no_sentences_are_no_vectors(encoder: TransformerEncoder) -> None:
    found = encoder.words([], "en", layers=(1, 2), pooling="mean")
    assert found.vectors_NLH.shape == (0, 2, 32)
    assert list(found.offsets) == [0]


def test_vectors_are_made_without_dropout_and_the_mode_is_kept(encoder: TransformerEncoder) -> None:
    encoder.model.train()
    made = (encoder.words(SENTENCES, "en", layers=(3,), pooling="mean") for _ in range(2))
    first, second = (found.vectors_NLH for found in made)
    assert torch.equal(first, second)
    assert encoder.model.training
    assert not first.requires_grad


def test_gradient_flows_through_hidden_and_the_mode_decides_on_dropout(encoder):
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    states = encoder.hidden(batch)
    assert len(states) == encoder.n_layers + 1
    states[-1].sum().backward()
    assert encoder.model.get_input_embeddings().weight.grad is not None
    encoder.model.train()
    assert not torch.equal(encoder.hidden(batch)[-1], states[-1])


def test_unknown_pieces_are_counted_for_each_language_that_is_read(encoder):
    with collecting() as found:
        encoder.pieces([["the", "漢", "cat"], ["字"]], "zh")
        encoder.pieces([["the", "dogs"]], "en", [["漢", "cat"]], "zh")
        list(text_pieces(encoder.tokenizer, ["the 漢", "cat"], "el"))
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
