from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.objectives.word_contrast import (
    ContrastOptions,
    WordContrast,
    contrastive_loss,
    hidden_words,
    sharing,
    word_contrastive_loss,
)
from raxalign.methods.rows.linked_words import read_word_rows
from raxalign.methods.strong_contrastive import StrongContrastive
from raxalign.pairing.schema import read_pairs
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.methods.contract import in_micro_batches
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows, write_pairs

TAU = 0.5
# Unit vectors of s1, s2, t1, t2, t3, of which s1-t1 is the only link: s1·t1 = 0.6, s1·t2 = 0, s1·t3
# = 0.8, s1·s2 = 0, t1·t2 = 0.8, t1·t3 = 0, t1·s2 = 0.8 (of t3 the length is not 1, and the sign of
# its second part is not t1's).
WORDS = torch.tensor(
    [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.0, 1.0], [1.6, -1.2]], dtype=torch.float64
)
IS_SRC = torch.tensor([True, True, False, False, False])
LINK = (torch.tensor([0]), torch.tensor([2]))


def nll(gold: float, *others: float) -> float:
    """-log softmax at temperature TAU."""
    return -log(exp(gold / TAU) / sum(exp(value / TAU) for value in (gold, *others)))


def test_words_without_a_link_are_negatives_of_those_that_have_one():
    weak = (nll(0.6, 0, 0.8) + nll(0.6, 0.8)) / 2
    strong = (nll(0.6, 0, 0.8, 0) + nll(0.6, 0.8, 0.8, 0)) / 2
    for expected, is_strong in ((weak, False), (strong, True)):
        found = word_contrastive_loss(WORDS, IS_SRC, *LINK, temperature=TAU, strong=is_strong)
        assert found.item() == pytest.approx(expected, abs=1e-12)
    linked = contrastive_loss(WORDS[:1], WORDS[2:3], temperature=TAU, strong=True)
    assert (linked.item(), strong > weak > 0) == (
        0,
        True,
    )  # the only link has no negatives among the links


def test_hidden_words_are_no_negatives_but_the_linked_one_stays():
    hidden = torch.tensor([[True, True, True, False, True]])
    found = word_contrastive_loss(
        WORDS, IS_SRC, *LINK, temperature=TAU, strong=True, hidden_PW=hidden
    )
    assert found.item() == pytest.approx((nll(0.6, 0) + nll(0.6, 0.8)) / 2, abs=1e-12)


