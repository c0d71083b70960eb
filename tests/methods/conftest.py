"""What tests of methods share."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.encoders.models.transformer import TransformerEncoder
from tests.methods.toy import toy_encoder, toy_inputs


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what methods ask for, in German, French and English."""
    folder = tmp_path_factory.mktemp("toy")
    toy_inputs(folder, languages=("de", "fr"))
    return folder


@pytest.fixture(scope="module")
def encoder(root: Path) -> TransformerEncoder:
    """The toy encoder, which tests leave as it is."""
    return toy_encoder(root / "encoder")
