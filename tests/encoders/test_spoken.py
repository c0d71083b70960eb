"""The languages of sentences in a training batch, and the adapters or embeddings of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.encoders.models.packing import can_pack, flat_states, pack
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch, Spoken
from raxalign.errors import RaxalignError
from tests.encoders.architectures import folder_of, model_of


def encoder_of(name: str, folder: Path, **config: object) -> TransformerEncoder:
    model = model_of(name, head=False)
    for key, value in config.items():
        setattr(model.config, key, value)
    return TransformerEncoder(model.eval(), _tokenizer(name, folder))


def _tokenizer(name: str, folder: Path) -> object:
    return TransformerEncoder.from_folder(
        folder_of(folder / name, model_of(name, head=False))
    ).tokenizer


def batch_of(*languages: str) -> Batch:
    """A row of three pieces per language."""
    ids = torch.full((len(languages), 3), 7)
    none, numbers = torch.full_like(ids, -1), torch.arange(len(languages))[:, None].expand(-1, 3)
    return Batch(ids, torch.ones_like(ids), torch.zeros_like(ids), none, none, numbers, languages)


def test_items_of_several_parts_keep_their_languages() -> None:
    joined = Spoken.join([Spoken(("de", "en"), np.array([1, 0])), Spoken.of("fr", 1)])
    assert joined is not None
    assert [joined.names[n] for n in joined.repeat(np.array([2, 1, 1])).numbers] == [
        *("en", "en", "de", "fr")
    ]
    assert [joined.names[n] for n in joined.take(np.array([2, 0])).numbers] == ["fr", "en"]
    assert Spoken.join([Spoken.of("de", 1), None]) is None


@pytest.mark.parametrize("name", ["xmod", "xlm"])
def test_rows_of_a_training_have_the_states_of_their_languages(name: str, tmp_path: Path) -> None:
    encoder = encoder_of(name, tmp_path)
    ids, lengths = np.array([7, 8, 9, 10, 7, 8, 9]), np.array([3, 1, 3])
    spoken = Spoken(("de", "en"), np.array([0, 1, 0])).repeat(lengths)
    assert not can_pack(encoder)
    packed = pack(ids, lengths, pad=0, width=0, spoken=spoken)
    with torch.no_grad():
        (found,) = flat_states(encoder, packed, (encoder.n_layers,))
        wanted = {lang: _alone(encoder, [7, 8, 9], lang) for lang in ("de", "en")}
        shorter = _alone(encoder, [10], "en")
    starts = packed.starts_S
    assert torch.allclose(found[starts[0] : starts[0] + 3], wanted["de"], atol=1e-5)
    assert torch.allclose(found[starts[1] : starts[1] + 1], shorter, atol=1e-5)
    assert torch.allclose(found[starts[2] : starts[2] + 3], wanted["de"], atol=1e-5)
    assert not torch.allclose(wanted["de"], wanted["en"], atol=1e-3)


def _alone(encoder: TransformerEncoder, ids: list[int], lang: str) -> torch.Tensor:
    row = torch.tensor([ids])
    none = torch.full_like(row, -1)
    zeros = torch.zeros_like(row)
    batch = Batch(row, torch.ones_like(row), zeros, none, none, zeros, (lang,))
    return encoder.hidden(batch)[-1][0]


def test_rows_whose_language_is_not_known_are_refused(tmp_path: Path) -> None:
    encoder = encoder_of("xmod", tmp_path)
    with pytest.raises(RaxalignError, match="the language of its rows is not known"):
        flat_states(encoder, pack(np.array([7, 8]), np.array([2]), pad=0, width=0), (1,))


@pytest.mark.parametrize(
    ("lang", "number"),
    [
        ("en", 0),
        ("eng_Latn", 0),
        ("de", 1),
        ("zh", 2),
        ("zho_Hans", 2),
        ("zh-Hant", 3),
        ("zh_TW", 3),
        ("iw", 4),
        ("sr-Latn", 5),
    ],
)
def test_an_adapter_is_found_by_its_language_in_every_form_of_its_code(
    lang: str, number: int, tmp_path: Path
) -> None:
    names = ["en_XX", "de_DE", "zh_CN", "zh_TW", "he_IL", "sr_RS"]
    encoder = encoder_of("xmod", tmp_path, languages=names)
    assert encoder.inputs.of(batch_of(lang))["lang_ids"].tolist() == [number]


def test_a_language_embedding_is_found_by_its_code_even_if_it_is_not_a_tag(tmp_path: Path) -> None:
    encoder = encoder_of("xlm", tmp_path, lang2id={"simple": 3, "zh_classical": 4, "en": 5})
    found = encoder.inputs.of(batch_of("eng", "simple"))["langs"]
    assert found.tolist() == [[5] * 3, [3] * 3]
