"""What slots have of their own: requests of the phrasebook, and the data that has to be named."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.slots import Slots


def test_data_has_no_default():
    with pytest.raises(ValidationError, match="data"):
        Slots.Params()
    assert "dataset" in Slots(Slots.Params(data="hub")).check(("de",), "en")[0]


def test_the_paper_is_a_conditioned_crf_on_frozen_features():
    settings = Slots(Slots.Params(data="phrasebook", profile="paper")).settings()
    assert (settings.tagger, settings.crf, settings.selection, settings.evaluate_every) == (
        "bilstm_crf",
        "conditioned",
        "target-dev",
        150,
    )
    assert (settings.hidden, settings.lstm_layers, settings.dropout, settings.input_dropout) == (
        384,
        2,
        0.5,
        0.5,
    )
    assert (settings.learning_rate, settings.batch_size, settings.epochs, settings.layers) == (
        1e-4,
        10,
        40,
        "last-four",
    )


def test_real_requests_come_again_and_only_a_training_file_is_refused():
    folder = os.environ.get("RAXALIGN_TEST_DATA")
    if not folder:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    files = {
        name: str(Path(folder, "slots-facebook", f"{name}.{{lang}}.conll"))
        for name in ("train", "dev")
    }
    data = Slots(
        Slots.Params(data={"train": files["train"].replace("lang", "pivot"), "dev": files["dev"]})
    ).head(TaskInputs("en"))
    train = data.rows("train", "en")
    seen = data.rows("dev", "en").seen_in(train.fingerprints(), data.allowed)
    assert int(seen.sum()) == 1374  # of 4181, counted with sort and uniq too
    with pytest.raises(DataError, match="training sentences too"):
        train.seen_in(np.sort(train.fingerprints()), data.allowed)
