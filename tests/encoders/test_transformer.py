from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from raxalign.config.sources import LocalFile, RemoteData
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, TransientError
from tests.tiny import tiny_bert


def kind(name: str | Path, revision: str | None = None) -> Transformer:
    return Transformer(Transformer.Params(name=str(name), revision=revision))


def test_a_folder_is_known_by_the_files_that_matter(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    (folder / "README.md").write_text("nothing that matters")
    sources = kind(folder).sources()
    tokenizer = ["tokenizer.json", "tokenizer_config.json"]
    assert sorted(sources) == ["config.json", "model.safetensors", *tokenizer]
    assert sources["config.json"] == LocalFile(folder / "config.json")


def test_a_hub_name_is_known_by_its_revision() -> None:
    for pin in ("abc", None):
        found = kind("someone/encoder", pin).sources()
        assert found == {"encoder": RemoteData("hub:someone/encoder", pin=pin)}
    assert kind("someone/encoder").label() == "encoder"


def pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncate(folder: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def change_architecture(folder: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1}
    (folder / "config.json").write_text(json.dumps(config))


def swap_tokenizer(folder: Path) -> None:
    larger = tiny_bert(folder.parent / "larger", [f"word{i}" for i in range(200)])
    shutil.copy(larger / "tokenizer.json", folder / "tokenizer.json")


def use_few_pieces(folder: Path) -> None:
    """The encoder becomes a larger one, whose tokenizer stays small."""
    small = (folder / "tokenizer.json").read_bytes()
    shutil.rmtree(folder)
    tiny_bert(folder, [f"word{i}" for i in range(400)])
    (folder / "tokenizer.json").write_bytes(small)


def put_nan(folder: Path) -> None:
    encoder = TransformerEncoder.from_folder(folder)
    with torch.no_grad():
        encoder.model.bert.encoder.layer[1].output.dense.bias[3] = float("nan")
    encoder.save(folder)


def remove_tokenizer(folder: Path) -> None:
    """transformers would make one of five special pieces, to which every word is unknown."""
    (folder / "tokenizer.json").unlink()


BROKEN = [
    (shutil.rmtree, "encoder: no such encoder folder"),
    (remove_tokenizer, r"no tokenizer \(none of tokenizer\.json, vocab\.txt.*save_pretrained"),
    (pickle, r"no \*\.safetensors \(pytorch_model\.bin\).*save_pretrained"),
    (truncate, "encoder"),
    (change_architecture, "is not a whole encoder"),
    (swap_tokenizer, r"tokenizer has \d+ pieces, but the model only \d+ embeddings"),
    (use_few_pieces, r"has \d+ pieces, but the model \d+ embeddings\. .*do not belong together"),
    (put_nan, r"NaN or infinite values \(bert\.encoder\.layer\.1\.output\.dense\.bias\)"),
]


@pytest.mark.parametrize(("damage", "message"), BROKEN)
def test_a_folder_that_is_not_a_whole_encoder_is_refused(tiny_folder, tmp_path, damage, message):
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "encoder"))
    damage(folder)
    with pytest.raises(DataError, match=message):
        kind(folder).load(EncoderInputs(), "cpu")
    if damage in (shutil.rmtree, remove_tokenizer):
        with pytest.raises(DataError, match=message):
            kind(folder).sources()


def test_embeddings_that_are_padded_are_no_fault(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = TransformerEncoder.from_folder(tiny_folder)
    encoder.model.resize_token_embeddings(128)
    encoder.save(tmp_path)
    again = TransformerEncoder.from_folder(tmp_path)
    assert again.model.get_input_embeddings().num_embeddings == 128


@pytest.mark.parametrize("name", ["a b//c", "one/two/three", "/".join(["x"] * 5), "-x", "a--b"])
def test_a_name_that_is_neither_a_folder_nor_a_hub_name_is_a_fault_before_anything_runs(name):
    (fault,) = kind(name).check()
    assert fault.startswith(f"{name} is neither a folder nor a name on the Hugging Face Hub")
    with pytest.raises(DataError, match="neither a folder nor a name on the Hugging Face Hub"):
        kind(name).fetch()


@pytest.mark.parametrize(
    "name", ["bert-base-multilingual-cased", "FacebookAI/xlm-roberta-base", "a_b/c.d-1"]
)
def test_a_hub_name_is_no_fault(name: str) -> None:
    assert kind(name).check() == []


def test_a_hub_out_of_reach_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    # what the environment variable of the same name sets as a process starts
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(TransientError, match=r"^someone/encoder: the hub cannot be reached"):
        kind("someone/encoder").fetch()


def test_planning_an_encoder_imports_nothing_heavy() -> None:
    program = (
        "import sys; from raxalign.catalog import catalog; [catalog('encoders')[kind] for kind in"
        " catalog('encoders')]\nprint(sorted({'torch', 'transformers', 'datasets', 'tokenizers'} &"
        " set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
