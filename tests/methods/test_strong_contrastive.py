from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.methods.strong_contrastive import StrongContrastive
from tests.methods.contract import train
from tests.methods.toy import WORDS, toy_encoder, toy_rows


def method(**params: object) -> StrongContrastive:
    return StrongContrastive(StrongContrastive.Params.model_validate(params))


def trained(root: Path, **params: object) -> AlignedEncoder:
    options = {"epochs": 4, "warmup": 0, "batch_size": 12, **params}
    return train("strong_contrastive", root, **options)


def weights(encoder: object) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in encoder.model.state_dict().items()}  # type: ignore[attr-defined]


def nearest(aligned: AlignedEncoder) -> float:
    """How often the linked word is the nearest one among all words of other types, by cosine."""
    columns = toy_rows(24)
    src, tgt = (
        torch.nn.functional.normalize(
            aligned.words(columns[side], code, pooling="last").vectors_NLH[:, 0], dim=-1
        )  # type: ignore[arg-type]
        for side, code in (("src", "de"), ("tgt", "en"))
    )
    words = {side: [word for row in columns[side] for word in row] for side in ("src", "tgt")}  # type: ignore[attr-defined]
    best = (src @ tgt.T).argmax(dim=1).tolist()
    return sum(
        words["tgt"][j] == WORDS[word] for word, j in zip(words["src"], best, strict=True)
    ) / len(best)


def test_training_brings_translations_together(tmp_path):
    before = nearest(AlignedEncoder(toy_encoder(tmp_path / "encoder")))
    aligned = trained(tmp_path, dropout=False, epochs=15, **{"lambda": 0})
    assert nearest(aligned) > before + 0.4
    assert aligned.notes["last_loss"] < 0.5 * aligned.notes["first_loss"]
    assert aligned.notes["pairs"] == sum(len(links) for links in toy_rows(24)["src_links"])


@pytest.mark.parametrize(
    ("half", "still"), [("lower", ("embeddings.", "layer.0.")), ("upper", ("layer.1.",))]
)
def test_the_frozen_half_stays_as_it_was_bit_for_bit_and_the_other_does_not(half, still, tmp_path):
    before, after = (
        weights(toy_encoder(tmp_path / "encoder")),
        weights(trained(tmp_path, freeze=half, epochs=1).encoder),
    )
    blocks = [name for name in before if name.startswith("bert.")]
    held = {name for name in blocks if any(part in name for part in still)}
    assert held
    assert held < set(blocks)
    for name in blocks:
        assert torch.equal(before[name], after[name]) == (name in held), name


def test_a_frozen_layer_cannot_be_contrasted():
    with pytest.raises(
        RaxalignError, match="freeze leaves layer 1 as it is; choose layers from 2 on"
    ):
        method(freeze="lower", layers="1-2").acts(2)


@pytest.mark.slow
def test_a_heavy_regulariser_leaves_the_encoder_nearly_as_it_was(tmp_path):
    start = weights(toy_encoder(tmp_path / "encoder"))

    def drift(reg_weight: float) -> float:
        options = {"dropout": False, "learning_rate": 1e-3, "epochs": 15, "lambda": reg_weight}
        after = weights(trained(tmp_path, **options).encoder)
        return float(torch.stack([(after[name] - start[name]).norm() for name in start]).norm())

    assert drift(1e6) < 0.1 * drift(0)


def test_the_projector_is_left_behind(tmp_path):
    aligned = trained(tmp_path, epochs=1)
    assert set(weights(aligned.encoder)) == set(weights(toy_encoder(tmp_path / "encoder")))
    assert all(p.requires_grad for p in aligned.encoder.model.parameters())


def test_sentence_pairs_of_all_languages_make_one_epoch(tmp_path):
    notes = trained(tmp_path, languages=("de", "nl"), epochs=1, batch_size=8).notes
    assert (notes["sentences"], notes["steps"]) == (24 + 19, 6)


def test_the_paper_is_a_profile_and_what_others_make_idle_is_no_identity():
    paper = method(profile="paper").canonical()
    names = ("batch_size", "learning_rate", "steps", "warmup", "pooling", "max_length")
    found = [paper[name] for name in (*names, "same_type", "temperature", "lambda")]
    assert found == [128, 1e-4, 100_000, 4000, "first", 96, "keep", 0.1, 1.0]
    assert "epochs" not in paper
    assert "profile" not in paper
    assert method().canonical()["lambda"] == 0.1
    assert method(profile="paper", epochs=7).canonical() == paper
    given = {name: value for name, value in paper.items() if value is not None}
    assert method(**given).canonical() == paper
    assert (
        method(projector=False, projector_size=7).canonical() == method(projector=False).canonical()
    )
    assert (
        method(**{"lambda": 0}).canonical()
        == method(regularizer="none").canonical()
        == method(regularizer="none", **{"lambda": 3}).canonical()
    )
    assert method(profile="paper", steps=0, epochs=2).canonical()["epochs"] == 2
    assert None not in method().canonical().values()


def test_the_released_code_has_projectors_without_bias_and_is_else_the_paper():
    paper, released = (method(profile=profile).canonical() for profile in ("paper", "released"))
    assert released == {**paper, "projector_bias": False}
    assert method(profile="paper", projector_bias=False).canonical() == released
    assert (
        method(projector=False, projector_bias=False).canonical()
        == method(projector=False).canonical()
    )


def test_an_option_that_makes_no_sense_is_refused():
    for params in ({"temperature": 0}, {"lambda": -1}, {"freeze": "middle"}, {"same_type": "drop"}):
        with pytest.raises(ValidationError):
            method(**params)
