"""The transforms of every method without training, at use: word vectors, [CLS], token features and
rows of two languages.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.methods.base import Method
from raxalign.train.runtime import Runtime
from tests.methods.planted import TableEncoder, normal, planted_inputs
from tests.methods.toy import toy_encoder, toy_inputs

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotation": ("rotation", {"center": True, "layers": "1-2"}),
    "rotation of the pivot": (
        "rotation",
        {"center": True, "layers": "1-2", "direction": "to-other"},
    ),
    "rotation of unit vectors": ("rotation", {"normalize": "unit-center-unit", "layers": "1-2"}),
    "sentence_rotation": ("sentence_rotation", {"center": True, "layers": "1-2"}),
    "linear": ("linear", {"center": True, "layers": "1-2"}),
    "centering": ("centering", {"layers": "1-2"}),
    "znorm": ("znorm", {"layers": "1-2"}),
    "iterative_normalization": ("iterative_normalization", {"layers": "1-2", "rotate": True}),
    "lsar": ("lsar", {"layers": "1-2"}),
    "lir": ("lir", {"layers": "1-2", "rank": 2}),
    "mean_shift": ("mean_shift", {"layers": "1"}),
}
READOUTS = [name for name in VARIANTS if name != "mean_shift"]


def make(name, **more):
    kind, params = VARIANTS[name]
    plugin = catalog("methods")[kind]
    method: Method = plugin(plugin.Params.model_validate({**params, **more}))
    return method


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return toy_encoder(tmp_path_factory.mktemp("encoder"), hidden=16)


@pytest.fixture(scope="module")
def aligned(encoder, tmp_path_factory):
    inputs = toy_inputs(tmp_path_factory.mktemp("inputs"), 60)
    return {name: make(name).align(encoder, inputs, Runtime()).toward("de") for name in VARIANTS}


@pytest.mark.parametrize("name", READOUTS)
def test_in_a_row_of_two_languages_each_piece_is_transformed_by_its_own(name, encoder, aligned):
    """[CLS] is the first sentence's; what is not transformed stays bit for bit."""
    batch = encoder.collate(
        encoder.pieces([["haus", "rot"]], "de", [["house", "red", "old"]], "en")
    )
    plain, found = encoder.hidden(batch), aligned[name].hidden(batch)
    assert torch.equal(found[0], plain[0])
    moved = set()
    for layer in (1, 2):
        for lang, pieces in (("de", slice(0, 4)), ("en", slice(4, 8))):
            expected = plain[layer][0, pieces]
            for transform in aligned[name].transforms:
                if (transform.lang, transform.layer) == (lang, layer):
                    expected = transform(expected)
                    moved.add(lang)
            assert torch.allclose(found[layer][0, pieces], expected, atol=1e-5)
            assert torch.equal(found[layer][0, pieces], plain[layer][0, pieces]) is (
                lang not in moved
            )
    assert "en" not in moved or make(name).effect().pivot


@pytest.mark.parametrize("name", READOUTS)
def test_static_vectors_are_transformed_too(name, tmp_path):
    """Layer 0 is the last one of a static encoder; every language's vectors stay finite, and some
    of them move.
    """
    tables = {
        "de": normal(30, 4, dtype=torch.float32) + 1,
        "en": normal(30, 4, seed=1, dtype=torch.float32),
    }
    method = make(name, layers="last")
    assert "static" in method.accepts
    found = method.align(TableEncoder(tables), planted_inputs(tmp_path, 30), Runtime()).toward("de")
    moved = {}
    for lang, table in tables.items():
        vectors = found.words([["w0", "w1", "?"]], lang, layers="last").vectors_NLH[:, 0]
        assert vectors.isfinite().all()
        assert not vectors[2].any()
        moved[lang] = not torch.allclose(vectors[:2], table[:2], atol=1e-3)
    assert moved["de"] or moved["en"]
    assert not moved["en"] or method.effect().pivot
