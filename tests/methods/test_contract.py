"""What holds for every method of the catalogue: a new file is tested by existing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.config.params import path_fields
from raxalign.encoders._aligned import AlignedEncoder
from raxalign.methods.base import Method, MethodInputs
from raxalign.train.runtime import Runtime
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows

TRANSFORMER_METHODS = [kind for kind in catalog("methods") if "transformer" in catalog("methods")[kind].accepts]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contract")
    toy_encoder(folder / "encoder")
    toy_inputs(folder)
    return folder


def make(kind: str, root: Path) -> Method:
    """The method with its defaults; every path is a dictionary, and what trains does so with few rows a batch."""
    method = catalog("methods")[kind]
    fields, params = method.Params.model_fields, dict.fromkeys(path_fields(method.Params), str(root / "dictionary.txt"))
    small: dict[str, Any] = {"batch_size": 8, "queue_size": 16, "max_length": 32}
    return method(method.Params.model_validate({**params, **{name: value for name, value in small.items() if name in fields}}))


def asked_for(method: Method, root: Path) -> MethodInputs:
    """The inputs that the method asks for, and no others."""
    whole, needs = toy_inputs(root), method.needs()
    sources = method.sources("de", "en")
    return replace(
        whole,
        pairs=whole.pairs if needs.links else {},
        bitext=whole.bitext if needs.bitext else {},
        text=whole.text if needs.text else {},
        files={name: {"de": source.path} for name, source in sources.items()},  # type: ignore[union-attr]
    )


def vectors(aligned: AlignedEncoder) -> torch.Tensor:
    columns: Any = toy_rows(8, seed=9)
    view = aligned.toward("de")
    return torch.cat([view.words(columns["src"], "de", layers="0-2").vectors_NLH, view.words(columns["tgt"], "en", layers="0-2").vectors_NLH])


@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_aligned_with_what_it_asked_for_saved_and_loaded_it_gives_the_same_vectors(kind: str, root: Path, tmp_path: Path) -> None:
    method = make(kind, root)
    aligned = method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=1))
    assert (aligned.weights_changed, aligned.inside_depth() > 0) == (method.effect().weights, method.effect().inside)
    assert any(t.lang == "en" for t in aligned.transforms) <= method.effect().pivot
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    aligned.save(tmp_path)
    loaded = AlignedEncoder.load(tmp_path, lambda: toy_encoder(root / "encoder"))
    assert torch.equal(vectors(loaded), found)
    again = method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=1))
    assert torch.equal(vectors(again), found)
    if not method.has_chance():
        other = method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=2))
        assert torch.equal(vectors(other), found)


@pytest.mark.parametrize("kind", list(catalog("methods")))
def test_a_method_says_what_it_is(kind: str) -> None:
    method = catalog("methods")[kind]
    assert issubclass(method, Method)
    assert isinstance(method.VERSION, int)
    assert method.reference
    assert method.__doc__
    assert method.Params.model_config["frozen"]


def test_the_catalogue_is_read_without_torch() -> None:
    load = "import sys; from raxalign.catalog import catalog; [catalog('methods')[kind] for kind in catalog('methods')]"
    done = subprocess.run(
        [sys.executable, "-c", f"{load}; print({{'torch._C', 'transformers'}} & set(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
