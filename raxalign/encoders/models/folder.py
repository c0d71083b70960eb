"""What an encoder's name or folder shows before anything is loaded: whether it is a folder or a hub
name, whether it holds an encoder, its depth and size, and whether it has a masked-LM head.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

from raxalign.errors import DataError
from raxalign.store.sealed import parse

_Form = TypeVar("_Form")
AGAIN = "Save or download the encoder again"
SAVE_TOKENIZER = "Save the tokenizer next to the model: tokenizer.save_pretrained(folder)"
POOLING = "*_Pooling/config.json"
"""The pattern of the file by which sentence-transformers pools, which is in a folder of its own."""
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_DEPTHS = ("encoder_layers", "num_hidden_layers", "n_layers", "num_layers", "n_layer")
"""What translation models, BERT, DistilBERT and XLM, and others call the number of blocks."""
_ARCHITECTURES = re.compile(r"(?!Electra).*(ForMaskedLM|ForPreTraining)|(XLM|Flaubert)With.*")
_WEIGHTS = re.compile(
    r"cls\.predictions\.|lm_head\.(dense|layer_norm|weight)|vocab_transform\.|lm_predictions\."
    r"|pred_layer\.proj|predictions\.dense|generator_predictions\.|head\.linear1\."
)
_UNREAD = re.compile(r"(model\.)?decoder\.|lm_head\.|final_logits_bias")  # of a translation model
_NEVER_READ = (
    *(".*", "*~", "README*", "LICEN[CS]E*", "NOTICE*", "*POLICY*", "*.md", "*.pdf", "*.png"),
    *("*.jpg", "*.jpeg", "*.svg", "*.gif", "*.py", "*.sh", "*.ipynb", "*.yaml", "*.yml", "*.xml"),
    *("*.csv", "*.tsv", "*.log", "*.jsonl", "*.parquet", "*.zip", "*.gz", "*.tar", "*.tfevents.*"),
    *("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.npz", "*.h5", "*.msgpack", "*.ot"),
    *("*.onnx*", "*.gguf", "*.tflite", "*.mlmodel", "*.bin.index.json", "*.h5.index.json"),
    *("generation_config.json", "chat_template.*", "trainer_state.json", "*results.json"),
    *("sentence_bert_config.json", "sentences.json", "transforms.json"),
)
"""Patterns of the files in an encoder's folder that nothing opens: descriptions, weights in formats
that are not safetensors, code, and what trainers and sentence-transformers keep for themselves.
"""
ADAPTER = "adapter_config.json"
_INDEX = "model.safetensors.index.json"
_POINTER = b"version https://git-lfs.github.com/"
# ModernBERT's classifiers have `head.dense` too, but not the decoder.
_MODERN = frozenset({"head.dense.weight", "decoder.bias"})


def is_hub_name(name: str) -> bool:
    """Return whether a name can be one on the hub: ``name`` or ``owner/name`` in ASCII."""
    known = re.fullmatch(r"(?!.*(\.\.|--))(\w[\w.-]*/)?\w[\w.-]*", name, re.ASCII)
    return len(name) <= 96 and known is not None


def read_paths(paths: Iterable[str]) -> set[str]:
    """Return those of the relative paths of an encoder's files from which it is opened: all but
    those known to be never read, and of its folders those of a sentence's vector.
    """
    paths = list(paths)
    own = {p for p in paths if "/" not in p and not any(fnmatch(p, name) for name in _NEVER_READ)}
    return own | {p for p in paths if p.count("/") == 1 and fnmatch(p, POOLING)}


def check_folder(folder: Path) -> None:
    """Raise `DataError` unless there are a config, safetensors weights and a vocabulary."""
    fault, remedy = "", ""
    if folder.is_file():
        fault = "is a file, not an encoder's folder"
        remedy = f"Name its folder {folder.parent}"
    elif not folder.is_dir():
        fault = "no such encoder folder"
        remedy = "Name a folder that AutoModel opens, or a hub name"
    elif not (folder / "config.json").is_file():
        fault = "has no config.json, so it is not an encoder"
        remedy = "Name the folder that save_pretrained of transformers wrote"
    elif not any(folder.glob("*.safetensors")):
        others = sorted(p.name for p in [*folder.glob("*.bin"), *folder.glob("*.pt")])
        fault = f"has no *.safetensors ({', '.join(others) or 'no weights at all'})"
        remedy = "raxalign unpickles nothing: load it in transformers and save_pretrained it again"
    elif not any(path.is_file() for pattern in TOKENIZERS for path in folder.glob(pattern)):
        # transformers would make a tokenizer of the special pieces alone, to which every word is
        # unknown.
        fault = f"has no tokenizer (none of {', '.join(TOKENIZERS)})"
        remedy = SAVE_TOKENIZER
    elif (folder / ADAPTER).is_file() and not (folder / "adapter_model.safetensors").is_file():
        fault = f"has an adapter ({ADAPTER}) without adapter_model.safetensors"
        remedy = "Save the adapter in safetensors, or remove its configuration"
    elif absent := sorted(_absent_files(folder)):
        fault = f"lacks {', '.join(absent)}, of which it has the name, or a pointer of git-lfs"
        remedy = "Run `git lfs pull` in the folder, or download it again"
    if fault:
        raise DataError(folder, fault, remedy=remedy)


def _absent_files(folder: Path) -> Iterator[str]:
    """Yield the files in whose place git-lfs has left a pointer, and those that an index of weights
    names and that are not there.
    """
    for name in read_paths(path.name for path in folder.iterdir() if path.is_file()):
        with (folder / name).open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                yield name
    if (folder / _INDEX).is_file() and not (folder / "model.safetensors").is_file():
        shards = read_config(folder / _INDEX).get("weight_map", {}).values()
        yield from (name for name in set(shards) if not (folder / name).is_file())


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``, or of another JSON object in an encoder's folder.
    Raises `DataError` where the file is not whole, or something else.
    """
    return read_json(path, dict[str, Any])


