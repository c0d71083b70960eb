from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from tests.tiny import tiny_bert

WORDS = ["der", "die", "das", "Hund", "Katze", "schläft", "play", "##ing", "##ed", "dogs", "the"]
WORDS += ["a", "cat", "sleeps", "барка", "##та", ".", ","]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, layers=3, positions=24)


@pytest.fixture(scope="session")
def read_encoder(tiny_folder: Path) -> TransformerEncoder:
    return TransformerEncoder.from_folder(tiny_folder)


@pytest.fixture
def encoder(read_encoder: TransformerEncoder) -> TransformerEncoder:
    return deepcopy(read_encoder)
