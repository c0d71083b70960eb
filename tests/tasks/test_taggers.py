"""Taggers on a tiny BERT, conditional random fields against sums over all sequences of tags, and
scores against a count written from conlleval's rules and against seqeval's figures.
"""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.tasks.slots import Slots
from raxalign.tasks.taggers.head import (
    BilstmCrf,
    ConditionedCrf,
    Placed,
    SentenceBatches,
    extract,
    make_tagger,
)
from raxalign.tasks.taggers.scheme import TagScheme, entities_of
from raxalign.tasks.taggers.task import feature_layers
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


def tagger_settings(tagger="bilstm_crf", **params):
    options = {"hidden": 6, "dropout": 0.0, "max_length": 16, **params}
    return Slots(Slots.Params(data="phrasebook", tagger=tagger, **options)).settings()


def tagger_of(encoder, *transforms, n_labels=3, seed=0, **params):
    return make_tagger(
        tagger_settings(**params), AlignedEncoder(encoder, transforms), n_labels, seed
    )


def tuning(tagger, placed):
    return Tuning(tagger, SentenceBatches(tagger, placed, LABELS, 0))


def test_the_first_piece_of_every_word_is_found(encoder):
    placed = Placed.of(encoder.pieces([["set", "alarm", "today"], []], "en"))
    pieces = encoder.tokenizer.convert_ids_to_tokens(placed.rows[0].ids)
    assert " ".join(pieces) == "[CLS] set al ##arm to ##day [SEP]"
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
                states = encoder.hidden(encoder.collate(rows[i]))
            expected = states[2][0] @ turn + states[3][0]
            assert int(lengths[k]) == len(rows[i].ids)
            assert torch.allclose(vectors[k, : lengths[k]], expected, atol=1e-4)
            assert not vectors[k, lengths[k] :].any()


def test_the_last_four_layers_are_fewer_in_a_shallow_encoder():
    found = [feature_layers("last-four", n) for n in (12, 4, 2)]
    assert found == [(9, 10, 11, 12), (1, 2, 3, 4), (1, 2)]
    with pytest.raises(RaxalignError, match=r"0 \(embeddings\) to 4"):
        feature_layers("9-12", 4)


def test_micro_batches_and_workers_add_up_to_the_whole(encoder):
    """Loss and gradients of the global batch are the sums over its parts."""
    tagger = tagger_of(encoder).eval()
    objective = tuning(tagger, tagger.place(SENTENCES, "en"))
    step = Step(0, 0, np.array([2, 0, 3, 1]))
    objective.begin(step)
    gradients = []
    for parts in ([[0, 1, 2, 3]], [[0], [3, 1], [2]]):
        tagger.zero_grad()
        loss = torch.stack([objective.loss(step, np.array(part)) for part in parts]).sum()
        loss.backward()
        moved = [p.grad.clone() for p in tagger.parameters() if p.grad is not None]
        gradients.append((float(loss.detach()), moved))
    (one, moved), (other, again) = gradients
    assert one == pytest.approx(other, rel=1e-5)
    assert len(moved) > 5
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(moved, again, strict=True))


def test_the_linear_loss_is_the_mean_over_the_words(encoder):
    tagger = tagger_of(encoder, tagger="linear").eval()
    placed = tagger.place(SENTENCES, "en")
    objective = tuning(tagger, placed)
    found = []
    for i, row in enumerate(placed.rows):
        with torch.no_grad():
            logits = tagger.head(encoder.hidden(encoder.collate(row))[-1][0, placed.firsts[i]])
        found += [-float(logits[k].log_softmax(0)[label]) for k, label in enumerate(LABELS[i])]
    step = Step(0, 0, np.arange(4))
    objective.begin(step)
    loss = float(objective.loss(step, np.arange(4)).detach())
    assert loss == pytest.approx(np.mean(found), rel=1e-4)


def test_predictions_do_not_depend_on_the_batch(encoder):
    for options in ({"tagger": "linear"}, {}):
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


def test_saved_weights_come_back_and_those_of_others_are_refused(encoder, tmp_path):
    one, other = tagger_of(encoder, seed=1), tagger_of(encoder, seed=2)
    one.save(tmp_path / "one")
    other.load(tmp_path / "one")
    assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
    with pytest.raises(RaxalignError, match="with other options"):
        tagger_of(encoder, hidden=5).load(tmp_path / "one")


N, WIDTH, LENGTHS = 3, 4, (4, 1, 3)