@pytest.mark.parametrize("strong", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_where_every_word_has_one_link_all_words_are_the_linked_ones(strong, masked):
    src, tgt = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    types = torch.tensor([0, 0, 1, 2, 3, 4]), torch.tensor([0, 1, 2, 2, 3, 4])
    nowhere = torch.full((6,), -1)
    words = torch.cat([types[0], nowhere]), torch.cat([nowhere, types[1]])
    links = torch.arange(6), torch.arange(6, 12)
    found = word_contrastive_loss(
        torch.cat([src, tgt]),
        torch.arange(12) < 6,
        *links,
        temperature=TAU,
        strong=strong,
        hidden_PW=hidden_words(words, links, *types) if masked else None,
    )
    expected = contrastive_loss(
        src, tgt, temperature=TAU, strong=strong, hidden_PP=sharing(*types) if masked else None
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_a_word_is_hidden_by_its_own_type_and_by_that_of_a_word_that_it_is_linked_to():
    src_types, tgt_types = (
        torch.tensor([5, 6, 5, -1, -1, -1, -1]),
        torch.tensor([-1, -1, -1, 8, 9, 8, 7]),
    )
    links = torch.tensor([0, 2]), torch.tensor([3, 4])  # 5-8 and 5-9
    hidden = hidden_words((src_types, tgt_types), links, torch.tensor([5, 5]), torch.tensor([8, 9]))
    assert hidden.tolist() == [
        [True, False, True, True, True, True, False],
        [True, False, True, True, True, False, False],
    ]


OPTIONS = ContrastOptions(
    strong=True,
    layers=(1, 2),
    pooling="first",
    temperature=0.1,
    reg_weight=0.0,
    projector_size=8,
    projector_bias=False,
    mask_same_type=True,
)
CASES = {
    "strong": OPTIONS,
    "weak": replace(OPTIONS, strong=False),
    "types-kept": replace(OPTIONS, mask_same_type=False),
    "no-projector": replace(OPTIONS, projector_size=None, pooling="mean", layers=(2,)),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    encoder = toy_encoder(tmp_path_factory.mktemp("encoder"))
    encoder.model.double()
    return encoder


def made(
    encoder: TransformerEncoder,
    columns: dict[str, list],
    folder: Path,
    options: ContrastOptions,
    length: int = 64,
) -> WordContrast:
    folders = [write_pairs(folder / "pairs", columns)]
    corpus = read_word_rows(encoder, folders, length, drop_identical=True)
    torch.manual_seed(0)
    return WordContrast(encoder, corpus, options)


def slow_loss(
    objective: WordContrast, columns: dict[str, list], rows: list[int], length: int
) -> float:
    """The loss from its definition: a word at a time. A word is (side, place in `rows`, number)."""
    encoder, options = objective.encoder, objective.options
    vectors, spelt = {}, {}
    for side in ("src", "tgt"):
        for place, row in enumerate(rows):
            (pieces,) = encoder.pieces([columns[side][row]], "x")
            batch = encoder.collate([pieces])
            states = encoder.hidden(batch)
            for number, word in enumerate(columns[side][row]):
                where = [
                    i
                    for i in range(length - 1)
                    if i < batch.words_BT.shape[1] and batch.words_BT[0, i] == number
                ]
                if not where:
                    continue
                parts = [states[layer][0][where] for layer in options.layers]
                pooled = [part[0] if options.pooling == "first" else part.mean(0) for part in parts]
                if options.projector_size is not None:
                    first, _, second = objective.projector  # type: ignore[misc]
                    assert second.bias is None
                    pooled = [second.weight @ torch.relu(first.weight @ v) for v in pooled]
                vectors[side, place, number] = [(v / v.norm()).detach() for v in pooled]
                spelt[side, place, number] = (side, word)
    links = [
        (("src", place, i), ("tgt", place, j))
        for place, row in enumerate(rows)
        for i, j in zip(columns["src_links"][row], columns["tgt_links"][row], strict=True)
        if ("src", place, i) in vectors and ("tgt", place, j) in vectors
    ]
    about = {
        word: {spelt[word]} | {spelt[other] for link in links if word in link for other in link}
        for word in vectors
    }
    total = 0.0
    for link in links:
        mine = {spelt[link[0]], spelt[link[1]]}
        for word, gold in (link, link[::-1]):
            others = [w for w in vectors if w not in link or w == word]
            others = [w for w in others if (w != word if options.strong else w[0] == gold[0])]
            others = [w for w in others if not (options.mask_same_type and about[w] & mine)]
            for k in range(len(options.layers)):
                scores = [float(vectors[word][k] @ vectors[w][k]) / 0.1 for w in [gold, *others]]
                total -= scores[0] - log(sum(exp(score) for score in scores))
    return total / (2 * len(links) * len(options.layers))


@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_the_loss_from_its_definition_in_micro_batches_too(
    name, encoder, tmp_path
):
    columns, rows = toy_rows(5), [4, 0, 1, 3]
    objective = made(encoder, columns, tmp_path, CASES[name])
    losses, gradients = zip(
        *(in_micro_batches(objective, rows, micro) for micro in (4, 3, 1)), strict=True
    )
    assert losses[0] == pytest.approx(slow_loss(objective, columns, rows, 64), rel=1e-9)
    assert list(losses[1:]) == pytest.approx([losses[0]] * 2, rel=1e-9)
    assert all(
        torch.allclose(gradient, gradients[0], rtol=1e-8, atol=1e-10) for gradient in gradients[1:]
    )
    assert gradients[0].abs().max() > 1e-3


def test_words_beyond_the_length_that_is_read_are_no_candidates(encoder, tmp_path):
    columns, rows = toy_rows(6), [5, 2, 0, 3]
    objective = made(encoder, columns, tmp_path, replace(OPTIONS, projector_size=None), length=5)
    # Cutting a row changes its states, so the reference reads sentences that are cut, and links
    # between what is left.
    cut = {
        **columns,
        "src": [row[:3] for row in columns["src"]],
        "tgt": [row[:3] for row in columns["tgt"]],
    }
    whole = [
        row
        for row in rows
        if all(
            encoder.tokenizer.tokenize(word) == [word]
            for side in ("src", "tgt")
            for word in cut[side][row]
        )
    ]
    assert len(whole) >= 2
    step = Step(0, 0, np.array(whole), micro=4)
    assert objective.counts(step.rows).tolist() == [
        len(cut["src"][row]) + len(cut["tgt"][row]) for row in whole
    ]
    assert objective.loss(step, np.arange(len(whole))).item() == pytest.approx(
        slow_loss(objective, cut, whole, 64), rel=1e-9
    )


def test_a_batch_without_links_has_no_contrast(encoder, tmp_path):
    columns = toy_rows(3)
    columns["src_links"][1], columns["tgt_links"][1] = [], []
    objective = made(encoder, columns, tmp_path, OPTIONS)
    for micro in (2, 1):
        step = Step(0, 0, np.array([1, 1]), micro=micro)
        objective.begin(step)
        loss = objective.loss(step, np.arange(micro))
        loss.backward()
        assert loss.item() == 0


def test_types_number_a_word_and_its_links_alike(encoder, tmp_path):
    inputs = toy_inputs(tmp_path, 9, ("de", "nl"))
    folders = [inputs.pairs["de"], inputs.pairs["nl"]]
    rows = read_word_rows(encoder, folders, 64, drop_identical=True)
    owners = np.repeat(np.arange(len(rows)), np.diff(rows.link_offsets))
    sides = (
        (rows.src, rows.link_src, rows.src_types, "src"),
        (rows.tgt, rows.link_tgt, rows.tgt_types, "tgt"),
    )
    for types, (side, words, of_links, name) in zip(rows.word_types, sides, strict=True):
        assert types[side.word_offsets[owners] + words].tolist() == of_links.tolist()
        spelt = [
            (lang * (name == "src"), word)
            for lang, folder in enumerate(folders)
            for sentence in read_pairs(folder).column(name).to_pylist()
            for word in sentence
        ]
        assert len(types) == side.word_offsets[-1] == len(spelt)
        assert len(set(zip(types.tolist(), spelt, strict=True))) == len(set(spelt))
        assert len(set(types.tolist())) == len(set(spelt))


def test_all_words_make_the_first_loss_larger_and_train(tmp_path):
    def notes(**params: object) -> dict:
        options = {
            "learning_rate": 2e-3,
            "epochs": 3,
            "warmup": 0,
            "batch_size": 12,
            "dropout": False,
            **params,
        }
        method = StrongContrastive(StrongContrastive.Params.model_validate(options))
        return dict(
            method.align(
                toy_encoder(tmp_path / "encoder"), toy_inputs(tmp_path), Runtime(seed=0)
            ).notes
        )

    linked, every = notes(same_type="keep"), notes(same_type="keep", negatives="all")
    assert every["first_loss"] > linked["first_loss"]
    assert every["last_loss"] < every["first_loss"]
    assert notes(negatives="linked") == notes()
