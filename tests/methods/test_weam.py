import numpy as np
import pytest
import torch

from raxalign.errors import RaxalignError
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.weam import (
    Partners,
    WordExchange,
    cross_head,
    exchange,
    piece_links,
    split_head,
    with_piece_links,
)
from raxalign.train.objective import Step
from tests.families.subject import Subject
from tests.methods.contract import of_ids, summed
from tests.methods.toy import columns_of, toy_encoder, toy_inputs, toy_rows, write_pairs

OPTIONS = {"lambda": 0.7, "mask_share": 0.3, "reduction": "mean"}
ROWS = np.array([5, 3, 23, 0, 11, 12, 7])


def objective(root, options=OPTIONS):
    encoder, inputs = toy_encoder(root / "encoder"), toy_inputs(root)
    bitexts = Bitexts.read(encoder, inputs.pairs, "en", 48)
    return WordExchange(encoder, with_piece_links(bitexts, inputs.pairs), options)


def plain_losses(trained):
    """-log p of every masked piece, and of every masked piece that is linked by its translation,
    one row and one piece at a time.
    """
    (rows, masks, *_), model = trained.batch, trained.encoder.model
    columns = toy_rows(24)
    own, crossed = [], []
    for r, number in enumerate(ROWS):
        part, mask = rows.take(np.array([r])), masks.take(np.array([r]))
        with torch.no_grad():
            row = of_ids(mask.applied(part).ids, part.segments)
            states = model.bert(**row).last_hidden_state[0]
        matrix = torch.zeros(len(states), len(states))
        sides = (columns[name][number] for name in ("tgt_links", "src_links"))
        for link in zip(*sides, strict=True):
            left, right = (
                np.flatnonzero((part.words == word) & (part.segments == side))
                for side, word in enumerate(link)
            )
            for i in range(max(len(left), len(right))):
                a, b = left[min(i, len(left) - 1)], right[min(i, len(right) - 1)]
                matrix[a, b] = matrix[b, a] = 1
        for place, target in zip(mask.places, mask.targets, strict=True):
            with torch.no_grad():
                own.append(-float(model.cls(states[place]).log_softmax(-1)[target]))
                if matrix[place].any():
                    state = matrix[place] @ states / matrix[place].sum()
                    hidden = trained.head.exchange.weight @ state + trained.head.exchange.bias
                    crossed.append(-float(model.cls(hidden).log_softmax(-1)[target]))
    return own, crossed


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_loss_is_that_of_the_formula_piece_by_piece(reduction, tmp_path):
    trained = objective(tmp_path, OPTIONS | {"reduction": reduction})
    with torch.no_grad():
        trained.head.exchange.weight.add_(0.1 * torch.randn(trained.head.exchange.weight.shape))
        trained.head.exchange.bias.add_(0.1)
    found = summed(trained, Step(0, 0, ROWS, seed=1, micro=7))
    own, crossed = plain_losses(trained)
    assert 0 < len(crossed) < len(own)
    reduce = np.mean if reduction == "mean" else np.sum
    assert found == pytest.approx(reduce(own) + 0.7 * reduce(crossed), rel=1e-5)


def test_micro_batches_of_any_size_and_workers_sum_to_the_loss_of_the_whole_batch(tmp_path):
    trained = objective(tmp_path)
    found = [summed(trained, Step(4, 0, ROWS, seed=1, micro=micro)) for micro in (7, 3, 1)]
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-5)
    of_two = {"seed": 1, "world_size": 2, "micro": 7}
    shares = (summed(trained, Step(4, 0, ROWS, rank=rank, **of_two)) for rank in (0, 1))
    assert sum(shares) == pytest.approx(found[0], rel=1e-5)


def test_gradients_of_both_losses_reach_the_encoder_and_the_second_head(tmp_path):
    trained, step = objective(tmp_path), Step(0, 0, ROWS, seed=1, micro=7)
    trained.begin(step)
    trained.loss(step, np.arange(7)).backward()
    assert all(p.grad is not None and p.grad.any() for p in trained.head.parameters())
    assert trained.encoder.model.get_input_embeddings().weight.grad.any()


