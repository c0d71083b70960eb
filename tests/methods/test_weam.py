from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.objectives.weam import WordExchange
from raxalign.methods.rows.linked_words import with_piece_links
from raxalign.methods.rows.sentences import read_bitexts
from raxalign.methods.weam import Weam
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows

OPTIONS = {"lambda": 0.7, "mask_share": 0.3, "reduction": "mean"}
ROWS = np.array([5, 3, 23, 0, 11, 12, 7])


def objective(root: Path, options: dict[str, Any] = OPTIONS) -> WordExchange:
    encoder, inputs = toy_encoder(root / "encoder"), toy_inputs(root)
    bitexts = read_bitexts(encoder, inputs.pairs, "en", 48)
    return WordExchange(encoder, with_piece_links(bitexts, inputs.pairs), options)


def summed(trained: WordExchange, step: Step) -> float:
    trained.begin(step)
    return sum(float(trained.loss(step, positions).detach()) for positions in step.micro_batches())


def aligned(root: Path, **params: object) -> AlignedEncoder:
    method = Weam(
        Weam.Params.model_validate(
            {"batch_size": 8, "max_length": 32, "learning_rate": 1e-3, **params}
        )
    )
    return method.align(toy_encoder(root / "encoder"), toy_inputs(root), Runtime(seed=1))


def plain_losses(trained: WordExchange) -> tuple[list[float], list[float]]:
    """-log p of every masked piece, and of every masked piece that is linked by its translation,
    one row and one piece at a time.
    """
    assert trained.batch is not None
    rows, masks, model = trained.batch.rows, trained.batch.masks, trained.encoder.model
    columns: Any = toy_rows(24)
    own, crossed = [], []
    for r, number in enumerate(ROWS):
        part, mask = rows.take(np.array([r])), masks.take(np.array([r]))
        with torch.no_grad():
            inputs = torch.from_numpy(mask.applied(part).astype(np.int64))[None]
            states = model.bert(
                input_ids=inputs, token_type_ids=torch.from_numpy(part.segments)[None]
            ).last_hidden_state[0]
        matrix = torch.zeros(len(states), len(states))
        for src, tgt in zip(
            columns["src_links"][number], columns["tgt_links"][number], strict=True
        ):
            left, right = (
                np.flatnonzero((part.words == word) & (part.segments == side))
                for side, word in enumerate((tgt, src))
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
    expected = (
        sum(own) / len(own) + 0.7 * sum(crossed) / len(crossed)
        if reduction == "mean"
        else sum(own) + 0.7 * sum(crossed)
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_micro_batches_of_any_size_and_workers_sum_to_the_loss_of_the_whole_batch(tmp_path):
    trained = objective(tmp_path)
    found = [summed(trained, Step(4, 0, ROWS, seed=1, micro=micro)) for micro in (7, 3, 1)]
    assert found[1:] == pytest.approx([found[0]] * 2, rel=1e-5)
    assert sum(
        summed(trained, Step(4, 0, ROWS, seed=1, rank=rank, world_size=2, micro=7))
        for rank in (0, 1)
    ) == pytest.approx(found[0], rel=1e-5)


def test_a_piece_without_a_link_has_no_part_in_the_second_loss(tmp_path):
    trained = objective(tmp_path, OPTIONS | {"lambda": 1.0})
    links = trained.rows.links.take(np.zeros(24, np.int64))
    links.offsets[:] = 0
    trained.rows = replace(trained.rows, links=links)
    alone = objective(tmp_path, OPTIONS | {"lambda": 0.0})
    step = Step(0, 0, ROWS, seed=1, micro=7)
    assert summed(trained, step) == pytest.approx(summed(alone, step), rel=1e-6)


def test_gradients_of_both_losses_reach_the_encoder_and_the_second_head(tmp_path):
    trained, step = objective(tmp_path), Step(0, 0, ROWS, seed=1, micro=7)
    trained.begin(step)
    trained.loss(step, np.arange(7)).backward()
    assert all(p.grad is not None and p.grad.any() for p in trained.head.parameters())
    assert trained.encoder.model.get_input_embeddings().weight.grad.any()


@pytest.mark.slow
def test_training_lowers_the_loss_and_keeps_the_encoder_alone(tmp_path):
    found = aligned(tmp_path, dropout=False, epochs=30, learning_rate=3e-3)
    notes: Any = found.notes
    assert (notes["steps"], notes["de"]["sentences"]) == (90, 24)
    assert notes["last_loss"] < 0.7 * notes["first_loss"]
    found.save(tmp_path / "saved")
    loaded = AlignedEncoder.load(tmp_path / "saved", lambda: toy_encoder(tmp_path / "encoder"))
    assert isinstance(loaded.encoder, TransformerEncoder)
    assert list(loaded.encoder.model.state_dict()) == list(
        toy_encoder(tmp_path / "encoder").model.state_dict()
    )


def test_the_profile_says_how_losses_are_reduced():
    paper = Weam(Weam.Params(profile="paper")).canonical()
    assert (
        paper["reduction"],
        paper["mask_share"],
        paper["batch_size"],
        paper["epochs"],
        paper["learning_rate"],
    ) == ("sum", 0.3, 32, 2, 5e-5)
    assert paper == Weam(Weam.Params(reduction="sum")).canonical()
    assert "profile" not in paper
    assert Weam(Weam.Params()).canonical()["reduction"] == "mean"
