"""Encoders of the Hugging Face kind: what a folder or a name is, how many layers it has, and what a
user sees where the hub, asked over HTTP on loopback, does not give it.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.hub import cached_config, hub_call
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.static import Static
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, TransientError
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.grid.lock import Lock
from raxalign.options.sources import LocalFile, RemoteData
from tests.grids import write_grid
from tests.single.loopback_hub import COMMIT, hub_in_use, use_hub
from tests.tiny import tiny_bert


def kind(name, revision=None):
    return Transformer(Transformer.Params(name=str(name), revision=revision))


USUAL = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
UNREAD = ("README.md", ".gitattributes", "pytorch_model.bin", "optimizer.pt", "tf_model.h5")
UNREAD += ("model.onnx", "training_args.bin", "modeling.py", "checkpoint-5/config.json")
UNREAD += ("generation_config.json", "sentence_bert_config.json", "onnx/tokenizer.json")
READ = ("adapter_config.json", "adapter_model.safetensors", "spm.model", "tokenizer.model")
READ += ("bpe.codes", "dict.txt", "target_vocab.json", "qwen.tiktoken", "1_Pooling/config.json")


def test_a_folder_is_known_by_every_file_but_those_that_nothing_reads(tiny_folder, tmp_path):
    """One more file that the library opens makes another encoder. Usual folders keep their keys."""
    folder = shutil.copytree(tiny_folder, tmp_path / "encoder")
    for names, expected in ((UNREAD, USUAL), (READ, [*USUAL, *READ])):
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("{}")
        sources = kind(folder).sources()
        assert sources == {name: LocalFile(folder / name) for name in sorted(expected)}


def test_the_adapter_in_a_folder_is_part_of_its_weights_and_is_saved_with_them(
    tiny_folder, tmp_path
):
    """transformers alone keeps it apart: what was saved of such an encoder could not be opened."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForMaskedLM

    folder, pieces = shutil.copytree(tiny_folder, tmp_path / "encoder"), torch.arange(8)[None]
    config = LoraConfig(target_modules=["query"], r=2, init_lora_weights=False)
    adapted = get_peft_model(AutoModelForMaskedLM.from_pretrained(folder), config).eval()
    adapted.save_pretrained(folder)
    encoder = kind(folder).load(EncoderInputs(), "cpu")
    encoder.save(tmp_path / "saved")
    again = kind(tmp_path / "saved").load(EncoderInputs(), "cpu")
    with torch.no_grad():
        expected = adapted(pieces).logits
        assert all(
            torch.allclose(found.model(pieces).logits, expected, atol=1e-4)
            for found in (encoder, again)
        )
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(DataError, match=r"adapter_config\.json\) without adapter_model\.safet"):
        kind(folder).sources()


def test_a_hub_name_is_known_by_its_revision():
    for pin in ("abc", None):
        found = kind("someone/encoder", pin).sources()
        assert found == {"encoder": RemoteData("hub:someone/encoder", pin=pin)}
    assert kind("someone/encoder").label() == "encoder"


def pickle(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncate(folder):
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def change_architecture(folder):
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1}
    (folder / "config.json").write_text(json.dumps(config))


def swap_tokenizer(folder):
    larger = tiny_bert(folder.parent / "larger", [f"word{i}" for i in range(200)])
    shutil.copy(larger / "tokenizer.json", folder / "tokenizer.json")


def use_few_pieces(folder):
    """The encoder becomes a larger one, whose tokenizer stays small."""
    small = (folder / "tokenizer.json").read_bytes()
    shutil.rmtree(folder)
    tiny_bert(folder, [f"word{i}" for i in range(400)])
    (folder / "tokenizer.json").write_bytes(small)


def put_nan(folder):
    encoder = TransformerEncoder.from_folder(folder)
    with torch.no_grad():
        encoder.model.bert.encoder.layer[1].output.dense.bias[3] = float("nan")
    encoder.save(folder)


def remove_tokenizer(folder):
    """transformers would make one of five special pieces, to which every word is unknown."""
    (folder / "tokenizer.json").unlink()