@pytest.fixture
def crf():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = ConditionedCrf(WIDTH, N).double()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter)
    return made


@pytest.fixture
def states():
    chance = torch.Generator().manual_seed(5)
    return torch.randn(*MASK.shape, WIDTH, dtype=torch.float64, generator=chance)


MASK = torch.tensor([[t < length for t in range(max(LENGTHS))] for length in LENGTHS])
TAGS_BT = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [1, 1, 0, 2]])


def score(crf, states_TH, tags):
    """The unnormalised log-probability of one sequence, term by term."""
    total = 0.0
    for t, (state, tag) in enumerate(zip(states_TH, tags, strict=True)):
        total += float(crf.tags.weight[tag] @ state + crf.tags.bias[tag])
        row = (tags[t - 1] if t else N) * N + tag
        total += float(crf.transitions.weight[row] @ state + crf.transitions.bias[row])
    return total


def every(crf, states_TH):
    return {tags: score(crf, states_TH, tags) for tags in product(range(N), repeat=len(states_TH))}


def test_losses_are_those_of_the_sum_over_all_sequences(crf, states):
    losses = crf.losses(states, TAGS_BT, MASK)
    for b, length in enumerate(LENGTHS):
        scores = every(crf, states[b, :length])
        own = scores[tuple(TAGS_BT[b, :length].tolist())]
        whole = np.logaddexp.reduce(list(scores.values()))
        assert float(losses[b]) == pytest.approx(whole - own, abs=1e-9)


def test_decoding_finds_the_best_of_all_sequences(crf, states):
    found = crf.decode(states, MASK)
    for b, length in enumerate(LENGTHS):
        scores = every(crf, states[b, :length])
        assert tuple(found[b]) == max(scores, key=scores.get)


def test_what_is_beyond_a_sentence_changes_nothing(crf, states):
    losses = crf.losses(states, TAGS_BT, MASK)
    other = torch.where(MASK[..., None], states, states + 7)
    assert torch.allclose(crf.losses(other, TAGS_BT, MASK), losses, atol=1e-12)
    assert crf.decode(other, MASK) == crf.decode(states, MASK)
    losses.sum().backward()
    gradients = [parameter.grad for parameter in crf.parameters()]
    assert all(grad is not None and bool(grad.isfinite().all()) for grad in gradients)


TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]


def entities_by_hand(tags):
    """{(type, begin, end)}: an entity begins at a B-, or at an I- that does not go on with the type
    before it.
    """
    found, open_ = set(), None
    for i, tag in enumerate([*tags, "O"]):
        goes_on = open_ is not None and tag.startswith("I-") and tag[2:] == open_[0]
        if open_ is not None and not goes_on:
            found.add((open_[0], open_[1], i))
            open_ = None
        if tag != "O" and not goes_on:
            open_ = (tag[2:], i)
    return found


def by_hand(gold, predicted):
    sides = [[entities_by_hand(row) for row in rows] for rows in (gold, predicted)]
    there, found = (sum(map(len, side)) for side in sides)
    right = sum(len(a & b) for a, b in zip(*sides, strict=True))
    precision, recall = (right / found if found else 0.0), (right / there if there else 0.0)
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


sentences = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)


@given(sentences)
@settings(max_examples=40)
def test_scores_are_those_of_the_count_by_hand(rows):
    gold, predicted = [[a for a, _ in row] for row in rows], [[b for _, b in row] for row in rows]
    scores = TagScheme().values(gold, predicted)
    expected = dict(zip(("precision", "recall", "f1"), by_hand(gold, predicted), strict=True))
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_scores_are_those_of_seqeval():
    """The figures are those that seqeval 1.2.2 found."""
    rng = np.random.default_rng(0)
    gold, predicted = ([list(rng.choice(TAGS, 9)) for _ in range(40)] for _ in range(2))
    sides = [[entities_of(row) for row in rows] for rows in (gold, predicted)]
    assert [sum(map(len, side)) for side in sides] == [234, 236]
    assert sum(len(a & b) for a, b in zip(*sides, strict=True)) == 53
    scores = TagScheme().values(gold, predicted)
    assert (scores["f1"], scores["precision"]) == (0.225531914893617, 0.2245762711864407)
    assert scores["recall"] == 0.2264957264957265


def test_without_entities_there_is_accuracy_alone():
    assert TagScheme(entities=False).values([["NOUN", "VERB"]], [["NOUN", "_"]]) == {
        "accuracy": 0.5
    }
    assert TagScheme().values([["O"]], [["O"]])["f1"] == 0.0
