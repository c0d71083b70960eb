"""Encoders of every architecture: states, head, position limits, packed rows, languages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.encoders.models.folder import folder_has_head
from raxalign.encoders.models.freezing import frozen
from raxalign.encoders.models.packing import can_pack
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch
from raxalign.errors import DataError, RaxalignError
from tests.encoders.architectures import CONFIGS, encoder_of, folder_of, model_of

_HALVES = {"mt5", "umt5"}
_WITH_HEAD = [name for name in CONFIGS if name not in _HALVES]


def batch() -> Batch:
    """A sentence of 9 pieces in English and one of 6 in German."""
    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    mask, langs = torch.ones_like(ids), torch.tensor([[0] * 9, [1] * 9])
    mask[1, 6:] = 0
    ids[1, 6:] = 0
    words = torch.where(mask > 0, 0, -1)
    return Batch(ids, mask, torch.zeros_like(ids), words, words, langs, ("en", "de"))


def languages(name: str, example: Batch) -> dict[str, torch.Tensor]:
    """What transformers is given for the languages of `batch`."""
    return {
        "xmod": {"lang_ids": torch.tensor([0, 1])},
        "xlm": {"langs": example.langs_BT},
    }.get(name, {})


@pytest.mark.parametrize("name", CONFIGS)
def test_states_are_those_of_transformers_and_logits_those_of_the_whole_model(name, tmp_path):
    model, example = model_of(name, head=True), batch()
    encoder = TransformerEncoder.from_folder(folder_of(tmp_path / "encoder", model))
    inputs = {"input_ids": example.ids_BT, "attention_mask": example.mask_BT}
    inputs |= languages(name, example)
    real = example.mask_BT.bool()
    with torch.no_grad():
        wanted = model.base_model(**inputs, output_hidden_states=True).hidden_states
        states = encoder.hidden(example)
        lower = encoder.hidden(example, upto=1)
    assert (len(states), len(lower)) == (4, 2)
    for found, state in [*zip(states, wanted, strict=True), (lower[1], wanted[1])]:
        assert torch.allclose(found[real], state[real], atol=1e-5)
    assert encoder.has_head is folder_has_head(tmp_path / "encoder") is (name not in _HALVES)
    if encoder.has_head:
        with torch.no_grad():
            assert torch.allclose(
                encoder.lm_logits(states[-1])[real], model(**inputs).logits[real], atol=1e-4
            )


@pytest.mark.parametrize("name", CONFIGS)
def test_an_edit_of_a_layer_is_read_there_and_flows_on(name: str, tmp_path: Path) -> None:
    model, example = model_of(name, head=False), batch()
    encoder = TransformerEncoder.from_folder(folder_of(tmp_path / "encoder", model))
    real = example.mask_BT.bool()
    with torch.no_grad():
        plain = encoder.hidden(example)
        edited = encoder.hidden(example, edits={1: lambda states, _: states.flip(-1)})
    assert torch.equal(plain[0][real], edited[0][real])
    assert torch.equal(edited[1][real], plain[1][real].flip(-1))
    assert not torch.allclose(edited[2][real], plain[2][real], atol=1e-2)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_encoder_without_a_head_is_saved_and_opened_again_and_predicts_nothing(name, tmp_path):
    import transformers

    folder = folder_of(tmp_path / "encoder", model_of(name, head=False))
    encoder = TransformerEncoder.from_folder(folder)
    assert not encoder.has_head
    assert not folder_has_head(folder)
    encoder.save(tmp_path / "saved")
    with torch.no_grad():
        last = encoder.hidden(batch())[-1]
        again = TransformerEncoder.from_folder(tmp_path / "saved").hidden(batch())[-1]
    assert torch.equal(last, again)
    assert encoder.opened_by == ("AutoModelForTextEncoding" if name in _HALVES else "AutoModel")
    opened: Any = getattr(transformers, encoder.opened_by).from_pretrained(tmp_path / "saved")
    assert type(opened) is type(encoder.model)
    with pytest.raises(RaxalignError, match=r"no masked-LM head.*AutoModelForMaskedLM"):
        encoder.lm_logits(last)


def test_a_head_whose_weights_are_missing_leaves_the_encoder_without_one(tmp_path: Path) -> None:
    """The config promises a masked LM, the weights do not keep it."""
    from safetensors.torch import load_file, save_file

    folder = folder_of(tmp_path / "encoder", model_of("xlm-r", head=True))
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "lm_head" not in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    assert not TransformerEncoder.from_folder(folder).has_head
    lost = {name: weight for name, weight in weights.items() if "layer.1.output" not in name}
    save_file(lost, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=r"not a whole encoder: 4 weights are missing \(roberta\."):
        TransformerEncoder.from_folder(folder)


def test_the_published_head_of_mdeberta_is_read_though_its_config_does_not_name_it(tmp_path):
    import json

    model = model_of("mdeberta", head=True)
    folder = folder_of(tmp_path / "encoder", model)
    config = json.loads((folder / "config.json").read_text())
    del config["legacy"], config["architectures"]
    (folder / "config.json").write_text(json.dumps(config))
    encoder = TransformerEncoder.from_folder(folder)
    assert folder_has_head(folder)
    with torch.no_grad():
        logits = encoder.lm_logits(encoder.hidden(batch())[-1])
        wanted = model(input_ids=batch().ids_BT, attention_mask=batch().mask_BT).logits
    assert torch.allclose(logits, wanted, atol=1e-4)


def test_what_translates_is_refused_by_its_name(tmp_path: Path) -> None:
    from transformers import MarianConfig, MarianModel

    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0}
    model = MarianModel(MarianConfig(vocab_size=80, **sizes, **heads))
    with pytest.raises(DataError, match="is not an encoder: marian is an encoder with a decoder"):
        TransformerEncoder.from_folder(folder_of(tmp_path / "encoder", model))


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("bert", 40),
        ("xlm-r", 39),  # its positions begin behind the padding index, which is 0 here
        ("modernbert", 40),
        ("mdeberta", 40),
        ("mt5", 512),
    ],
)
def test_rows_have_as_many_pieces_as_the_architecture_has_positions(name, limit, tmp_path):
    assert encoder_of(name, tmp_path / "encoder").max_positions == limit


@pytest.mark.parametrize(
    ("name", "packs"),
    [
        *((name, True) for name in ("bert", "xlm-r", "distilbert", "rembert", "mpnet")),
        *((name, True) for name in ("electra", "albert", "mt5", "umt5")),
        ("mdeberta", False),  # its embeddings read the mask
        ("roformer", False),  # a row could outgrow its positions, which begin with the row
        ("modernbert", False),  # a window that no short sentence shows
        ("xmod", False),  # one adapter per row
        ("xlm", False),
    ],
)
def test_sentences_share_rows_where_a_probe_finds_the_states_that_they_have_alone(
    name: str, packs: bool, tmp_path: Path
) -> None:
    encoder = encoder_of(name, tmp_path / "encoder")
    encoder.model.train()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    assert can_pack(encoder) is encoder.packs is packs
    assert encoder.model.training
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_encoder_that_mixes_the_sentences_of_a_row_is_not_packed(tmp_path, monkeypatch):
    encoder = encoder_of("bert", tmp_path / "encoder")
    forward: Callable[..., Any] = encoder.model.forward

    def mixing(*_: Any, attention_mask: torch.Tensor, **inputs: Any) -> Any:
        return forward(attention_mask=torch.zeros_like(attention_mask), **inputs)

    monkeypatch.setattr(encoder.model, "forward", mixing)
    assert not can_pack(encoder)


def test_a_language_without_an_adapter_is_named_with_those_that_have_one(tmp_path: Path) -> None:
    from dataclasses import replace

    encoder = encoder_of("xmod", tmp_path / "encoder")
    with pytest.raises(
        RaxalignError,
        match=r"no adapter for el \(it has one for de_DE, en_XX\); leave out this",
    ):
        encoder.hidden(replace(batch(), languages=("en", "el")))
    with pytest.raises(RaxalignError, match=r"one adapter per language, .* is not known"):
        encoder.hidden(replace(batch(), languages=()))


def test_attention_is_what_is_asked_for_and_an_impossible_one_names_what_to_set(tmp_path):
    bert = folder_of(tmp_path / "bert", model_of("bert", head=False))
    fused, plain = (
        TransformerEncoder.from_folder(bert, attention=name) for name in ("auto", "eager")
    )
    used = [encoder.model.config._attn_implementation for encoder in (fused, plain)]
    assert used == ["sdpa", "eager"]
    with torch.no_grad():
        states = [encoder.hidden(batch())[-1][0] for encoder in (fused, plain)]
    assert torch.allclose(*states, atol=1e-5)
    mdeberta = folder_of(tmp_path / "mdeberta", model_of("mdeberta", head=False))
    with pytest.raises(DataError, match=r"`attention: sdpa` is not there.*Set `attention: eager`"):
        TransformerEncoder.from_folder(mdeberta, attention="sdpa")


def test_blocks_that_share_their_weights_cannot_be_frozen_one_by_one(tmp_path: Path) -> None:
    encoder = encoder_of("albert", tmp_path / "encoder")
    with (
        pytest.raises(RaxalignError, match="freeze: the 3 blocks of AlbertModel share"),
        frozen(encoder, "lower"),
    ):
        pass
