"""The two taggers on a tiny BERT: what they read, what they leave alone, and how losses add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.errors import RaxalignError
from raxalign.tasks.slots import Slots
from raxalign.tasks.tagging.head import SentenceBatches
from raxalign.tasks.tagging.models import BilstmCrf, Placed, extract, make_tagger
from raxalign.tasks.tagging.params import feature_layers
from raxalign.tasks.transfer.training import Tuning
from raxalign.train.objective import Step

WORDS = ["set", "an", "al", "##arm", "to", "##day", "please"]
SENTENCES = [
    ["set", "alarm", "today"],
    ["please"],
    ["set", "an", "alarm", "today", "please"],
    ["today", "set"],
]
LABELS = [np.array([0, 1, 2]), np.array([0]), np.array([0, 0, 1, 2, 0]), np.array([2, 0])]


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS, layers=3, hidden=16, positions=16)


def settings(tagger="bilstm_crf", **params):
    options = {"hidden": 6, "dropout": 0.0, "input_dropout": 0.0, "max_length": 16, **params}
    return Slots(Slots.Params(data="phrasebook", tagger=tagger, **options)).settings()


def tagger_of(encoder, *transforms, n_labels=3, seed=0, **params):
    return make_tagger(settings(**params), AlignedEncoder(encoder, transforms), n_labels, seed)


def tuning(tagger, placed):
    return Tuning(tagger, SentenceBatches(tagger, placed, LABELS, 0))


def test_the_first_piece_of_every_word_is_found(encoder):
    placed = Placed.of(encoder.pieces([["set", "alarm", "today"], []], "en"))
    assert encoder.tokenizer.convert_ids_to_tokens(placed.rows[0].ids) == [
        "[CLS]",
        "set",
        "al",
        "##arm",
        "to",
        "##day",
        "[SEP]",
    ]
    assert [firsts.tolist() for firsts in placed.firsts] == [[1, 2, 4], []]
    assert [words.tolist() for words in placed.words] == [[0, 1, 2], []]


def test_features_are_the_sum_of_layers_after_their_readouts(encoder):
    turn = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0)))[0]
    aligned = AlignedEncoder(encoder, (Transform("en", 2, steps=(Affine(weight=turn),)),))
    rows = encoder.pieces(SENTENCES, "en")
    for in_memory in (1 << 20, 0):
        features = extract(aligned, rows, (2, 3), in_memory)
        assert isinstance(features.flat_PH, np.memmap) is (in_memory == 0)
        vectors, lengths = features.padded(np.array([2, 0]))
        for k, i in enumerate((2, 0)):
            with torch.no_grad():
                states = encoder.hidden(encoder.collate([rows[i]]))
            expected = states[2][0] @ turn + states[3][0]
            assert int(lengths[k]) == len(rows[i])
            assert torch.allclose(vectors[k, : lengths[k]], expected, atol=1e-4)
            assert not vectors[k, lengths[k] :].any()


def test_the_last_four_layers_are_fewer_in_a_shallow_encoder():
    assert [feature_layers("last-four", n) for n in (12, 4, 2)] == [
        (9, 10, 11, 12),
        (1, 2, 3, 4),
        (1, 2),
    ]
    with pytest.raises(RaxalignError, match=r"0 \(embeddings\) to 4"):
        feature_layers("9-12", 4)


@pytest.mark.parametrize("crf", ["static", "conditioned"])
def test_micro_batches_and_workers_add_up_to_the_whole(encoder, crf):
    """Loss and gradients of the global batch are the sums over its parts."""
    tagger = tagger_of(encoder, crf=crf).eval()
    objective = tuning(tagger, tagger.place(SENTENCES, "en"))
    step = Step(0, 0, np.array([2, 0, 3, 1]))
    objective.begin(step)
    gradients = []
    for parts in ([[0, 1, 2, 3]], [[0], [3, 1], [2]]):
        tagger.zero_grad()
        losses = [objective.loss(step, np.array(part)) for part in parts]
        torch.stack(losses).sum().backward()
        gradients.append(
            (
                float(sum(losses).detach()),
                [p.grad.clone() for p in tagger.parameters() if p.grad is not None],
            )
        )
    assert gradients[0][0] == pytest.approx(gradients[1][0], rel=1e-5)
    assert len(gradients[0][1]) > 5
    assert all(
        torch.allclose(a, b, atol=1e-5)
        for a, b in zip(gradients[0][1], gradients[1][1], strict=True)
    )


def test_the_linear_loss_is_the_mean_over_the_words(encoder):
    tagger = tagger_of(encoder, tagger="linear").eval()
    placed = tagger.place(SENTENCES, "en")
    objective = tuning(tagger, placed)
    found = []
    for i, row in enumerate(placed.rows):
        with torch.no_grad():
            logits = tagger.head(encoder.hidden(encoder.collate([row]))[-1][0, placed.firsts[i]])
        found += [-float(logits[k].log_softmax(0)[label]) for k, label in enumerate(LABELS[i])]
    step = Step(0, 0, np.arange(4))
    objective.begin(step)
    loss = float(objective.loss(step, np.arange(4)).detach())
    assert loss == pytest.approx(np.mean(found), rel=1e-4)


def test_predictions_do_not_depend_on_the_batch(encoder):
    for options in ({"tagger": "linear"}, {"crf": "static"}, {"crf": "conditioned"}):
        tagger = tagger_of(encoder, n_labels=5, seed=3, **options)
        whole = tagger.predict(tagger.place([*SENTENCES, []], "en"))
        alone = [tagger.predict(tagger.place([sentence], "en"))[0] for sentence in [*SENTENCES, []]]
        assert [a.tolist() for a in whole] == [a.tolist() for a in alone]
        assert [len(a) for a in whole] == [3, 1, 5, 2, 0]
        assert all((a >= 0).all() for a in whole)


def test_words_beyond_the_length_have_no_label(encoder):
    for kind in ("linear", "bilstm_crf"):
        tagger = tagger_of(encoder, tagger=kind, max_length=8)
        [found] = tagger.predict(tagger.place([["set", "alarm", "today", "alarm", "please"]], "en"))
        # [CLS] set al ##arm to ##day al | ##arm please [SEP]: of the second alarm a piece is cut
        # off, so it is not a word
        assert (found >= 0).tolist() == [True, True, True, False, False]


def test_the_frozen_encoder_is_no_part_of_what_is_trained(encoder):
    tagger = tagger_of(encoder)
    assert isinstance(tagger, BilstmCrf)
    assert {name.split(".")[0] for name, _ in tagger.named_parameters()} == {"lstm", "crf"}
    assert tagger.lstm.input_size == 16
    assert (tagger.lstm.num_layers, tagger.lstm.bidirectional) == (2, True)


def test_one_seed_gives_one_start(encoder):
    one, same, other = (tagger_of(encoder, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["lstm.weight_ih_l0"], other["lstm.weight_ih_l0"])


def test_saved_weights_come_back_and_those_of_others_are_refused(encoder, tmp_path):
    one, other = tagger_of(encoder, seed=1), tagger_of(encoder, seed=2)
    one.save(tmp_path / "one")
    other.load(tmp_path / "one")
    assert all(
        torch.equal(a, b)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )
    for options in ({"crf": "static"}, {"hidden": 5}):
        with pytest.raises(RaxalignError, match="with other options"):
            tagger_of(encoder, **options).load(tmp_path / "one")
