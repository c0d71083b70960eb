"""What holds for every method of the catalogue: a new file is tested by existing."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
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
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.workers import run_workers


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, 12, LANGUAGES)
    return folder


PIVOT_TOO: dict[str, tuple[str, dict[str, Any]]] = {
    "rotation of the pivot": ("rotation", {"direction": "to-other"}),
    "rotation of unit vectors": ("rotation", {"normalize": "unit-center-unit"}),
    "normalization that rotates": ("iterative_normalization", {"rotate": True}),
}
"""Options by which methods move the pivot, too."""
ONE_LAYER = {*trained(), "mean_shift", "none"}


def small(name, root):
    """The method; maps and readouts are those of two layers."""
    kind, options = PIVOT_TOO.get(name, (name, {}))
    fitted = {} if kind in ONE_LAYER else {"layers": "1-2", "center": True}
    return make(kind, root, **fitted, **options)


def with_seed(kind, root, seed):
    method = small(kind, root)
    return method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=seed))


@pytest.fixture(scope="module")
def made_once(root):
    """What each method made with the seed 1, its vectors, and what its steps read."""

    def made(kind):
        with host_reads() as steps:
            aligned = with_seed(kind, root, 1)
        return aligned, vectors(aligned), steps

    return cache(made)


@pytest.mark.parametrize("kind", [*TRANSFORMER_METHODS, *PIVOT_TOO])
def test_aligned_with_what_it_asked_for_saved_and_loaded_it_gives_the_same_vectors(
    kind, root, tmp_path, made_once
):
    effect, (aligned, found, _) = small(kind, root).effect(), made_once(kind)
    assert (aligned.weights_changed, aligned.inside_depth() > 0) == (effect.weights, effect.inside)
    assert any(t.lang == "en" for t in aligned.transforms) <= effect.pivot
    if kind not in ONE_LAYER:
        assert {t.layer for t in aligned.transforms} == {1, 2}
    assert torch.isfinite(found).all()
    aligned.save(tmp_path)
    loaded = AlignedEncoder.load(tmp_path, lambda: toy_encoder(root / "encoder"))
    assert torch.equal(vectors(loaded), found)


@pytest.mark.parametrize("kind", [*TRANSFORMER_METHODS, *PIVOT_TOO])
def test_what_leaves_weights_and_pivot_alone_has_a_way_back_from_each_language(
    kind, root, made_once
):
    """The plan lets a task be trained on any language of such a method: it is evaluated there."""
    effect, (aligned, _, _) = small(kind, root).effect(), made_once(kind)
    if not (effect.weights or effect.pivot):
        for lang in LANGUAGES:
            seen = aligned.seen_from(lang, "en").transforms
            assert lang not in {transform.lang for transform in seen}


@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_one_seed_gives_one_result_and_without_chance_every_seed_does(kind, root, made_once):
    """Where another seed gives the same, so does the same one."""
    (_, first, _), chance = made_once(kind), small(kind, root).has_chance()
    assert torch.equal(first, vectors(with_seed(kind, root, 2))) is not chance
    if chance:
        assert torch.equal(first, vectors(with_seed(kind, root, 1)))


@pytest.mark.parametrize("kind", trained())
def test_no_step_after_the_first_one_waits_for_the_device(kind, made_once):
    *_, steps = made_once(kind)
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
        same, own = pytest.approx(expected, rel=1e-5), torch.tensor(found["vectors"])
        if found["losses"] != same or not torch.allclose(own, after, atol=1e-4):
            gap = float((own - after).abs().max())
            different[kind, shares] = [found["losses"], expected, gap]
    assert not different
    assert {k: len(values) for k, values in drawn.items()} == Counter(k for k, _ in divided())
