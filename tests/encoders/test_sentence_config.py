"""Folders of sentence-transformers: what they say of sentence vectors, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.sentence_config import (
    SentenceConfig,
    files_of,
    read_sentence_config,
    trained_config,
    write_sentence_config,
)
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

SENTENCES = [["the", "dogs", "sleeps", "."], ["der", "Hund"], ["play"]]


def vectors(encoder: TransformerEncoder, pooling: Any, *, specials: bool = True) -> torch.Tensor:
    reading = SentenceReading("last", pooling, specials=specials)
    return sentence_vectors(AlignedEncoder(encoder), SENTENCES, "en", reading)[0]


def states(encoder: TransformerEncoder) -> list[torch.Tensor]:
    """The last layer's states of each sentence alone, special pieces included."""
    found = []
    with torch.no_grad():
        for sentence in SENTENCES:
            rows = encoder.pieces([sentence], "en")
            found.append(encoder.hidden(encoder.collate(rows))[-1][0])
    return found


def test_poolings_by_hand(encoder: TransformerEncoder) -> None:
    alone = states(encoder)
    for pooling, expected in (
        ("last", [state[-2] for state in alone]),
        ("weighted", [(state * places(state)).sum(0) / places(state).sum() for state in alone]),
    ):
        assert torch.allclose(vectors(encoder, pooling), torch.stack(expected), atol=1e-5)
    inner = [(state * places(state))[1:-1].sum(0) / places(state)[1:-1].sum() for state in alone]
    assert torch.allclose(
        vectors(encoder, "weighted", specials=False), torch.stack(inner), atol=1e-5
    )


def places(state: torch.Tensor) -> torch.Tensor:
    return torch.arange(1.0, len(state) + 1)[:, None]


@pytest.mark.parametrize(
    "config",
    [
        None,
        SentenceConfig(),
        SentenceConfig("cls", normalize=True),
        SentenceConfig("weighted"),
        SentenceConfig("last"),
        SentenceConfig("mean", prompt="the cat : "),
        SentenceConfig("mean", prompt="the cat : ", include_prompt=False),
        SentenceConfig("weighted", normalize=True, prompt="the cat : ", include_prompt=False),
    ],
)
def test_sentence_transformers_opens_an_exported_encoder_and_has_the_same_vectors(
    config: SentenceConfig | None, encoder: TransformerEncoder, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    encoder.sentences = config
    AlignedEncoder(encoder).export(tmp_path)
    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(
        [" ".join(sentence) for sentence in SENTENCES], convert_to_tensor=True
    )
    again = TransformerEncoder.from_folder(tmp_path)
    assert again.sentences == (config or SentenceConfig())
    assert torch.allclose(vectors(again, "own"), theirs, atol=1e-5)
    assert torch.allclose(vectors(encoder, "own" if config else "mean"), theirs, atol=1e-5)


def test_what_sentence_transformers_itself_writes_is_read(tiny_folder, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = [Transformer(str(tiny_folder)), Pooling(32, "cls"), Normalize()]
    prompts = {"query": "query: ", "document": "passage: "}
    SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(tmp_path))
    assert read_sentence_config(files_of(str(tmp_path))) == SentenceConfig(
        "cls", normalize=True, prompt="query: "
    )


def changed(folder: Path, name: str, **entries: Any) -> SentenceConfig | None:
    write_sentence_config(folder, SentenceConfig(), 32, 24)
    record = json.loads((folder / name).read_text())
    if isinstance(record, list):
        record += [{"idx": 9, "name": "9", **entries}]
    else:
        record |= entries
    (folder / name).write_text(json.dumps(record))
    return read_sentence_config(files_of(str(folder)))


def test_what_cannot_be_read_is_named_where_it_is_asked_for(encoder, tmp_path):
    dense = changed(
        tmp_path, "modules.json", path="2_Dense", type="sentence_transformers.models.Dense"
    )
    assert dense == SentenceConfig(unread="the modules Transformer, Pooling, Dense")
    several = changed(tmp_path, "1_Pooling/config.json", pooling_mode=["mean", "max"])
    assert several == SentenceConfig(unread="the pooling mean and max")
    encoder.sentences = dense
    with pytest.raises(RaxalignError, match="this one has the modules Transformer, Pooling, Dense"):
        vectors(encoder, "own")
    encoder.sentences = None
    with pytest.raises(RaxalignError, match=r"has no configuration \(modules.json\). Choose cls"):
        vectors(encoder, "own")
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(DataError, match=r"modules.json: cannot be read as JSON"):
        read_sentence_config(files_of(str(tmp_path)))


def test_the_default_prompt_comes_before_the_one_of_queries(tmp_path: Path) -> None:
    name = "config_sentence_transformers.json"
    prompts = {"query": "q: ", "sts": "s: "}
    assert changed(tmp_path, name, prompts=prompts) == SentenceConfig(prompt="q: ")
    found = changed(tmp_path, name, prompts=prompts, default_prompt_name="sts")
    assert found == SentenceConfig(prompt="s: ")


def test_a_configuration_is_part_of_what_a_folder_is_and_a_plain_folder_is_as_it_was(
    tiny_folder: Path, encoder: TransformerEncoder, tmp_path: Path
) -> None:
    own = {"modules.json", "config_sentence_transformers.json", "1_Pooling/config.json"}
    AlignedEncoder(encoder).export(tmp_path)
    (tmp_path / "transforms.json").unlink()
    assert own <= set(Transformer(Transformer.Params(name=str(tmp_path))).sources())
    plain = Transformer(Transformer.Params(name=str(tiny_folder))).sources()
    weights, tokenizer = "model.safetensors", {"tokenizer.json", "tokenizer_config.json"}
    assert set(plain) == {"config.json", weights, *tokenizer}


def test_the_last_piece_before_special_ones_has_no_configuration() -> None:
    assert trained_config("last", trailing=1) is None
    assert trained_config("last", trailing=0) == SentenceConfig("last")
    assert trained_config("cls", trailing=1) == SentenceConfig("cls")
