"""What holds for every method that takes static vectors: a new one is tested by saying that it
does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import Lookup, StaticEncoder, VectorSpace
from raxalign.train.runtime import Runtime
from tests.methods.contract import LANGUAGES, SIZE, asked_for, make, vectors
from tests.methods.toy import toy_inputs, toy_rows

METHODS = [kind for kind in catalog("methods") if "static" in catalog("methods")[kind].accepts]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def encoder() -> StaticEncoder:
    """Random vectors of all words that the toy's sentences have, but one."""
    columns = toy_rows(60, seed=1)
    spaces = {}
    for number, (lang, side) in enumerate((*((lang, "src") for lang in LANGUAGES), ("en", "tgt"))):
        words = sorted({word for sentence in columns[side] for word in sentence})[1:]
        spaces[lang] = VectorSpace(
            words, np.random.default_rng(number).normal(size=(len(words), 12)).astype(np.float32)
        )
    return StaticEncoder(spaces, 12, Lookup())


@pytest.mark.parametrize("kind", METHODS)
def test_static_vectors_are_aligned_saved_and_exported(
    kind: str, root: Path, tmp_path: Path
) -> None:
    method = make(kind, root)
    aligned = method.align(encoder(), asked_for(method, root), Runtime(seed=1))
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    assert torch.equal(found, vectors(AlignedEncoder(encoder()))) is (kind == "none")
    aligned.save(tmp_path / "saved")
    assert torch.equal(vectors(AlignedEncoder.load(tmp_path / "saved", encoder)), found)
    aligned.export(tmp_path / "out")
    assert torch.equal(vectors(AlignedEncoder.from_export(tmp_path / "out")), found)
