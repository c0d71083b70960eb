from __future__ import annotations

from math import exp, log

import pytest
import torch

from raxalign.methods.rows.linked_words import read_sentence_rows
from raxalign.methods.sentence_margin import Margin, margin_loss
from tests.methods.contract import in_micro_batches
from tests.methods.toy import toy_encoder, toy_rows, write_pairs

# Cosines x1·y1 = 1, x1·y2 = 0.6, x2·y1 = 0, x2·y2 = 0.8.
SRC = torch.tensor([[2.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
TGT = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)


def test_the_margin_is_taken_from_the_translation_alone_and_both_directions_are_summed():
    def nll(gold: float, other: float) -> float:
        return -log(exp(5 * (gold - 0.3)) / (exp(5 * (gold - 0.3)) + exp(5 * other)))

    expected = (nll(1, 0.6) + nll(0.8, 0)) / 2 + (nll(1, 0) + nll(0.8, 0.6)) / 2
    assert margin_loss(SRC, TGT, margin=0.3, scale=5).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("mask", [True, False])
def test_the_objective_is_the_loss_from_its_definition_in_micro_batches_too(
    pooling, mask, tmp_path
):
    encoder = toy_encoder(tmp_path / "encoder")
    encoder.model.double()
    columns, rows = toy_rows(5), [4, 0, 1, 3]
    columns["tgt"][3] = columns["tgt"][0]  # the rows at the places 1 and 3 of the batch
    folders = {"de": write_pairs(tmp_path / "pairs", columns)}
    corpus = read_sentence_rows(encoder, folders, "en", 64)
    options = {"layers": "1", "pooling": pooling, "margin": 0.3, "scale": 10.0}
    objective = Margin(encoder, corpus, options | {"same_sentence": "mask" if mask else "keep"})

    def vector(sentence: list[str]) -> torch.Tensor:
        states = encoder.hidden(encoder.collate(encoder.pieces([sentence], "x")))[1][0].detach()
        found = states[0] if pooling == "cls" else states.mean(0)
        return found / found.norm()

    src, tgt = ([vector(columns[side][row]) for row in rows] for side in ("src", "tgt"))
    expected = 0.0
    for mine, theirs in ((src, tgt), (tgt, src)):
        for i in range(4):
            gold = exp(10 * (float(mine[i] @ theirs[i]) - 0.3))
            others = [
                exp(10 * float(mine[i] @ theirs[j]))
                for j in range(4)
                if j != i and not (mask and {i, j} == {1, 3})
            ]
            expected -= log(gold / (gold + sum(others))) / 4
    for micro in (4, 3, 1):
        loss, _ = in_micro_batches(objective, rows, micro)
        assert loss == pytest.approx(expected, rel=1e-9)
