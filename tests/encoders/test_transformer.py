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
from raxalign.errors import DataError, RaxalignError, TransientError
from tests.tiny import tiny_bert

NOWHERE = "someone/encoder"


def kind(name: str | Path, revision: str | None = None) -> Transformer:
    return Transformer(Transformer.Params(name=str(name), revision=revision))


def test_a_folder_is_known_by_the_files_that_matter(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    (folder / "README.md").write_text("nothing that matters")
    sources = kind(folder).sources()
    assert sorted(sources) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert sources["config.json"] == LocalFile(folder / "config.json")


def test_a_hub_name_is_known_by_its_revision() -> None:
    assert kind("bert-base-multilingual-cased", "abc").sources() == {
        "encoder": RemoteData("hub:bert-base-multilingual-cased", pin="abc")
    }
    assert kind("someone/encoder").sources() == {
        "encoder": RemoteData("hub:someone/encoder", pin=None)
    }
    assert kind("someone/encoder").label() == "encoder"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such encoder folder"):
        kind(tmp_path / "nowhere").sources()
    with pytest.raises(DataError, match="nowhere: no such encoder folder"):
        kind(tmp_path / "nowhere").load(EncoderInputs(), "cpu")


def test_pickled_weights_are_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        DataError, match=r"no \*\.safetensors \(pytorch_model\.bin\).*save_pretrained"
    ):
        kind(folder).load(EncoderInputs(), "cpu")


def test_a_model_without_masked_lm_head_is_opened_without_one(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    TransformerEncoder.from_folder(tiny_folder).model.base_model.save_pretrained(folder)
    assert not kind(folder).load(EncoderInputs(), "cpu").has_head
    assert kind(folder).has_head(lambda _: None) is False


def test_an_architecture_that_is_no_encoder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1})
    )
    with pytest.raises(DataError, match="is not a whole encoder"):
        kind(folder).load(EncoderInputs(), "cpu")


def test_a_tokenizer_of_another_encoder_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    larger = tiny_bert(tmp_path / "larger", [f"word{i}" for i in range(200)])
    shutil.copy(larger / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(
        DataError, match=r"tokenizer has \d+ pieces, but the model only \d+ embeddings"
    ):
        kind(folder).load(EncoderInputs(), "cpu")


def test_a_folder_without_a_tokenizer_is_refused_by_its_file_names_alone(tiny_folder, tmp_path):
    """transformers would make a tokenizer of five special pieces, to which every word is
    unknown.
    """
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    (folder / "tokenizer.json").unlink()
    for call in (kind(folder).sources, lambda: kind(folder).load(EncoderInputs(), "cpu")):
        with pytest.raises(
            DataError,
            match=(
                r"encoder: has no tokenizer \(none of tokenizer\.json,"
                r" vocab\.txt.*tokenizer\.save_pretrained"
            ),
        ):
            call()
    (folder / "sentencepiece.bpe.model").write_bytes(b"")
    assert "sentencepiece.bpe.model" in kind(folder).sources()


def test_a_tokenizer_with_a_small_part_of_the_pieces_is_refused(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "encoder", [f"word{i}" for i in range(200)])
    smaller = tiny_bert(tmp_path / "smaller", ["a", "b"])
    shutil.copy(smaller / "tokenizer.json", folder / "tokenizer.json")
    with pytest.raises(
        DataError,
        match=r"tokenizer has 9 pieces, but the model 233 embeddings\. .*do not belong together",
    ):
        kind(folder).load(EncoderInputs(), "cpu")


def test_embeddings_that_are_padded_are_no_fault(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = TransformerEncoder.from_folder(tiny_folder)
    encoder.model.resize_token_embeddings(128)
    encoder.save(tmp_path)
    assert (
        TransformerEncoder.from_folder(tmp_path).model.get_input_embeddings().num_embeddings == 128
    )


def test_weights_that_are_no_numbers_are_refused_by_their_name(tiny_folder, tmp_path):
    encoder = TransformerEncoder.from_folder(tiny_folder)
    with torch.no_grad():
        encoder.model.bert.encoder.layer[1].output.dense.bias[3] = float("nan")
    encoder.save(tmp_path)
    with pytest.raises(
        DataError,
        match=(
            r"weights hold NaN or infinite values \(bert\.encoder\.layer\.1\.output\.dense\.bias\)"
        ),
    ):
        TransformerEncoder.from_folder(tmp_path)


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


def test_truncated_weights_are_an_error_that_names_the_folder(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(DataError, match="encoder"):
        kind(folder).load(EncoderInputs(), "cpu")


def test_a_hub_out_of_reach_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    # what the environment variable of the same name sets as a process starts
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for call in (kind(NOWHERE).fetch, lambda: kind(NOWHERE).load(EncoderInputs(), "cpu")):
        with pytest.raises(TransientError, match=f"^{NOWHERE}: the hub cannot be reached"):
            call()
    assert issubclass(TransientError, RaxalignError)


def test_planning_an_encoder_imports_nothing_heavy() -> None:
    program = (
        "import sys; from raxalign.catalog import catalog; [catalog('encoders')[kind] for kind in"
        " catalog('encoders')]\nprint(sorted({'torch', 'transformers', 'datasets', 'tokenizers'} &"
        " set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
