"""Losses over a whole batch: the contrasts of words, and what any such objective does."""

from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from torch import nn

from raxalign.errors import DataError
from raxalign.methods.families.contrast import (
    Contrast,
    WholeBatch,
    WordContrast,
    contrastive_loss,
    parameter_distance,
    word_contrastive_loss,
)
from raxalign.methods.families.rows import Bitexts
from raxalign.pairing.build import WordPairs
from raxalign.train.objective import Step
from tests.methods.contract import POOLS, in_micro_batches, resolved
from tests.methods.toy import columns_of, toy_encoder, toy_inputs, toy_rows, write_pairs

# Unit vectors (lengths are normalised away): cosines s1·t1 = 1, s1·t2 = 0.6, s2·t1 = 0, s2·t2 =
# 0.8, s1·s2 = 0, t1·t2 = 0.6.
SRC = torch.tensor([[2.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
TGT = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
# Unit vectors of s1, s2, t1, t2, t3, of which s1-t1 is the only link: s1·t1 = 0.6, s1·t2 = 0, s1·t3
# = 0.8, s1·s2 = 0, t1·t2 = 0.8, t1·t3 = 0, t1·s2 = 0.8 (of t3 the length is not 1, and the sign of
# its second part is not t1's).
WORDS = torch.tensor(
    [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.0, 1.0], [1.6, -1.2]], dtype=torch.float64
)
ONE_LINK = (torch.tensor([True, True, False, False, False]), torch.tensor([0]), torch.tensor([2]))
TAU = 0.5


def nll(gold, *others, tau=TAU):
    """-log softmax at a temperature."""
    return -log(exp(gold / tau) / sum(exp(value / tau) for value in (gold, *others)))


def test_candidates_are_the_linked_words_of_the_other_side_or_of_both_without_the_word_itself():
    weak = nll(1, 0.6) + nll(0.8, 0) + nll(1, 0) + nll(0.8, 0.6)
    strong = nll(1, 0.6, 0) + nll(0.8, 0, 0) + nll(1, 0, 0.6) + nll(0.8, 0.6, 0.6)
    for is_strong, expected in ((False, weak), (True, strong)):
        found = contrastive_loss(SRC, TGT, temperature=TAU, strong=is_strong)
        assert found.item() == pytest.approx(expected / 4, abs=1e-12)
        assert contrastive_loss(SRC[:1], TGT[1:], temperature=TAU, strong=is_strong).item() == 0


def test_words_without_a_link_are_negatives_of_those_that_have_one():
    weak = (nll(0.6, 0, 0.8) + nll(0.6, 0.8)) / 2
    strong = (nll(0.6, 0, 0.8, 0) + nll(0.6, 0.8, 0.8, 0)) / 2
    for expected, is_strong in ((weak, False), (strong, True)):
        found = word_contrastive_loss(WORDS, *ONE_LINK, temperature=TAU, strong=is_strong)
        assert found.item() == pytest.approx(expected, abs=1e-12)


def test_the_regulariser_is_the_norm_and_its_gradient_the_direction():
    weights = [torch.tensor(v).double().requires_grad_() for v in ([3.0, 1.0], [[5.0]])]
    origins = [torch.tensor(v).double() for v in ([0.0, 1.0], [[1.0]])]
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
    assert torch.equal(weights.grad, torch.zeros(3))


SMALL = {"layers": "1-2", "lambda": 0.5, "temperature": 0.1}
LINKED = resolved("strong_contrastive", **SMALL)
ALL = LINKED | {"negatives": "all", "pooling": "first", "lambda": 0.0, "projector_bias": False}
CASES = {
    "strong": (LINKED, True),
    "weak": (LINKED, False),
    "means": (LINKED | {"pooling": "mean"}, True),
    "no-bias": (LINKED | {"projector_bias": False}, True),
    "no-regulariser": (LINKED | {"regularizer": "none", "pooling": "first"}, True),
    "duplicates-kept": (LINKED | {"same_type": "keep", "layers": "2", "pooling": "sum"}, True),
    "all-strong": (ALL, True),
    "all-weak": (ALL, False),
    "all-types-kept": (ALL | {"same_type": "keep"}, True),
    "all-means": (ALL | {"pooling": "mean", "layers": "2"}, True),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    encoder = toy_encoder(tmp_path_factory.mktemp("encoder"))
    encoder.model.double()
    return encoder


def made(encoder, columns, folder, options, *, strong=True, length=64):
    folders = {"de": write_pairs(folder / "pairs", columns)}
    corpus = Bitexts.read_words(encoder, folders, "en", length)
    torch.manual_seed(0)
    kind = WordContrast if options.get("negatives") == "all" else Contrast
    objective = kind(encoder, corpus, options, strong=strong)
    for origin in objective.origins:
        origin += 0.01
    return objective


def word_vectors(objective, columns, rows):
    """(side, place in `rows`, number) of each word that is read -> its unit vectors by layer."""
    encoder, options, found = objective.encoder, objective.options, {}
    for side in ("src", "tgt"):
        for place, row in enumerate(rows):
            batch = encoder.collate(encoder.pieces([columns[side][row]], "x"))
            states = encoder.hidden(batch)
            for number in range(len(columns[side][row])):
                where = batch.words_BT[0] == number
                parts = [POOLS[options["pooling"]](states[k][0][where]) for k in objective.layers]
                first, _, second = objective.projector
                bias = second.bias if options["projector_bias"] else 0
                parts = [second.weight @ torch.relu(first.weight @ v) + bias for v in parts]
                found[side, place, number] = [(v / v.norm()).detach() for v in parts]
    return found


def slow_loss(objective, columns, rows):
    """The loss from its definition: a word at a time. A word is (side, place in `rows`, number)."""
    options, vectors = objective.options, word_vectors(objective, columns, rows)
    spelt = {word: (word[0], columns[word[0]][rows[word[1]]][word[2]]) for word in vectors}
    links = [
        (("src", place, i), ("tgt", place, j))
        for place, row in enumerate(rows)
        for i, j in zip(columns["src_links"][row], columns["tgt_links"][row], strict=True)
    ]
    about = {word: {spelt[w] for link in links if word in link for w in link} for word in vectors}
    total = 0.0
    for link in links:
        types = {spelt[word] for word in link}
        for word, gold in (link, link[::-1]):
            if options.get("negatives") == "all":
                others = [w for w in vectors if w not in link]
                hidden = {w for w in others if (about[w] | {spelt[w]}) & types}
            else:
                ends = [(w, other) for other in links for w in other if other != link]
                others = [w for w, _ in ends]
                hidden = {w for w, other in ends if {spelt[v] for v in other} & types}
            others = [w for w in others if objective.strong or w[0] == gold[0]]
            if options["same_type"] == "mask":
                others = [w for w in others if w not in hidden]
            for k in range(len(objective.layers)):
                scores = [float(vectors[word][k] @ vectors[w][k]) for w in (gold, *others)]
                total += nll(*scores, tau=0.1)
    gaps = zip(objective.trained, objective.origins, strict=True)
    distance = sqrt(sum(float((p - o).detach().pow(2).sum()) for p, o in gaps))
    return total / (2 * len(links) * len(objective.layers)) + options["lambda"] * distance


@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_the_loss_from_its_definition_in_micro_batches_too(
    name, encoder, tmp_path
):
    columns, rows, (options, strong) = toy_rows(5), [4, 0, 1, 3], CASES[name]
    objective = made(encoder, columns, tmp_path, options, strong=strong)
    sizes = (4, 3, 1)
    losses, gradients = zip(*(in_micro_batches(objective, rows, n) for n in sizes), strict=True)
    assert losses[0] == pytest.approx(slow_loss(objective, columns, rows), rel=1e-9)
    assert list(losses[1:]) == pytest.approx([losses[0]] * 2, rel=1e-9)
    for gradient in gradients[1:]:
        assert torch.allclose(gradient, gradients[0], rtol=1e-8, atol=1e-10)
    assert gradients[0].abs().max() > 1e-3


@pytest.mark.parametrize("options", [LINKED, ALL])
def test_a_batch_without_links_has_no_contrast(options, encoder, tmp_path):
    columns = toy_rows(3)
    columns["src_links"][1], columns["tgt_links"][1] = [], []
    objective = made(encoder, columns, tmp_path, options | {"regularizer": "none"})
    for micro in (2, 1):
        step = Step(0, 0, np.array([1, 1]), micro=micro)
        objective.begin(step)
        loss = objective.loss(step, np.arange(micro))
        loss.backward()
        assert loss.item() == 0


def test_words_beyond_the_length_that_is_read_are_no_candidates(encoder, tmp_path):
    columns, rows = toy_rows(6), [5, 2, 0, 3]
    objective = made(encoder, columns, tmp_path, ALL, length=5)
    # Cutting a row changes its states, so the reference reads sentences that are cut, and links
    # between what is left.
    cut = {side: [row[:3] for row in columns[side]] for side in ("src", "tgt")}
    links = zip(columns["src_links"], columns["tgt_links"], strict=True)
    left = [[link for link in zip(*row, strict=True) if max(link) < 3] for row in links]
    cut = columns_of(**cut, links=left)
    read = encoder.tokenizer.tokenize
    whole = [r for r in rows if all(read(w) == [w] for w in (*cut["src"][r], *cut["tgt"][r]))]
    assert len(whole) >= 2
    step = Step(0, 0, np.array(whole), micro=4)
    sizes = [len(cut["src"][row]) + len(cut["tgt"][row]) for row in whole]
    assert objective.counts(step.rows).tolist() == sizes
    found = objective.loss(step, np.arange(len(whole))).item()
    assert found == pytest.approx(slow_loss(objective, cut, whole), rel=1e-9)


def rows_of(encoder, root):
    one = columns_of([["haus", "rot"], ["haus"]], [["house", "rot"], ["dog"]])
    two = columns_of([["alt", "haus"]], [["dog", "house"]])
    folders = {k: write_pairs(root / k, part) for k, part in (("de", one), ("nl", two))}
    return Bitexts.read_words(encoder, folders, "en", 64)


def test_words_spelt_the_same_are_dropped_and_counted(encoder, tmp_path):
    dropped = rows_of(encoder, tmp_path)
    assert (dropped.dropped, dropped.links.offsets.tolist()) == (1, [0, 1, 2, 4])
    assert dropped.links.src.tolist() == [0, 0, 0, 1]


def test_rows_of_several_languages_are_those_of_each_and_each_word_has_its_type(encoder, tmp_path):
    folders = toy_inputs(tmp_path, 9, ("de", "nl")).pairs
    both, *each = (
        Bitexts.read_words(encoder, part, "en", 64)
        for part in (folders, {"de": folders["de"]}, {"nl": folders["nl"]})
    )
    for name in ("src_P", "tgt_P"):
        ids = [r.sentences.single_rows(getattr(r, name)).ids.tolist() for r in (both, *each)]
        assert ids[0] == ids[1] + ids[2]
    counts = [np.diff(rows.links.offsets).tolist() for rows in (both, *each)]
    assert counts[0] == counts[1] + counts[2]
    spelt = [
        (lang if side == "src" else "en", word)
        for lang, folder in folders.items()
        for side in ("src", "tgt")
        for sentence in WordPairs.read(folder).table.column(side).to_pylist()
        for word in sentence
    ]
    assert len(both.types) == both.sentences.word_offsets[-1] == len(spelt)
    pairs = set(zip(both.types.tolist(), spelt, strict=True))
    assert len(pairs) == len(set(spelt)) == len(set(both.types.tolist()))


def test_nothing_to_learn_from_is_an_error(encoder, tmp_path):
    folders = {"de": write_pairs(tmp_path / "pairs", columns_of([["rot"]], [["rot"]]))}
    with pytest.raises(DataError, match="no word pair to learn from \\(1 were dropped"):
        Bitexts.read_words(encoder, folders, "en", 64)
    empty = {"de": write_pairs(tmp_path / "empty", {name: [] for name in toy_rows(0)})}
    with pytest.raises(DataError, match="the dataset has no sentence pairs"):
        Bitexts.read_words(encoder, empty, "en", 64)


def test_sentences_are_told_apart_as_wholes(encoder, tmp_path):
    src, tgt = [["haus"], ["haus", "rot"], ["haus"], ["rot"]], [["dog"], ["dog"], ["tree"], ["old"]]
    folders = {"de": write_pairs(tmp_path / "pairs", columns_of(src, tgt, [[]] * 4))}
    types = Bitexts.read_sentences(encoder, folders, "en", 64).types.tolist()
    assert [types.index(number) for number in types] == [0, 1, 0, 3, 4, 4, 6, 7]


BATCH = np.array([5, 0, 3, 6, 1, 2])
N_ITEMS = np.array([2, 0, 1, 3, 1, 2, 1])
"""Items of the rows 0 to 6: some have none."""


class Toy(WholeBatch):
    """Items are inputs through two layers with dropout between; the loss joins all of them, and
    weights are regularised.
    """

    shape = (2, 3)

    def __init__(self):
        torch.manual_seed(0)
        layers = nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 6)
        self.module = nn.Sequential(*layers).double()
        self.offsets = np.concatenate([[0], np.cumsum(N_ITEMS)])
        self.inputs = torch.randn(int(self.offsets[-1]), 4, dtype=torch.float64)

    def counts(self, rows):
        return N_ITEMS[rows]

    def vectors(self, rows):
        items = [i for row in rows for i in range(self.offsets[row], self.offsets[row + 1])]
        return self.module(self.inputs[items]).view(-1, 2, 3)

    def batch_loss(self, rows, vectors):
        assert len(vectors) == N_ITEMS[rows].sum()
        left, right = vectors.unbind(1)
        return nn.functional.cross_entropy(left @ right.T, torch.arange(len(left)))

    def extra(self):
        return sum(p.pow(2).sum() for p in self.module.parameters())


@pytest.fixture
def objective():
    toy = Toy()
    toy.module.eval()
    return toy


def test_dropout_is_the_same_in_both_passes(objective):
    objective.module.train()
    step = Step(3, 0, BATCH, seed=1, micro=2)
    objective.begin(step)
    gathered = objective._begun[1].clone()
    seen = []
    plain = objective.vectors
    objective.vectors = lambda rows: seen.append(plain(rows)) or seen[-1]
    for start in (0, 2, 4):
        torch.manual_seed(start)  # whatever state the generator is in
        objective.loss(step, np.arange(6)[start : start + 2])
    assert torch.equal(torch.cat(seen), gathered)
    objective.module.eval()
    assert not torch.allclose(plain(BATCH), gathered)


def test_a_batch_in_which_memory_ran_out_is_begun_anew_with_smaller_micro_batches(objective):
    whole, gradient = in_micro_batches(objective, BATCH.tolist(), 6)
    objective.begin(Step(0, 0, BATCH, micro=4))
    parts, same = in_micro_batches(objective, BATCH.tolist(), 2)
    assert parts == pytest.approx(whole, rel=1e-12)
    assert torch.allclose(gradient, same, rtol=1e-12, atol=1e-14)