BROKEN = [
    (shutil.rmtree, "encoder: no such encoder folder"),
    (remove_tokenizer, r"no tokenizer \(none of tokenizer\.json, vocab\.txt.*save_pretrained"),
    (pickle, r"no \*\.safetensors \(pytorch_model\.bin\).*save_pretrained"),
    (truncate, "encoder"),
    (change_architecture, "is not a whole encoder"),
    (swap_tokenizer, r"tokenizer has \d+ subword tokens, but the model only \d+ embeddings"),
    (
        use_few_pieces,
        r"\d+ subword tokens, but the model \d+ embeddings\. .*do not belong together",
    ),
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


DAMAGED = [
    ("config.json", "[1, 2]"),
    ("config.json", '{"model_type": "bert", "hidden_size": "x"}'),
    ("tokenizer.json", '{"version": "1.0"'),
    ("tokenizer.json", '{"version": "1.0", "model": {"type": "WordPiece", "vocab": [1]}}'),
    ("tokenizer_config.json", '{"added_tokens_decoder": [1]}'),
    ("tokenizer_config.json", '{"model_max_length": "x"}'),
    ("special_tokens_map.json", "null"),
    ("vocab.txt", b"[PAD]\n\xff\n"),
    ("sentencepiece.bpe.model", b"no vocabulary"),
    ("model.safetensors", b""),
    ("modules.json", '[{"idx": 0}]'),
    ("transforms.json", "{"),
]


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_damaged_file_of_an_encoder_is_named(tiny_folder, tmp_path, name, content):
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "encoder"))
    if name in ("vocab.txt", "sentencepiece.bpe.model"):
        remove_tokenizer(folder)
    if name.endswith(".model"):
        settings = {"tokenizer_class": "XLMRobertaTokenizer"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    said = "".join(kind(folder).check())
    if not said:
        with pytest.raises(DataError) as error:
            kind(folder).load(EncoderInputs(), "cpu")
        said = str(error.value)
    assert re.search(rf"{folder}.*\b{re.escape(name)}.*(Save|download)", said)


def test_embeddings_that_are_padded_are_no_fault(tiny_folder, tmp_path):
    encoder = TransformerEncoder.from_folder(tiny_folder)
    encoder.model.resize_token_embeddings(128)
    encoder.save(tmp_path)
    again = TransformerEncoder.from_folder(tmp_path)
    assert again.model.get_input_embeddings().num_embeddings == 128


def test_a_name_that_is_neither_a_folder_nor_a_hub_name_is_a_fault_before_anything_runs():
    for name in ("a b//c", "one/two/three", "/".join(["x"] * 5), "-x", "a--b"):
        (fault,) = kind(name).check()
        assert fault.startswith(f"{name} is neither a folder nor a name on the Hugging Face Hub")
        with pytest.raises(DataError, match="neither a folder nor a name on the Hugging Face Hub"):
            kind(name).fetch()
    for name in ("bert-base-multilingual-cased", "FacebookAI/xlm-roberta-base", "a_b/c.d-1"):
        assert kind(name).check() == []


def nothing(name):
    """A lock without entries."""


def test_a_config_says_its_layers_by_any_of_their_names_and_own_encoders_know_them(tmp_path):
    encoder, config = Transformer(Transformer.Params(name=str(tmp_path))), tmp_path / "config.json"
    texts = {"{}": None}
    for key in ("num_hidden_layers", "n_layers", "num_layers", "n_layer"):
        texts[json.dumps({"hidden_size": 8, key: 5})] = 5
    for text, depth in texts.items():
        config.write_text(text, encoding="utf-8")
        assert encoder.depth(nothing) == depth
    config.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"config\.json: cannot be read"):
        encoder.depth(nothing)
    assert Scratch(Scratch.Params(layers=4)).depth(nothing) == 4
    assert Static(Static.Params()).depth(nothing) == 0


def test_a_hub_name_has_the_depth_of_its_revision_in_the_lock_or_in_the_local_cache(
    monkeypatch, tmp_path
):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    lock = {"hub:some/bert": COMMIT, f"depth:some/bert@{COMMIT}": "6"}
    for revision, depth in ((None, 6), (COMMIT, 6), ("e" * 40, None)):
        assert kind("some/bert", revision).depth(lock.get) == depth
    snapshot = tmp_path / "models--some--bert" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"n_layers": 6}', encoding="utf-8")
    assert cached_config("some/bert", COMMIT) == {"n_layers": 6}
    assert (cached_config("some/bert", None), cached_config("some/bert", "e" * 40)) == (None, None)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    assert kind("some/bert").depth(nothing) == 6


def opened(folder):
    """A grid of a hub name whose revision the lock has."""
    methods, tasks = ("none: {}", "rotation: {}"), ("low: {kind: retrieval, layers: 3}",)
    parts = {"methods": methods, "tasks": tasks, "sentences": "50"}
    path = write_grid(folder, encoder="some/bert", **parts)
    Lock.load(path).with_("hub:some/bert", COMMIT).save()
    return open_grid(path, storage=str(folder / "storage"))