def exchanged(states, links):
    """H' of all pieces of one row, and which have a partner."""
    left, right = (np.array([link[i] for link in links]) for i in (0, 1))
    rows, pieces = np.zeros(len(links), np.int64), len(states)
    partners = Partners.of(rows, left, right, pieces)
    places, owners = map(torch.from_numpy, partners.of_pieces(np.arange(pieces)))
    return exchange(states, places, owners, pieces), partners.linked(np.arange(pieces))


def test_one_to_one_links_swap_vectors_exactly():
    states = torch.randn(7, 3, dtype=torch.float64)
    swapped, linked = exchanged(states, [(1, 5), (2, 4), (1, 5)])
    assert torch.equal(swapped[[1, 5, 2, 4]], states[[5, 1, 4, 2]])
    assert linked.tolist() == [False, True, True, False, True, True, False]
    assert not swapped[[0, 3, 6]].any()


def test_rows_of_the_exchange_matrix_sum_to_one():
    states = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)
    swapped, _ = exchanged(states, [(0, 2), (0, 3), (1, 3)])
    matrix = torch.tensor([[0, 0, 0.5, 0.5], [0, 0, 0, 1], [1, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert torch.allclose(swapped, matrix.double() @ states, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ((1, 1), (5, 1), [(1, 5)]),
        ((1, 2), (5, 2), [(1, 5), (2, 6)]),
        ((1, 1), (5, 3), [(1, 5), (1, 6), (1, 7)]),
        ((2, 3), (6, 1), [(2, 6), (3, 6), (4, 6)]),
    ],
)
def test_a_word_link_joins_pieces_in_turn_and_the_rest_with_the_last(src, tgt, expected):
    left, right, _ = piece_links(*(np.array([value]) for value in (*src, *tgt)))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_links_are_places_in_the_row_and_words_that_are_cut_have_none(tmp_path):
    src = [["haus", "rothaus", "rot"], ["hund"]]
    tgt = [["red", "redhouse", "old", "house"], ["dog"]]
    columns = columns_of(src, tgt, [[(0, 3), (1, 1), (2, 0)], [(0, 0)]])
    encoder = toy_encoder(tmp_path / "encoder")
    folders = {"de": write_pairs(tmp_path / "pairs", columns)}
    for max_length, linked in ((40, 3), (10, 0)):
        bitexts = Bitexts.read(encoder, folders, "en", max_length)
        links = with_piece_links(bitexts, folders).links
        rows = bitexts.sentences.joint_rows(bitexts.tgt_P, bitexts.src_P)
        first, second = (side[: links.offsets[1]] for side in (links.src, links.tgt))
        words = set(zip(rows.words[first].tolist(), rows.words[second].tolist(), strict=True))
        assert words <= {(0, 2), (1, 1), (3, 0)}
        assert len(words) == linked
        assert links.pair(1) == {(1, 3)}
        assert (rows.segments[first] == 0).all()
        assert (rows.segments[second] == 1).all()


@pytest.mark.parametrize("name", ["mBERT", "RoBERTa", "DistilBERT", "ModernBERT"])
def test_the_second_head_begins_as_a_copy_of_the_first_one(name, tmp_path):
    encoder = Subject.of(name, tmp_path).encoder
    states = torch.randn(3, encoder.hidden_size)
    transform, decoder = split_head(encoder.model)
    head = cross_head(transform, encoder.hidden_size)
    assert torch.allclose(decoder(head(states)), encoder.lm_logits(states), atol=1e-5)
    assert not {id(p) for p in head.parameters()} & {id(p) for p in encoder.model.parameters()}


def test_a_head_of_unknown_shape_is_refused():
    with pytest.raises(RaxalignError, match="Linear has no masked-LM head"):
        split_head(torch.nn.Linear(2, 2))
