from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.centering import Centering
from raxalign.train.runtime import Runtime
from tests.methods.planted import (
    TableEncoder,
    applied,
    normal,
    one_word_each,
    planted_inputs,
    write_text,
)


def aligned(root: Path, tables: dict[str, torch.Tensor], **params: object) -> AlignedEncoder:
    inputs = planted_inputs(root, len(tables["en"]))
    return Centering(Centering.Params(**params)).align(TableEncoder(tables), inputs, Runtime())


def test_each_language_has_the_mean_zero_and_keeps_its_differences(tmp_path):
    tables = {
        "de": normal(9, 4, dtype=torch.float32) + 3,
        "en": normal(9, 4, seed=1, dtype=torch.float32) - 2,
    }
    found = aligned(tmp_path, tables)
    for lang, table in tables.items():
        moved = applied(found.transforms, lang, table)
        assert moved.mean(0).abs().max() < 1e-6
        assert torch.allclose(moved[1:] - moved[:-1], table[1:] - table[:-1], atol=1e-5)
    assert found.notes == {"de": {"words": 9}, "en": {"words": 9}}


def test_the_step_subtracts_the_mean_that_is_computed_by_hand(tmp_path):
    tables = {"de": torch.tensor([[1.0, 2], [3, 6]]), "en": torch.tensor([[0.0, 0], [0, 8]])}
    found = aligned(tmp_path, tables)
    assert {t.lang: t.steps[0].center.tolist() for t in found.transforms} == {
        "de": [2.0, 4.0],
        "en": [0.0, 4.0],
    }
    words = found.words([["w1", "?"]], "de").vectors_NLH[:, 0]
    assert words.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_only_the_first_sentences_count_where_they_are_limited(tmp_path):
    table = torch.arange(12, dtype=torch.float32).reshape(6, 2)
    found = aligned(tmp_path, {"de": table, "en": table}, max_sentences=2)
    assert found.notes["de"] == {"words": 4}
    assert found.transforms[0].steps[0].center.tolist() == [3.0, 4.0]


def test_a_seed_draws_the_sentences_from_the_whole_text(tmp_path):
    table = torch.arange(80, dtype=torch.float32).reshape(40, 2)
    centers = []
    for number, seed in enumerate((1, 1, 2)):
        root = tmp_path / str(number)
        root.mkdir()
        found = aligned(root, {"de": table, "en": table}, max_sentences=3, sample_seed=seed)
        assert found.notes["de"] == {"words": 6}
        centers.append(found.transforms[0].steps[0].center.tolist())
    assert centers[0] == centers[1] != centers[2]
    assert centers[0] != [5.0, 6.0]  # the mean of the first three sentences


def test_a_seed_without_a_limit_changes_nothing(tmp_path):
    plain, seeded = (
        Centering(Centering.Params(max_sentences=None, sample_seed=seed)) for seed in (None, 3)
    )
    assert plain.canonical() == seeded.canonical()
    assert Centering(Centering.Params(sample_seed=3)).canonical()["sample_seed"] == 3


def test_text_without_words_is_an_error_that_names_the_language(tmp_path):
    table = torch.ones(2, 2)
    whole, empty = (
        write_text(tmp_path / "whole", one_word_each(2)),
        write_text(tmp_path / "empty", [["?"], []]),
    )
    inputs = MethodInputs(("de",), "en", text={"de": whole, "en": empty})
    with pytest.raises(RaxalignError, match="text of en has no word"):
        Centering(Centering.Params()).align(
            TableEncoder({"de": table, "en": table}), inputs, Runtime()
        )
