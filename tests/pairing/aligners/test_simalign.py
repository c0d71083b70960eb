"""SimAlign: links from similarities that are small enough to solve by hand, and from an encoder."""

import math
import random
from copy import deepcopy

import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.simalign import SimAlign, cosine_similarities, extract
from raxalign.pairing.links import HEURISTICS, Links
from tests.tiny import tiny_bert

WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tiny_bert(tmp_path_factory.mktemp("encoder"), WORDS, layers=2, positions=40)
    return TransformerEncoder.from_folder(folder)


def align(src, tgt, encoder, tmp_path, langs=("de", "en"), **params):
    options = {"encoder": "tiny", "layer": "0", **params}
    inputs = AlignerInputs(range(len(src)), None, {}, tmp_path, 1, True, *langs, encoder)
    return SimAlign(SimAlign.Params(**options)).align(src, tgt, inputs)


def shuffled(n=20, seed=0):
    """Sentences and the same words in another order, with the links between equal words."""
    draw = random.Random(seed)
    src, tgt, gold = [], [], []
    for _ in range(n):
        words = draw.sample(WORDS, draw.randint(1, 12))
        order = draw.sample(range(len(words)), len(words))
        src.append(words)
        tgt.append([words[i] for i in order])
        gold.append({(i, position) for position, i in enumerate(order)})
    return src, tgt, gold


@pytest.mark.parametrize(
    ("method", "layer"), [("argmax", "0"), ("itermax", "last"), ("match", "last")]
)
def test_equal_words_are_linked_whatever_their_order(method, layer, encoder, tmp_path):
    encoder = deepcopy(encoder)
    torch.nn.init.zeros_(encoder.model.bert.embeddings.position_embeddings.weight)
    src, tgt, gold = shuffled()
    found, _ = align(src, tgt, encoder, tmp_path, method=method, layer=layer)
    assert [found.pair(i) for i in range(len(found))] == gold


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
def test_batches_of_any_size_give_the_links_of_single_pairs(method, encoder, tmp_path, monkeypatch):
    src, tgt, _ = shuffled(4)
    tgt = [[*words, "w0"] for words in tgt[2:]] + tgt[:2]  # pairs of different lengths
    params = {"layer": "last", "method": method}
    pairs = zip(src, tgt, strict=True)
    alone = [align([s], [t], encoder, tmp_path, **params)[0].pair(0) for s, t in pairs]
    for size in (1, 40 * 32 * 4):
        monkeypatch.setattr("raxalign.pairing.aligners.simalign._VECTOR_BYTES", size)
        found, _ = align(src, tgt, encoder, tmp_path, **params)
        assert [found.pair(i) for i in range(len(found))] == alone


def test_links_have_no_direction(encoder, tmp_path):
    src, tgt, _ = shuffled(10)
    sides = align(src, tgt, encoder, tmp_path, layer="last")
    found = {Links.symmetrized(*sides, heuristic).digest() for heuristic in HEURISTICS}
    assert found == {sides[0].digest()}


def test_words_beyond_the_encoders_positions_have_no_links(encoder, tmp_path):
    long = [WORDS[i % 30] for i in range(60)]
    found, _ = align([long], [long], encoder, tmp_path, layer="0")
    assert found.pair(0)
    assert max(max(link) for link in found.pair(0)) < encoder.max_positions
    assert len(align([], [], encoder, tmp_path)[0]) == 0
    with pytest.raises(RaxalignError, match="no encoder was loaded"):
        align([["a"]], [["b"]], None, tmp_path)


def test_a_layer_that_the_encoder_does_not_have_is_refused_before_it_is_loaded():
    aligner = SimAlign(SimAlign.Params(encoder="some/encoder"))
    assert aligner.check_encoder(12) == []
    assert aligner.check_encoder(None) == []
    (told,) = aligner.check_encoder(4)
    layers = "layers '8': this encoder has the layers 0 (embeddings) to 4; choose one of them"
    assert told == f"layer: some/encoder: {layers}"