def read_json(path: Path, form: type[_Form]) -> _Form:
    """Return the content of a JSON file in an encoder's folder. Raises `DataError` where it has
    another form.
    """
    try:
        return parse(path.read_bytes(), form)
    except (OSError, ValueError) as error:
        raise DataError(path, f"cannot be read: it {error}", remedy=AGAIN) from error


def config_depth(config: Mapping[str, Any]) -> int | None:
    """Return the number of blocks that a ``config.json`` records, if it does."""
    return _first(config, *_DEPTHS)


def holds_both(*paths: Path) -> bool:
    """Return whether some matrices in safetensors files are in bfloat16 and others in float32, as
    adapters leave them in a base that is held in bfloat16.
    """
    entries = weight_headers(*paths).values()
    return {e.get("dtype") for e in entries if len(e.get("shape", [])) > 1} >= {"BF16", "F32"}


def weight_headers(*paths: Path) -> dict[str, Any]:
    """Return what the headers of safetensors files record of each weight by its name, ``shape`` and
    ``dtype``: a header is JSON, after eight bytes with its length. Raises `DataError` where one is
    damaged.
    """
    found: dict[str, Any] = {}
    for path in paths:
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if length > path.stat().st_size:
                    raise ValueError("its header is cut off")
                header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            ends = [entry.get("data_offsets", (0, 0))[1] for entry in header.values()]
            if 8 + length + max(ends, default=0) > path.stat().st_size:
                raise ValueError("the file is cut off")
            found |= {name: dict(entry) for name, entry in header.items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
            raise DataError(path, f"its weights are damaged ({error})", remedy=AGAIN) from error
    return found


def is_causal(config: Mapping[str, Any]) -> bool:
    """Return whether the architectures in a ``config.json`` are those of a decoder with a head."""
    named = config.get("architectures")
    return (
        isinstance(named, list)
        and bool(named)
        and all(str(name).endswith("ForCausalLM") for name in named)
    )


def has_head(config: Mapping[str, Any], weights: Collection[str] | None) -> bool | None:
    """Return whether an encoder has a masked-LM head: what the names of its weights show, else what
    the architectures in its ``config.json`` promise; None where neither is known.
    """
    if config.get("is_encoder_decoder"):
        return False
    architectures = config.get("architectures")
    named = architectures if isinstance(architectures, list) else []
    if is_causal(config):
        return False  # a decoder's head predicts the next word
    if weights is not None:
        return any(map(_WEIGHTS.match, weights)) or set(weights) >= _MODERN
    return any(_ARCHITECTURES.fullmatch(str(name)) for name in named) if named else None


def folder_has_head(folder: Path) -> bool:
    """Return whether the encoder of a folder has a masked-LM head. Raises `DataError` where its
    config or the header of its weights cannot be read.
    """
    weights = weight_headers(*folder.glob("*.safetensors"))
    return has_head(read_config(folder / "config.json"), weights) is True


@dataclass(frozen=True)
class Footprint:
    """About how many `parameters` an encoder has, the `width` of its hidden states, and how many of
    the parameters are in `blocks`, which each token passes (0: not known).
    """

    parameters: int
    width: int
    blocks: int = 0


def footprint_of(
    layers: int, hidden: int, inner: int, vocabulary: int, positions: int, widths: int = 2
) -> Footprint:
    """Return the sizes of a masked LM whose head shares the embeddings: four square matrices of
    attention per block, `widths` of a feed-forward layer (3: a gated one), norms and biases.
    """
    blocks = layers * (4 * hidden**2 + widths * hidden * inner + 9 * hidden + inner)
    head = hidden * hidden + 3 * hidden + vocabulary
    return Footprint((vocabulary + positions + 4) * hidden + blocks + head, hidden, blocks)


def config_footprint(config: Mapping[str, Any], folder: Path | None = None) -> Footprint | None:
    """Return the sizes of an encoder; None where its config does not record them. The headers of
    the weights in a folder count its parameters exactly.
    """
    hidden = _first(config, "hidden_size", "d_model", "dim", "emb_dim", "n_embd")
    layers, vocabulary = _first(config, *_DEPTHS), _first(config, "vocab_size", "n_words")
    if hidden is None or layers is None or vocabulary is None:
        return None
    inner = _first(config, "intermediate_size", "d_ff", "hidden_dim") or 4 * hidden
    rotary = "rope_theta" in config or "rope_parameters" in config
    positions = 0 if rotary else _first(config, "max_position_embeddings") or 0
    is_gated = config.get("is_gated_act") or "rms_norm_eps" in config
    found = footprint_of(layers, hidden, inner, vocabulary, positions, 3 if is_gated else 2)
    counted = 0
    with suppress(DataError):  # loading them reports what is wrong
        weights = [] if folder is None else folder.glob("*.safetensors")
        headers = weight_headers(*weights)
        read = (n for n in headers if not (config.get("is_encoder_decoder") and _UNREAD.match(n)))
        counted = sum(math.prod(headers[name].get("shape", [])) for name in read)
    return replace(found, parameters=counted) if counted else found


def _first(config: Mapping[str, Any], *names: str) -> int | None:
    return next((config[name] for name in names if isinstance(config.get(name), int)), None)
