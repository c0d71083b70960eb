from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.methods.objectives.word_contrast import (
    Contrast,
    ContrastOptions,
    contrastive_loss,
    parameter_distance,
    sharing,
)
from raxalign.methods.rows.linked_words import WordRows, read_sentence_rows, read_word_rows
from raxalign.train.objective import Step
from tests.methods.contract import in_micro_batches
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows, write_pairs

# Unit vectors (lengths are normalised away): cosines s1·t1 = 1, s1·t2 = 0.6, s2·t1 = 0, s2·t2 =
# 0.8, s1·s2 = 0, t1·t2 = 0.6.
SRC = torch.tensor([[2.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
TGT = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
TAU = 0.5


def nll(gold: float, *others: float) -> float:
    """-log softmax at temperature TAU."""
    return -log(exp(gold / TAU) / sum(exp(value / TAU) for value in (gold, *others)))


def test_weak_contrast_is_the_mean_of_both_directions():
    forward, backward = (nll(1, 0.6) + nll(0.8, 0)) / 2, (nll(1, 0) + nll(0.8, 0.6)) / 2
    assert contrastive_loss(SRC, TGT, temperature=TAU, strong=False).item() == pytest.approx(
        (forward + backward) / 2, abs=1e-12
    )


def test_strong_contrast_has_the_other_words_of_both_sides_as_negatives_but_not_itself():
    expected = nll(1, 0.6, 0) + nll(0.8, 0, 0) + nll(1, 0, 0.6) + nll(0.8, 0.6, 0.6)
    assert contrastive_loss(SRC, TGT, temperature=TAU, strong=True).item() == pytest.approx(
        expected / 4, abs=1e-12
    )


@pytest.mark.parametrize("strong", [True, False])
def test_links_that_share_a_type_are_no_negatives_of_one_another(strong):
    src, tgt = torch.cat([SRC, SRC[:1] + 0.1]), torch.cat([TGT, TGT[:1] - 0.2])
    hidden = sharing(
        torch.tensor([4, 5, 4]), torch.tensor([1, 2, 3])
    )  # the first and the third link
    assert hidden.tolist() == [[True, False, True], [False, True, False], [True, False, True]]
    found = contrastive_loss(src, tgt, temperature=TAU, strong=strong, hidden_PP=hidden)

    def cos(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(a @ b / (a.norm() * b.norm()))

    expected = []
    for mine, theirs in ((src, tgt), (tgt, src)):
        for i, others in ((0, [1]), (1, [0, 2]), (2, [1])):
            negatives = [cos(mine[i], theirs[j]) for j in others] + (
                [cos(mine[i], mine[j]) for j in others] if strong else []
            )
            expected.append(nll(cos(mine[i], theirs[i]), *negatives))
    assert found.item() == pytest.approx(sum(expected) / 6, abs=1e-12)


def test_either_sides_type_is_enough():
    assert sharing(torch.tensor([1, 2, 3]), torch.tensor([7, 7, 8])).sum().item() == 3 + 2


@pytest.mark.parametrize("strong", [True, False])
def test_a_single_link_has_no_negatives_and_no_loss(strong):
    assert contrastive_loss(SRC[:1], TGT[1:], temperature=TAU, strong=strong).item() == 0


@given(st.integers(1, 6), st.integers(0, 1000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_loss_knows_neither_the_order_of_links_nor_which_side_is_which_nor_lengths(
    n, seed, strong
):
    chance = torch.Generator().manual_seed(seed)
    src, tgt, scale = (torch.randn(n, 3, dtype=torch.float64, generator=chance) for _ in range(3))
    order = torch.randperm(n, generator=chance)
    expected = contrastive_loss(src, tgt, temperature=0.1, strong=strong).item()
    other = contrastive_loss(
        tgt[order] * scale[:, :1].exp(), src[order], temperature=0.1, strong=strong
    ).item()
    assert other == pytest.approx(expected, rel=1e-9)


def test_the_regulariser_is_the_norm_and_its_gradient_the_direction():
    weights = [
        torch.tensor([3.0, 1.0], dtype=torch.float64, requires_grad=True),
        torch.tensor([[5.0]], dtype=torch.float64, requires_grad=True),
    ]
    origins = [
        torch.tensor([0.0, 1.0], dtype=torch.float64),
        torch.tensor([[1.0]], dtype=torch.float64),
    ]
    distance = parameter_distance(weights, origins)
    (2 * distance).backward()
    assert distance.item() == pytest.approx(5)
    assert weights[0].grad.tolist() == pytest.approx([2 * 3 / 5, 0])
    assert weights[1].grad.item() == pytest.approx(2 * 4 / 5)
    parts = torch.cat([w.detach().flatten() for w in weights]).requires_grad_()
    plain = torch.cat([o.flatten() for o in origins])
    assert torch.autograd.gradcheck(lambda p: parameter_distance([p], [plain]), (parts,))


def test_where_nothing_moved_the_regulariser_pulls_nowhere():
    weights = torch.ones(3, requires_grad=True)
    parameter_distance([weights], [torch.ones(3)]).backward()
    assert weights.grad is not None
    assert torch.equal(weights.grad, torch.zeros(3))


OPTIONS = ContrastOptions(
    strong=True,
    layers=(1, 2),
    pooling="last",
    temperature=0.1,
    reg_weight=0.5,
    projector_size=8,
    projector_bias=True,
    mask_same_type=True,
)
CASES = {
    "strong": OPTIONS,
    "weak": replace(OPTIONS, strong=False),
    "no-projector": replace(OPTIONS, projector_size=None, pooling="mean"),
    "no-bias": replace(OPTIONS, projector_bias=False),
    "no-regulariser": replace(OPTIONS, reg_weight=0.0, pooling="first"),
    "duplicates-kept": replace(OPTIONS, mask_same_type=False, layers=(2,), pooling="sum"),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    encoder = toy_encoder(tmp_path_factory.mktemp("encoder"))
    encoder.model.double()
    return encoder


def made(
    encoder: TransformerEncoder, columns: dict[str, list], folder: Path, options: ContrastOptions
) -> Contrast:
    corpus = read_word_rows(
        encoder, [write_pairs(folder / "pairs", columns)], 64, drop_identical=True
    )
    torch.manual_seed(0)
    objective = Contrast(encoder, corpus, options)
    for origin in objective.origins:
        origin += 0.01
    return objective


def slow_loss(objective: Contrast, columns: dict[str, list], rows: list[int]) -> float:
    """The loss from its definition: a link at a time."""
    encoder, options = objective.encoder, objective.options

    def word(sentence: list[str], w: int) -> list[torch.Tensor]:
        batch = encoder.collate(encoder.pieces([sentence], "x"))
        pieces = [
            encoder.hidden(batch)[layer][0][batch.words_BT[0] == w] for layer in options.layers
        ]
        pool = {
            "first": lambda v: v[0],
            "last": lambda v: v[-1],
            "mean": lambda v: v.mean(0),
            "sum": lambda v: v.sum(0),
        }[options.pooling]
        vectors = [pool(part) for part in pieces]
        if options.projector_size is not None:
            first, _, second = objective.projector  # type: ignore[misc]
            bias = second.bias if options.projector_bias else 0
            vectors = [second.weight @ torch.relu(first.weight @ v) + bias for v in vectors]
        return [(v / v.norm()).detach() for v in vectors]

    links = [
        (row, i, j)
        for row in rows
        for i, j in zip(columns["src_links"][row], columns["tgt_links"][row], strict=True)
    ]
    spelt = [(columns["src"][row][i], columns["tgt"][row][j]) for row, i, j in links]
    src, tgt = (
        [word(columns[side][row], w) for row, w in words]
        for side, words in (
            ("src", [(r, i) for r, i, _ in links]),
            ("tgt", [(r, j) for r, _, j in links]),
        )
    )
    total = 0.0
    for k in range(len(options.layers)):
        for mine, theirs in ((src, tgt), (tgt, src)):
            for i in range(len(links)):
                same = [
                    bool({(0, spelt[i][0]), (1, spelt[i][1])} & {(0, s), (1, t)})
                    and options.mask_same_type
                    for s, t in spelt
                ]
                others = [j for j in range(len(links)) if j != i and not same[j]]
                scores = [float(mine[i][k] @ theirs[j][k]) for j in [i, *others]]
                scores += [float(mine[i][k] @ mine[j][k]) for j in others] if options.strong else []
                total -= log(exp(scores[0] / 0.1) / sum(exp(score / 0.1) for score in scores))
    distance = sqrt(
        sum(
            float((p - o).detach().pow(2).sum())
            for p, o in zip(objective.trained, objective.origins, strict=True)
        )
    )
    return total / (2 * len(links) * len(options.layers)) + options.reg_weight * distance


@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_the_loss_from_its_definition_in_micro_batches_too(
    name, encoder, tmp_path
):
    columns, rows = toy_rows(5), [4, 0, 1, 3]
    objective = made(encoder, columns, tmp_path, CASES[name])
    losses, gradients = zip(
        *(in_micro_batches(objective, rows, micro) for micro in (4, 3, 1)), strict=True
    )
    assert losses[0] == pytest.approx(slow_loss(objective, columns, rows), rel=1e-9)
    assert list(losses[1:]) == pytest.approx([losses[0]] * 2, rel=1e-9)
    assert all(
        torch.allclose(gradient, gradients[0], rtol=1e-8, atol=1e-10) for gradient in gradients[1:]
    )
    assert gradients[0].abs().max() > 1e-3


def test_a_batch_without_links_has_no_contrast(encoder, tmp_path):
    columns = toy_rows(3)
    columns["src_links"][1], columns["tgt_links"][1] = [], []
    objective = made(encoder, columns, tmp_path, replace(OPTIONS, reg_weight=0.0))
    for micro in (2, 1):
        step = Step(0, 0, np.array([1, 1]), micro=micro)
        objective.begin(step)
        loss = objective.loss(step, np.arange(micro))
        loss.backward()
        assert loss.item() == 0


def rows_of(encoder: TransformerEncoder, root: Path, *, drop: bool = True) -> WordRows:
    def columns(src: list[list[str]], tgt: list[list[str]]) -> dict[str, list[object]]:
        links = [list(range(len(s))) for s in src]
        return {
            "id": list(range(len(src))),
            "src": src,
            "tgt": tgt,
            "src_links": links,
            "tgt_links": links,
        }  # type: ignore[dict-item]

    one = write_pairs(
        root / "one", columns([["haus", "rot"], ["haus"]], [["house", "rot"], ["dog"]])
    )
    two = write_pairs(root / "two", columns([["alt", "haus"]], [["dog", "house"]]))
    return read_word_rows(encoder, [one, two], 64, drop_identical=drop)


def test_words_spelt_the_same_are_dropped_and_counted_unless_they_are_kept(encoder, tmp_path):
    dropped, kept = rows_of(encoder, tmp_path / "a"), rows_of(encoder, tmp_path / "b", drop=False)
    assert (dropped.dropped, dropped.link_offsets.tolist(), dropped.link_src.tolist()) == (
        1,
        [0, 1, 2, 4],
        [0, 0, 0, 1],
    )
    assert (kept.dropped, kept.link_offsets.tolist(), kept.link_tgt.tolist()) == (
        0,
        [0, 2, 3, 5],
        [0, 1, 0, 0, 1],
    )


def test_the_pivots_types_are_one_language_and_the_others_are_each_their_own(encoder, tmp_path):
    rows = rows_of(encoder, tmp_path)
    assert (rows.src_types[0] == rows.src_types[1], rows.src_types[0] == rows.src_types[3]) == (
        True,
        False,
    )
    assert (rows.tgt_types[0] == rows.tgt_types[3], rows.tgt_types[1] == rows.tgt_types[2]) == (
        True,
        True,
    )
    assert len(set(rows.src_types.tolist())) == 3


def test_rows_of_several_languages_are_those_of_each(encoder, tmp_path):
    inputs = toy_inputs(tmp_path, 9, ("de", "nl"))
    folders = [inputs.pairs["de"], inputs.pairs["nl"]]
    both, *each = (
        read_word_rows(encoder, part, 64, drop_identical=True)
        for part in (folders, folders[:1], folders[1:])
    )
    for side in ("src", "tgt"):
        whole, parts = getattr(both, side), [getattr(rows, side) for rows in each]
        ids = [part.ids(np.array([i])).tolist() for part in parts for i in range(len(part))]
        assert [whole.ids(np.array([i])).tolist() for i in range(len(whole))] == ids
        spans = [side.spans(np.arange(len(side.count_W))) for side in (whole, *parts)]
        for found, *of_parts in zip(*spans, strict=True):
            assert found.tolist() == np.concatenate(of_parts).tolist()
    assert np.diff(both.link_offsets).tolist() == [
        n for rows in each for n in np.diff(rows.link_offsets)
    ]


def test_nothing_to_learn_from_is_an_error(encoder, tmp_path):
    columns = {
        "id": [0],
        "src": [["rot"]],
        "tgt": [["rot"]],
        "src_links": [[0]],
        "tgt_links": [[0]],
    }
    with pytest.raises(DataError, match="no word pair to learn from \\(1 were dropped"):
        read_word_rows(encoder, [write_pairs(tmp_path / "pairs", columns)], 64, drop_identical=True)


def test_sentences_are_told_apart_as_wholes(encoder, tmp_path):
    src = [["haus"], ["haus", "rot"], ["haus"], ["rot"]]
    columns = {
        "id": [0, 1, 2, 3],
        "src": src,
        "tgt": [["dog"], ["dog"], ["tree"], ["old"]],
        "src_links": [[]] * 4,
        "tgt_links": [[]] * 4,
    }
    rows = read_sentence_rows(encoder, [write_pairs(tmp_path / "pairs", columns)], 64)
    assert (rows.src_types.tolist(), rows.tgt_types.tolist()) == ([0, 1, 0, 2], [0, 0, 1, 2])
