"""An encoder without a masked-LM head in a grid: what predicts words is dropped and counted."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from raxalign.encoders.models.folder import folder_has_head, has_head, weight_shapes
from raxalign.errors import DataError
from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from tests.grids import write_grid

METHODS = (
    "none: {}",
    "rotation: {}",
    "tlm: {}",
    "mlm: {}",
    "ppa: {}",
    "moco: {kind: ppa, tlm: false}",
    "weam: {}",
    "code_switching: {dictionary: d.txt}",
    "finetune: {}",
)
TASKS = ("retrieval: {}", "token_translation: {}")


def encoder(folder: Path, *weights: str) -> Path:
    """A folder with the file names of an encoder, and weights that have a header alone."""
    folder.mkdir()
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, **{name: {} for name in weights}}
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    config = {"model_type": "bert", "num_hidden_layers": 2, "architectures": ["BertForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def plan_of(folder: Path, *weights: str) -> Plan:
    (folder / "d.txt").write_text("Hund dog\n", encoding="utf-8")
    path = write_grid(folder, methods=METHODS, tasks=TASKS, sentences="100")
    text = path.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("encoder:"))
    name = encoder(folder / "tiny", *weights)
    path.write_text(text.replace(line, f"encoder: {name}"), encoding="utf-8")
    return open_grid(path, storage=str(folder / "storage")).plan


def test_what_predicts_words_is_dropped_and_counted(tmp_path):
    plan = plan_of(tmp_path, "embeddings.word_embeddings.weight")
    assert {trial.method for trial in plan.trials} == {"none", "rotation", "moco", "finetune"}
    assert {task for trial in plan.trials for task in trial.evaluations} == {"retrieval"}
    dropped = [line for line in plan.merged if "masked-LM head" in line]
    assert dropped == [
        *(
            f"{name} requires a masked-LM head, which tiny does not have: 2 points dropped"
            for name in ("tlm", "mlm", "ppa", "weam", "code_switching")
        ),
        "token_translation requires a masked-LM head, which tiny does not have: 8 evaluations"
        " dropped",
    ]


def test_an_encoder_with_its_head_is_aligned_by_every_method(tmp_path):
    plan = plan_of(tmp_path, "bert.x", "cls.predictions.transform.dense.weight")
    assert len({trial.method for trial in plan.trials}) == len(METHODS)
    assert not [line for line in plan.merged if "masked-LM head" in line]


@pytest.mark.parametrize(
    ("architecture", "weights", "found"),
    [
        ("BertForMaskedLM", None, True),
        ("BertForPreTraining", None, True),
        ("ElectraForPreTraining", None, False),
        ("XLMWithLMHeadModel", None, True),
        ("XLMRobertaModel", None, False),
        ("MT5ForConditionalGeneration", None, False),
        (None, None, None),
        ("XLMRobertaForMaskedLM", {"roberta.x"}, False),
        ("XLMRobertaModel", {"lm_head.dense.weight"}, True),
        (None, {"lm_predictions.lm_head.dense.weight"}, True),
        ("ModernBertForSequenceClassification", {"head.dense.weight", "classifier.bias"}, False),
        ("ModernBertForMaskedLM", {"head.dense.weight", "decoder.bias"}, True),
        ("DistilBertForMaskedLM", {"vocab_transform.weight"}, True),
        ("ElectraForPreTraining", {"discriminator_predictions.dense.weight"}, False),
    ],
)
def test_weights_decide_before_architectures(architecture, weights, found):
    config = {} if architecture is None else {"architectures": [architecture]}
    assert has_head(config, weights) is found


def test_names_of_weights_are_those_of_safetensors_and_a_damaged_file_is_named(tmp_path):
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file({"a.b": torch.zeros(2), "c": torch.ones(1)}, path, {"format": "pt"})
    assert set(weight_shapes(path)) == {"a.b", "c"}
    path.write_bytes(path.read_bytes()[:20])
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"model\.safetensors: its weights are damaged"):
        folder_has_head(tmp_path)