def test_a_grid_looks_the_depth_up_once_and_its_lock_keeps_it(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    asked = []
    config = {"architectures": ["BertForMaskedLM"], "num_hidden_layers": 12}
    fetched = "raxalign.encoders.transformer.fetched_config"
    monkeypatch.setattr(fetched, lambda *name: asked.append(name) or config)
    monkeypatch.setattr("raxalign.encoders.transformer.HubEncoder.lacks", lambda *_: True)
    first = opened(tmp_path)
    assert (first.plan.unresolved, first.plan.unknown_depths) == ((), ("bert",))
    found = first.resolved(tmp_path)
    assert {task for trial in found.plan.trials for task in trial.untouched} == {"low"}
    again = open_grid(first.grid.path, storage=first.root)
    assert again.plan == found.plan == again.resolved(tmp_path).plan
    assert [name[:2] for name in asked] == [("some/bert", COMMIT)]  # for its depth and its head
    assert Lock.load(first.grid.path).get(f"depth:some/bert@{COMMIT}") == "12"
    assert Lock.load(first.grid.path).get(f"head:some/bert@{COMMIT}") == "masked-lm"
    assert Lock.load(first.grid.path).get(f"sentences:some/bert@{COMMIT}") == "none"
    assert load(first.grid.path) == first.grid


def test_a_hub_out_of_reach_leaves_the_depth_open_and_the_plan_says_so(monkeypatch, tmp_path):
    def unreachable(name, revision, *_):
        raise TransientError(f"{name} at {revision}: no answer")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("raxalign.encoders.transformer.fetched_config", unreachable)
    plan = opened(tmp_path).resolved(tmp_path).plan
    assert plan.unknown_depths == ("bert",)
    assert any("the number of layers of bert is not known" in remark for remark in plan.remarks())
    assert all(trial.evaluations for trial in plan.trials), "no result is missing for it"


_REFUSALS = {"gated": (403, "GatedRepo"), "missing": (404, "RepoNotFound"), "busy": (503, "")}
_REFUSALS |= {"unknown": (401, "RepoNotFound"), "forbidden": (403, "")}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Repositories `some/NAME` refuse by their names, and `some/encoder` has a config alone."""
    config = {"num_hidden_layers": 7, "architectures": ["BertModel"], "model_type": "bert"}
    monkeypatch.setenv("DISABLE_SAFETENSORS_CONVERSION", "1")  # asks another server for weights
    # The client waits between its tries.
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    with hub_in_use(tmp_path / "cache", monkeypatch) as server:
        server.refusals = {f"some/{name}": told for name, told in _REFUSALS.items()}
        server.repositories["some/encoder"] = {"config.json": json.dumps(config).encode()}
        yield


@pytest.fixture
def no_hub(tmp_path, monkeypatch):
    """An endpoint at which nothing listens."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    use_hub("http://127.0.0.1:9", tmp_path / "cache", monkeypatch)


def of_lock(name):
    """A lock that has the commit of every name, and nothing else."""
    return COMMIT if name.startswith("hub:") else None


def calls(encoder):
    """What is asked of a hub, by its purpose."""
    return {
        "look up its revision": encoder.fetch,
        "look up its layers and its head": lambda: encoder.fetch_config(of_lock),
        "load it": lambda: encoder.load(EncoderInputs(), "cpu"),
    }


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("some/gated", DataError, r"gated encoder.*Accept its terms.*`hf auth login` or set HF_"),
        ("some/missing", DataError, r"the hub has no such encoder\. Is it a folder\?.*\./name"),
        ("some/unknown", DataError, r"the hub has no such encoder\..*Is it private\? Then log in"),
        ("some/forbidden", DataError, r"the hub refuses access \(403\)\. Log in with `hf auth"),
        ("some/busy", TransientError, r"the Hugging Face Hub fails to answer \(503\).*again later"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_what_the_hub_refuses_is_one_sentence_with_the_name_and_the_remedy(name, error, message):
    for call in calls(kind(name)).values():
        with pytest.raises(error, match=f"^{name}: .*{message}") as found:
            call()
        assert "\n" not in str(found.value)


@pytest.mark.usefixtures("hub")
def test_a_revision_and_weights_that_the_hub_does_not_have_are_named():
    with pytest.raises(DataError, match="some/encoder: the hub has no revision 'v9' of it"):
        kind("some/encoder", "v9").load(EncoderInputs(), "cpu")
    with pytest.raises(DataError, match=r"some/encoder: .*safetensors"):
        kind("some/encoder", COMMIT).load(EncoderInputs(), "cpu")


@pytest.mark.usefixtures("hub")
def test_the_config_on_the_hub_tells_layers_and_head_of_the_revision():
    encoder = kind("some/encoder")
    assert encoder.fetch() == {"hub:some/encoder": COMMIT}
    assert encoder.has_head(of_lock) is None
    found = encoder.fetch_config(of_lock)
    assert found == {f"depth:some/encoder@{COMMIT}": "7", f"head:some/encoder@{COMMIT}": "none"}
    assert encoder.has_head({**found, "hub:some/encoder": COMMIT}.get) is False


@pytest.mark.usefixtures("no_hub")
def test_a_hub_out_of_reach_is_worth_a_retry_whatever_is_asked_of_it(monkeypatch):
    for purpose, call in calls(kind("some/encoder")).items():
        if purpose == "load it":  # asks for many files, each with tries: its offline form is enough
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        said = rf"^some/encoder: .* cannot be reached \(.*\), asked to {purpose}\. Go online, .*"
        with pytest.raises(TransientError, match=said):
            call()


def test_another_error_is_not_taken_for_the_hubs():
    with pytest.raises(ValueError, match="a bug"), hub_call("some/encoder", "load it"):
        raise ValueError("a bug")
