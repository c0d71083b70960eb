"""What holds for every method of the catalogue: a new file is tested by existing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.methods.base import Method
from raxalign.train.runtime import Runtime
from tests.methods.contract import (
    LANGUAGES,
    SIZE,
    TRANSFORMER_METHODS,
    asked_for,
    divided,
    losses,
    make,
    train,
    vectors,
    weights,
    work,
)
from tests.methods.toy import toy_encoder, toy_inputs
from tests.train.workers import run_workers

SAVED = ("rotation", "mean_shift", "finetune", "ppa")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contract")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def with_seed(kind: str, root: Path, seed: int) -> AlignedEncoder:
    method = make(kind, root)
    return method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=seed))


@pytest.fixture(scope="module")
def aligned_once(root):
    """What each method made with the seed 1, for several tests."""
    return cache(lambda kind: with_seed(kind, root, 1))


@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_aligned_with_what_it_asked_for_saved_and_loaded_it_gives_the_same_vectors(
    kind, root, tmp_path, aligned_once
):
    method, aligned = make(kind, root), aligned_once(kind)
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
def test_one_seed_gives_one_result_and_without_chance_every_seed_does(kind, root, aligned_once):
    first = vectors(aligned_once(kind))
    again, other = (vectors(with_seed(kind, root, seed)) for seed in (1, 2))
    assert torch.equal(first, again)
    assert torch.equal(first, other) is not make(kind, root).has_chance()


@pytest.mark.parametrize("kind", ["strong_contrastive", "tlm"])
def test_without_dropout_new_weights_and_the_order_of_rows_are_chance(kind, root):
    first, again, other = (
        weights(train(kind, root, languages=LANGUAGES, seed=seed, dropout=False, epochs=1, steps=2))
        for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.slow
def test_another_process_loads_what_was_saved_and_gives_the_same_vectors(root, tmp_path):
    """A readout, an inside transform, and weights; under RAXALIGN_TEST_ALL each method."""
    expected = {}
    some = TRANSFORMER_METHODS if "RAXALIGN_TEST_ALL" in os.environ else SAVED
    for kind in some:
        method = make(kind, root)
        aligned = method.align(
            toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=1)
        )
        aligned.save(tmp_path / kind)
        expected[kind] = vectors(aligned)
    job = (
        "from pathlib import Path; from tests.methods.contract import load_all;"
        f" load_all(Path({str(root)!r}), Path({str(tmp_path)!r}))"
    )
    subprocess.run(
        [sys.executable, "-c", job], check=True, cwd=Path(__file__).parents[2], timeout=300
    )
    for kind, found in expected.items():
        assert torch.equal(load_file(tmp_path / kind / "vectors.safetensors")["vectors"], found), (
            kind
        )


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


@pytest.mark.parametrize("kind", list(catalog("methods")))
def test_a_method_says_what_it_is(kind):
    method = catalog("methods")[kind]
    assert issubclass(method, Method)
    assert isinstance(method.VERSION, int)
    assert method.reference
    assert method.__doc__
    assert method.Params.model_config["frozen"]


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in catalog("methods")
        if "learning_rate" in catalog("methods")[kind].Params.model_fields
    ],
)
def test_what_trains_says_so_and_can_do_without_dropout(kind, tmp_path):
    method = make(kind, tmp_path)
    assert method.effect().weights
    assert "dropout" in type(method).Params.model_fields
    assert "profile" not in method.canonical(), (
        "the values that a profile fills in are the identity, not its name"
    )


def test_the_catalogue_is_read_without_torch():
    load = (
        "import sys; from raxalign.catalog import catalog; [catalog('methods')[kind] for kind in"
        " catalog('methods')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{load}; print({{'torch._C', 'transformers'}} & set(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