def test_given_words_may_be_read_one_by_one(tmp_path):
    folder = tiny_bert(tmp_path / "encoder", ["とうきょう", "とう", "きょう"], layers=2)
    encoder = TransformerEncoder.from_folder(folder)
    words, langs = [["とう", "きょう"]], ("ja", "zh")
    joined, _ = align(words, words, encoder, tmp_path, langs)
    apart, _ = align(words, words, encoder, tmp_path, langs, spacing="blanks")
    assert apart.pair(0) == {(0, 0), (1, 1)}
    assert joined.pair(0) != apart.pair(0)  # one piece is the vector of both words


# Row 0 and column 0 choose each other. Rows 1 and 2 both choose column 0; column 1 chooses row 0,
# column 2 chooses row 2.
SIMILARITIES = [[0.90, 0.80, 0.10], [0.70, 0.60, 0.20], [0.72, 0.30, 0.50]]


def links(matrix, extraction, padding=0):
    """The links of one matrix, alone or in a larger batch that is filled up."""
    S, T = len(matrix), len(matrix[0])
    batch = torch.full((2, S + padding, T + padding), -torch.inf)
    batch[0, :S, :T] = torch.tensor(matrix)
    batch[1, 0, 0] = 0.5
    found = extract(batch, extraction)
    assert found[1].nonzero().tolist() == [[0, 0]], "the other sentence pair has its own link"
    return {tuple(link) for link in found[0].nonzero().tolist()}


@pytest.mark.parametrize("padding", [0, 2])
def test_links_by_hand(padding):
    """By argmax words that choose each other are linked. Itermax makes a second pass: row 0 and
    column 0 times 0.9, their own cell left out.

      -    0.72  0.09    row 0 chooses column 1, row 1 column 0 (0.63 over 0.60),
     0.63  0.60  0.20    row 2 column 0 (0.648); column 0 chooses row 2, column 1 row 0,
     0.648 0.30  0.50    column 2 row 2.

    Match takes the largest sum: 0.90 + 0.60 + 0.50 = 2.00; the next best, 0.80 + 0.70 + 0.50, is
    2.00 too but for 0.001.
    """
    assert links(SIMILARITIES, "argmax", padding) == {(0, 0)}
    assert links(SIMILARITIES, "itermax", padding) == {(0, 0), (0, 1), (2, 0)}
    matrix = [[0.90, 0.80, 0.10], [0.701, 0.60, 0.20], [0.72, 0.30, 0.50]]
    assert links(matrix, "match", padding) == {(0, 1), (1, 0), (2, 2)}


def test_itermax_prefers_a_free_word_to_a_linked_one_that_is_hardly_nearer():
    # 0.62 * 0.9 = 0.558 is below 0.60: row 1 goes to column 1. Without the factor it would not.
    matrix = [[0.90, 0.50, 0.10], [0.62, 0.60, 0.20], [0.10, 0.20, 0.30]]
    assert links(matrix, "argmax") == {(0, 0), (1, 1), (2, 2)} - {(1, 1)}
    assert links(matrix, "itermax") == {(0, 0), (1, 1), (2, 2)}


def test_match_gives_every_word_of_the_shorter_sentence_one_link():
    assert links([[0.9, 0.8, 0.7]], "match") == {(0, 0)}
    assert links([[0.9], [0.95], [0.1]], "match") == {(1, 0)}


@pytest.mark.parametrize("extraction", ["argmax", "itermax", "match"])
def test_a_word_without_a_vector_has_no_link(extraction):
    missing = [[0.9, -math.inf, 0.1], [-math.inf] * 3, [0.2, -math.inf, 0.8]]
    assert links(missing, extraction) == {(0, 0), (2, 2)}
    assert links([[-math.inf]], extraction) == set()


def test_similarities_run_from_zero_to_one_and_leave_zero_vectors_out():
    src = torch.tensor([[[2.0, 0.0], [0.0, 0.0]]])
    tgt = torch.tensor([[[3.0, 0.0], [-1.0, 0.0], [0.0, 5.0]]])
    assert cosine_similarities(src, tgt)[0].tolist() == [[1.0, 0.0, 0.5], [-math.inf] * 3]
