from __future__ import annotations

import random

import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.simalign import SimAlign
from raxalign.pairing.symmetrize import HEURISTICS, symmetrize_links
from tests.tiny import tiny_bert

WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tiny_bert(tmp_path_factory.mktemp("encoder"), WORDS, layers=2, positions=40)
    return TransformerEncoder.from_folder(folder)


def align(src, tgt, encoder, tmp_path, **params):
    options = {"layer": "0", **params}
    inputs = AlignerInputs(
        range(len(src)), None, {}, tmp_path, 1, lang="de", pivot="en", encoder=encoder
    )
    return SimAlign(SimAlign.Params(encoder="tiny", **options)).align(src, tgt, inputs)


def shuffled(n=60, seed=0):
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


def one_by_one(src, tgt, encoder, tmp_path, **params):
    return [
        align([s], [t], encoder, tmp_path, **params)[0].pair(0)
        for s, t in zip(src, tgt, strict=True)
    ]


@pytest.mark.parametrize("layer", ["0", "last"])
@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
def test_equal_words_are_linked_whatever_their_order(method, layer, tmp_path):
    encoder = TransformerEncoder.from_folder(tiny_bert(tmp_path / "encoder", WORDS))
    torch.nn.init.zeros_(encoder.model.bert.embeddings.position_embeddings.weight)
    src, tgt, gold = shuffled()
    found, _ = align(src, tgt, encoder, tmp_path, method=method, layer=layer)
    assert [found.pair(i) for i in range(len(found))] == gold


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
@pytest.mark.parametrize("distortion", [0.0, 0.5])
def test_batches_of_any_size_give_the_links_of_single_pairs(
    method, distortion, encoder, tmp_path, monkeypatch
):
    src, tgt, _ = shuffled(24)
    tgt = [[*words, "w0"] for words in tgt[12:]] + tgt[:12]  # pairs of different lengths
    params = {"layer": "last", "method": method, "distortion": distortion}
    alone = one_by_one(src, tgt, encoder, tmp_path, **params)
    for size in (1, 40 * 32 * 4, 1 << 26):
        monkeypatch.setattr("raxalign.pairing.aligners.simalign._VECTOR_BYTES", size)
        found, _ = align(src, tgt, encoder, tmp_path, **params)
        assert [found.pair(i) for i in range(len(found))] == alone


def test_links_have_no_direction(encoder, tmp_path):
    src, tgt, _ = shuffled(10)
    forward, reverse = align(src, tgt, encoder, tmp_path, layer="last")
    assert {symmetrize_links(forward, reverse, heuristic).digest() for heuristic in HEURISTICS} == {
        forward.digest()
    }


def test_words_beyond_the_encoders_positions_have_no_links(encoder, tmp_path):
    long = [WORDS[i % 30] for i in range(60)]
    found, _ = align([long], [long], encoder, tmp_path, layer="0")
    assert found.pair(0)
    assert max(max(link) for link in found.pair(0)) < encoder.max_positions


def test_no_sentence_pairs_have_no_links(encoder, tmp_path):
    assert len(align([], [], encoder, tmp_path)[0]) == 0


def test_a_layer_that_the_encoder_does_not_have_is_refused_before_it_is_loaded():
    aligner = SimAlign(SimAlign.Params(encoder="some/encoder"))
    assert aligner.check_encoder(12) == []
    assert aligner.check_encoder(None) == []
    assert aligner.check_encoder(4) == [
        "layer: some/encoder: layers '8': this encoder has the layers 0 (embeddings) to 4; choose"
        " one of them"
    ]


def test_without_an_encoder_it_says_so(tmp_path):
    with pytest.raises(RaxalignError, match="no encoder was loaded"):
        align([["a"]], [["b"]], None, tmp_path)


def test_given_words_may_be_read_one_by_one(tmp_path):
    folder = tiny_bert(tmp_path / "encoder", ["とうきょう", "とう", "きょう"], layers=2)
    encoder = TransformerEncoder.from_folder(folder)
    src = tgt = [["とう", "きょう"]]
    options = {"layer": "0", "encoder": "tiny"}
    inputs = AlignerInputs(range(1), None, {}, tmp_path, 1, lang="ja", pivot="zh", encoder=encoder)
    joined, _ = SimAlign(SimAlign.Params(**options)).align(src, tgt, inputs)
    apart, _ = SimAlign(SimAlign.Params(**options, spacing="blanks")).align(src, tgt, inputs)
    assert apart.pair(0) == {(0, 0), (1, 1)}
    assert joined.pair(0) != apart.pair(0)  # one piece is the vector of both words
