import copy

import numpy as np
import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import parse_layers
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.finetune import Alignment, alignment_loss
from raxalign.train.objective import Step
from tests.methods.contract import POOLS, resolved
from tests.methods.toy import columns_of, toy_encoder, toy_rows, write_pairs


def test_the_plain_norm_of_equal_vectors_has_no_gradient():
    target, kept, origin = torch.ones(2, 1, 2), torch.zeros(3, 1, 2), torch.ones(3, 1, 2)
    moving = target.clone().requires_grad_()
    ones = {"pair_weights_P": torch.ones(len(moving)), "word_weights_W": torch.ones(len(kept))}
    how = {"reg_weight": 1.0, "norm": "plain", **ones}
    alignment_loss(moving, target, kept, origin, **how).backward()
    assert torch.equal(moving.grad, torch.zeros_like(moving))


PAPER = resolved("finetune", profile="paper", **{"lambda": 0.5})
RELEASED = resolved("finetune", profile="released", **{"lambda": 0.5}) | {"part": 2}
KULSHRESHTHA = {"layers": "1-2", "pooling": "mean", "norm": "plain", "reduction": "mean"}
CASES = {
    "paper": PAPER,
    "released": RELEASED,
    "sane": RELEASED | {"part": 0},
    "kulshreshtha": PAPER | KULSHRESHTHA,
    "to-other": RELEASED | {"direction": "to-other", "pooling": "first"},
    "sums-of-pieces": RELEASED | {"pooling": "sum"},
    "no-regulariser": RELEASED | {"lambda": 0.0},
    "live-alone": PAPER | {"lambda": 0.0},
}


@torch.no_grad()
def slow_loss(live, frozen, columns, rows, options):
    """The loss from its definition: a sentence at a time, a word at a time."""

    def words(encoder, sentence):
        batch = encoder.collate(encoder.pieces([sentence], "x"))
        layers = parse_layers(options["layers"], 2)
        hidden, pool = [encoder.hidden(batch)[k][0] for k in layers], POOLS[options["pooling"]]
        read = [
            torch.stack([pool(layer[batch.words_BT[0] == w]) for layer in hidden])
            for w in range(len(sentence))
        ]
        ends = [torch.stack([layer[place] for layer in hidden]) for place in (0, -1)]
        return [*read, *ends] if options["special_pairs"] else read

    def distance(a, b):
        squares = (a - b).detach().double().pow(2).sum(-1)
        return float(squares.sum() if options["norm"] == "squared" else squares.sqrt().sum())

    mine, held = ("src", "tgt") if options["direction"] == "to-pivot" else ("tgt", "src")
    total, size = 0.0, options["part"] or len(rows)
    for start in range(0, len(rows), size):
        aligned, drifted = [], []
        for row in rows[start : start + size]:
            moving, kept = words(live, columns[mine][row]), words(live, columns[held][row])
            origin = words(frozen, columns[held][row])
            target = kept if options["align_target"] == "live" else origin
            links = (columns[f"{side}_links"][row] for side in (mine, held))
            pairs = list(zip(*links, strict=True))
            # the special pieces are the last two of each side
            pairs += [(-2, -2), (-1, -1)] if options["special_pairs"] else []
            aligned += [distance(moving[i], target[j]) for i, j in pairs]
            drifted += [distance(a, b) for a, b in zip(kept, origin, strict=True)]
        scale = 1 / live.hidden_size if options["norm"] == "squared" else 1.0
        if options["reduction"] == "mean":
            total += scale * (np.mean(aligned) + options["lambda"] * np.mean(drifted))
        else:
            total += sum(aligned) + options["lambda"] * sum(drifted)
    return total


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """A start, and a state that training might reach; in float64."""
    live = toy_encoder(tmp_path_factory.mktemp("encoder"))
    live.model.double()
    frozen = TransformerEncoder(copy.deepcopy(live.model), live.tokenizer)
    with torch.no_grad():
        for parameter in live.model.parameters():
            numbers = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter += 0.05 * torch.sin(numbers).view_as(parameter)
    return live, frozen


@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_the_loss_from_its_definition(name, encoders, tmp_path):
    live, frozen = encoders
    columns, rows = toy_rows(6), [4, 0, 5]
    folders = {"de": write_pairs(tmp_path / "pairs", columns)}
    objective = Alignment(live, frozen, Bitexts.read_linked(live, folders, "en", 64), CASES[name])
    step = Step(0, 0, np.array(rows))
    objective.begin(step)
    loss = objective.loss(step, np.arange(3)).item()
    assert loss == pytest.approx(slow_loss(live, frozen, columns, rows, CASES[name]), rel=1e-9)
    shares = sum(objective.loss(step, np.array(part)).item() for part in ([0, 2], [1]))
    assert shares == pytest.approx(loss, rel=1e-9)


def test_corpora_are_summed_and_the_shorter_one_begins_anew(encoders, tmp_path):
    live, frozen = encoders
    long, short = toy_rows(5, seed=1), toy_rows(3, seed=2)
    folders = {lang: write_pairs(tmp_path / lang, c) for lang, c in (("de", long), ("fr", short))}
    corpora = Bitexts.read_linked(live, folders, "en", 64)
    objective, step = Alignment(live, frozen, corpora, RELEASED), Step(0, 0, np.array([2, 3, 4]))
    objective.begin(step)
    read = ((long, [2, 3, 4]), (short, [2, 0, 1]))
    expected = sum(slow_loss(live, frozen, *corpus, RELEASED) for corpus in read)
    assert objective.loss(step, np.arange(3)).item() == pytest.approx(expected, rel=1e-9)


def test_live_targets_are_drawn_too_and_frozen_ones_are_not(encoders, tmp_path):
    live, frozen = encoders
    rows = Bitexts.read_linked(live, {"de": write_pairs(tmp_path / "p", toy_rows(4))}, "en", 64)
    gradients = []
    for target in ("live", "frozen"):
        objective = Alignment(live, frozen, rows, PAPER | {"align_target": target})
        step = Step(0, 0, np.arange(4))
        objective.begin(step)
        live.model.zero_grad()
        objective.loss(step, np.arange(4)).backward()
        gradients.append(live.model.base_model.embeddings.word_embeddings.weight.grad.clone())
    assert not torch.allclose(*gradients)
    assert all(p.grad is None for p in frozen.model.parameters())


def test_words_that_a_row_has_no_room_for_are_in_no_pair(tmp_path):
    encoder = toy_encoder(tmp_path / "encoder")
    sentences = [["haus", "hund", "katze", "rot"]], [["house", "redhouse", "dog"]]
    columns = columns_of(*sentences, [[(0, 0), (1, 2), (3, 1)]])
    rows = Bitexts.read_linked(encoder, {"de": write_pairs(tmp_path / "p", columns)}, "en", 5)
    # `redhouse` falls into more pieces than there is room for
    assert rows.sentences.count_W.tolist() == [1, 1, 1, 0, 1, 0, 0]
    assert (rows.links.src.tolist(), rows.links.tgt.tolist()) == ([0], [0])
