"""What holds for every method of the catalogue: a new file is tested by existing."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import Method
from raxalign.train.runtime import Runtime
from tests.host_reads import host_reads
from tests.methods.contract import (
    LANGUAGES,
    SIZE,
    TRANSFORMER_METHODS,
    asked_for,
    divided,
    losses,
    make,
    train,
    trained,
    vectors,
    weights,
    work,
)
from tests.methods.planted import TableEncoder, normal, planted_inputs
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.workers import run_workers


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, 12, LANGUAGES)
    return folder


def with_seed(kind, root, seed):
    method = make(kind, root)
    return method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=seed))


@pytest.fixture(scope="module")
def made_once(root):
    """What each method made with the seed 1, and what its steps read, for several tests."""

    def made(kind):
        with host_reads() as steps:
            return with_seed(kind, root, 1), steps

    return cache(made)


@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_aligned_with_what_it_asked_for_saved_and_loaded_it_gives_the_same_vectors(
    kind, root, tmp_path, made_once
):
    method, (aligned, _) = make(kind, root), made_once(kind)
    assert (aligned.weights_changed, aligned.inside_depth() > 0) == (
        method.effect().weights,
        method.effect().inside,
    )
    assert any(t.lang == "en" for t in aligned.transforms) <= method.effect().pivot
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    aligned.save(tmp_path)
    loaded = AlignedEncoder.load(tmp_path, lambda: toy_encoder(root / "encoder"))
    assert torch.equal(vectors(loaded), found)


@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_one_seed_gives_one_result_and_without_chance_every_seed_does(kind, root, made_once):
    first = vectors(made_once(kind)[0])
    again, other = (vectors(with_seed(kind, root, seed)) for seed in (1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) is not make(kind, root).has_chance()


@pytest.mark.parametrize("kind", trained())
def test_no_step_after_the_first_one_waits_for_the_device(kind, made_once):
    _, steps = made_once(kind)
    assert len(steps) > 1
    assert [name for found in steps[1:] for name in found] == []


@pytest.mark.parametrize("kind", ["strong_contrastive", "tlm"])
def test_without_dropout_new_weights_and_the_order_of_rows_are_chance(kind, root):
    first, again, other = (
        weights(train(kind, root, languages=LANGUAGES, seed=seed, dropout=False, epochs=1, steps=2))
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.slow
def test_two_workers_have_the_losses_and_the_vectors_of_one_also_with_dropout(tmp_path):
    """Dropout draws by the shares of a batch, whichever worker computes them; other shares are
    other masks.
    """
    inputs = tmp_path / "inputs"
    toy_encoder(inputs / "encoder")
    toy_inputs(inputs, SIZE, LANGUAGES)
    run_workers(work, 2, tmp_path)
    different = {}
    drawn: dict[str, set[float]] = {}
    for kind, shares in divided():
        expected, after = losses(kind, inputs, Runtime(seed=3, shares=shares))
        found = json.loads((tmp_path / f"{kind}-{shares}.json").read_text())
        assert len(expected) > 1, kind
        drawn.setdefault(kind, set()).add(expected[-1])
        if found["losses"] != pytest.approx(expected, rel=1e-5) or not torch.allclose(
            torch.tensor(found["vectors"]), after, atol=1e-4
        ):
            different[kind, shares] = [
                found["losses"],
                expected,
                float((torch.tensor(found["vectors"]) - after).abs().max()),
            ]
    assert not different
    assert {k: len(values) for k, values in drawn.items()} == Counter(k for k, _ in divided())


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
    "leace": ("leace", {"layers": "1-2"}),
    "sentence_shift": ("sentence_shift", {"layers": "1-2"}),
    "lir": ("lir", {"layers": "1-2", "rank": 2}),
}


def variant(name, **more):
    kind, params = VARIANTS[name]
    plugin = catalog("methods")[kind]
    method: Method = plugin(plugin.Params.model_validate({**params, **more}))
    return method


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    torch.set_num_threads(1)
    return toy_encoder(tmp_path_factory.mktemp("encoder"), hidden=16)


@pytest.fixture(scope="module")
def transformed(small, tmp_path_factory):
    inputs = toy_inputs(tmp_path_factory.mktemp("inputs"), 60)
    return {name: variant(name).align(small, inputs, Runtime()).toward("de") for name in VARIANTS}


@pytest.mark.parametrize("name", VARIANTS)
def test_in_a_row_of_two_languages_each_piece_is_transformed_by_its_own(name, small, transformed):
    """[CLS] is the first sentence's; what is not transformed stays bit for bit."""
    batch = small.collate(small.pieces([["haus", "rot"]], "de", [["house", "red", "old"]], "en"))
    plain, found = small.hidden(batch), transformed[name].hidden(batch)
    assert torch.equal(found[0], plain[0])
    moved = set()
    for layer in (1, 2):
        for lang, pieces in (("de", slice(0, 4)), ("en", slice(4, 8))):
            expected = plain[layer][0, pieces]
            for transform in transformed[name].transforms:
                if (transform.lang, transform.layer) == (lang, layer):
                    expected = transform(expected)
                    moved.add(lang)
            assert torch.allclose(found[layer][0, pieces], expected, atol=1e-5)
            assert torch.equal(found[layer][0, pieces], plain[layer][0, pieces]) is (
                lang not in moved
            )
    assert "en" not in moved or variant(name).effect().pivot


@pytest.mark.parametrize("name", VARIANTS)
def test_static_vectors_are_transformed_too(name, tmp_path):
    """Layer 0 is the last one of a static encoder; every language's vectors stay finite, and some
    of them move.
    """
    tables = {
        "de": normal(30, 4, dtype=torch.float32) + 1,
        "en": normal(30, 4, seed=1, dtype=torch.float32),
    }
    method = variant(name, layers="last")
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
