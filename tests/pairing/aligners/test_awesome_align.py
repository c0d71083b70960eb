"""awesome-align: probabilities by hand and by another way to compute them, links of pieces."""

import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.awesome_align import AwesomeAlign, entmax, linked
from raxalign.pairing.aligners.base import AlignerInputs
from tests.tiny import tiny_bert

WORDS = ["ein", "rot", "##es", "haus", "a", "red", "house"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tiny_bert(tmp_path_factory.mktemp("encoder"), WORDS, layers=2, positions=40)
    return TransformerEncoder.from_folder(folder)


def align(src, tgt, encoder, tmp_path, **params):
    options = {"encoder": "tiny", "layer": "1", **params}
    inputs = AlignerInputs(range(len(src)), None, {}, tmp_path, 1, True, "de", "en", encoder)
    found, _ = AwesomeAlign(AwesomeAlign.Params(**options)).align(src, tgt, inputs)
    return [found.pair(i) for i in range(len(found))]


def by_bisection(scores):
    """Entmax by halving the interval of its threshold."""
    z = scores.double() / 2
    low, high = z.max() - 1, z.max()
    for _ in range(80):
        middle = (low + high) / 2
        above = (z - middle).clamp(min=0).square().sum() > 1
        low, high = (middle, high) if above else (low, middle)
    return (z - low).clamp(min=0).square()


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_entmax_is_what_bisection_finds_and_scores_far_below_have_no_part(scale):
    scores = scale * torch.randn(6, 9, generator=torch.Generator().manual_seed(3))
    scores[2, 1:] = -1e30
    for row, found in zip(scores, entmax(scores, 1), strict=True):
        assert torch.allclose(found.double(), by_bisection(row), atol=1e-5)
    assert torch.equal(entmax(scores.T, 0).T, entmax(scores, 1))
    assert entmax(scores, 1)[2].tolist() == [1.0] + [0.0] * 8
    # z is (0, -1/2): (1 - τ)² + (1/2 - τ)² = 1 has τ = (3 - √7) / 4 below z + 1
    assert entmax(torch.tensor([2.0, 1.0]), 0).tolist() == pytest.approx([0.8307, 0.1693], abs=1e-4)


def test_both_probabilities_must_exceed_the_threshold_and_masked_pieces_have_none():
    """Softmax over (2, 0) is (.88, .12), over (2, 2) it is (.5, .5)."""
    similarities = torch.tensor([[[2.0, 0.0, -torch.inf], [2.0, -2.0, -torch.inf]]])
    assert linked(similarities, "softmax", 0.4)[0].nonzero().tolist() == [[0, 0], [1, 0]]
    assert linked(similarities, "softmax", 0.1)[0, :, 1].tolist() == [True, False]
    assert not linked(torch.full((1, 2, 3), -torch.inf), "entmax", 0.0).any()


@pytest.mark.parametrize("extraction", ["softmax", "entmax"])
def test_words_are_linked_by_the_pieces_of_each_as_the_printed_formulas_say(
    extraction, encoder, tmp_path
):
    src, tgt = [["ein", "rotes", "haus"], ["haus"]], [["a", "red", "house"], ["red", "house"]]
    found = align(src, tgt, encoder, tmp_path, extraction=extraction, threshold=0.24)
    words = ([[0, 1, 1, 2], [0]], [[0, 1, 2], [0, 1]])  # of each piece between [CLS] and [SEP]
    for i in range(2):
        states = []
        for side, lang in ((src, "de"), (tgt, "en")):
            batch = encoder.collate(encoder.pieces(side[i : i + 1], lang))
            states.append(encoder.hidden(batch)[1][0, 1:-1])
        product = states[0] @ states[1].T
        way = torch.softmax if extraction == "softmax" else entmax
        both = (way(product, 1) > 0.24) & (way(product, 0) > 0.24)
        expected = {(words[0][i][s], words[1][i][t]) for s, t in both.nonzero().tolist()}
        assert found[i] == expected
    assert found[0]


def test_links_do_not_depend_on_the_other_sentence_pairs(encoder, tmp_path, monkeypatch):
    src = [["ein", "rotes", "haus"], ["haus"], ["rotes", "rotes", "ein", "haus", "ein"]] * 3
    tgt = [["a", "red", "house"], ["red", "house"], ["a"]] * 3
    alone = [align([s], [t], encoder, tmp_path)[0] for s, t in zip(src, tgt, strict=True)]
    monkeypatch.setattr("raxalign.pairing.aligners.awesome_align.CHUNK", 4)
    assert align(src, tgt, encoder, tmp_path) == alone
    assert align([], [], encoder, tmp_path) == []


def test_an_encoder_without_pieces_and_a_layer_that_is_not_there_are_refused(tmp_path):
    said = "tiny has no subword tokens with states; name a transformer"
    with pytest.raises(RaxalignError, match=said):
        align([["a"]], [["b"]], None, tmp_path)
    aligner = AwesomeAlign(AwesomeAlign.Params(encoder="some/encoder"))
    assert aligner.check_encoder(12) == []
    assert aligner.check_encoder(4)[0].startswith("layer: some/encoder: layers '8': this encoder")
