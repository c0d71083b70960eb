"""Opening Hugging Face folders and hub names: safetensors only, no foreign code, clear errors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from raxalign.corpora.readers.repository import first_line
from raxalign.corpora.text.words import FORMAT_CHARACTERS
from raxalign.encoders.models.folder import (
    ADAPTER,
    AGAIN,
    SAVE_TOKENIZER,
    TOKENIZERS,
    check_folder,
    has_head,
    holds_both,
    looks_like_path,
    read_config,
    weight_headers,
)
from raxalign.encoders.models.hub import encoder_place
from raxalign.encoders.models.model_inputs import KEYS, half_class, is_decoder, is_half
from raxalign.errors import DataError, RaxalignError
from raxalign.extras import require
from raxalign.lazy import torch
from raxalign.options.run import BasePrecision

_MODEL = ("config.json", "*.safetensors", "*.safetensors.index.json", ADAPTER)
_TOKENIZER = (*TOKENIZERS, "*token*.json", "merges.txt")
"""Patterns of the files that transformers makes a model, and a tokenizer, of."""

TextForm = Literal["none", "nfc", "clean"]
"""What is done to a text before the tokenizer's own steps: nothing, composition (Unicode's form C),
or composition without format characters.
"""
TEXT_FORMS: dict[TextForm, list[list[str]]] = {
    "none": [],
    "nfc": [[]],
    "clean": [[], ["\u200b", " "], [FORMAT_CHARACTERS, ""]],
}
"""The steps of each form: a pattern and what replaces it, or nothing for composition."""
_KEPT = "raxalign_normalize"
"""The entry of a model's ``config.json`` by which an encoder keeps its form on disk: transformers
makes some tokenizers anew and drops normalisers of theirs.
"""


def load_model(
    name: str, revision: str | None = None, base: BasePrecision = "fp32"
) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or hub name, float32, on the CPU, in eval mode: a masked LM
    where the folder has a whole one, else the encoder without a head; of T5 and its like, the
    encoder half, as of M2M-100, NLLB and mBART; of a decoder, the base model. With the `base` bf16
    its weights are read in bfloat16, never in float32 first, and held as by `hold`; of a folder
    that has some in float32 on purpose, these stay so. Attention is computed by PyTorch's fused
    kernels where the architecture has them. Raises `DataError` where the folder does not hold a
    whole encoder with safetensors and its tokenizer, `TransientError` where the hub does not
    answer.
    """
    from transformers import AutoConfig, AutoTokenizer

    folder = encoder_place(name, revision)
    if looks_like_path(name):
        name = str(folder)
        check_folder(folder)
    if (folder / ADAPTER).is_file():
        require("peft", f"{name}/{ADAPTER}")  # without it the adapter would be passed over
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    held = base != "fp32"
    exactly = held and holds_both(*folder.glob("*.safetensors"))
    dtype = torch.bfloat16 if held and not exactly else torch.float32
    with quiet(), _explained(name, folder, *_MODEL):
        config = AutoConfig.from_pretrained(folder, **options)
        model = _open(name, folder, config, {**options, "dtype": dtype})
    with quiet(), _explained(name, folder, *_TOKENIZER):
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **options)
        int(tokenizer.model_max_length)  # transformers takes whatever stands there
        _check_fit(name, folder, model, tokenizer)
    keep_text_form(config, tokenizer)
    _own_weights(name, model)
    if held:
        from raxalign.encoders.models.held_base import hold

        hold(model, exactly=exactly)
    return model.eval(), tokenizer


def _open(name: str, folder: Path, config: Any, options: dict[str, Any]) -> Any:
    """The masked LM, or else the encoder without a head."""
    from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForTextEncoding
    from transformers.models.auto import modeling_auto as auto

    names = frozenset(weight_headers(*folder.glob("*.safetensors")))
    if any(weight.startswith("lm_predictions.") for weight in names):
        config.legacy = False  # the head of DeBERTa-v3 as it was published
    kind = type(config)
    if (half := half_class(config)) is not None:
        config.encoder_layerdrop = 0.0  # the states of all blocks are read
        options = {**options, "key_mapping": KEYS}
        model, missing = _read(name, folder, half, config, options)
        _check_whole(name, missing)
        return model
    if kind in auto.MODEL_FOR_MASKED_LM_MAPPING and has_head(config.to_dict(), names) is not False:
        model, missing = _read(name, folder, AutoModelForMaskedLM, config, options)
        _check_whole(name, [w for w in missing if w.startswith(model.base_model_prefix + ".")])
        if not missing:
            return model
    half = auto.MODEL_FOR_TEXT_ENCODING_MAPPING.get(kind, None)
    opener: Any = AutoModelForTextEncoding
    if half is None or not half.__name__.endswith("EncoderModel"):
        opener = AutoModel
        if kind not in auto.MODEL_MAPPING:
            fault = f"is not an encoder that transformers can open ({kind.__name__})"
            raise DataError(name, fault)
        if config.is_encoder_decoder:
            fault = f"is not an encoder: {config.model_type} is an encoder with a decoder"
            remedy = "Name a masked LM, an encoder without a head, a T5, an M2M-100, NLLB or mBART"
            remedy += ", or a decoder"
            raise DataError(name, fault, remedy=remedy)
    model, missing = _read(name, folder, opener, config, options)
    pooler = {weight for weight in missing if weight.startswith("pooler.")}
    if pooler:  # nothing here reads it, and it would be random
        model.pooler = None
    _check_whole(name, set(missing) - pooler)
    return model


def _read(
    name: str, folder: Path, opener: Any, config: Any, options: dict[str, Any]
) -> tuple[Any, list[str]]:
    """The model as a class of transformers opens it, and the weights that the folder lacks."""
    adapted = (folder / ADAPTER).is_file()
    if adapted:  # transformers leaves it apart, where it can be neither trained nor saved
        options = {**options, "adapter_kwargs": {"subfolder": "none"}}
    made = opener._model_mapping[type(config)] if hasattr(opener, "_model_mapping") else opener
    model, info = opener.from_pretrained(
        folder,
        config=config,
        use_safetensors=True,
        attn_implementation=_implementation(made),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are an error, here with names and sizes
        **options,
    )
    for label, stored, asked in sorted(info["mismatched_keys"]):
        fault = f"its weights do not fit its config.json: {label} has the shape {tuple(stored)}"
        remedy = "Copy both from one place"
        raise DataError(name, f"{fault}, and the config asks for {tuple(asked)}", remedy=remedy)
    if adapted:
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")
            model = PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
    return model, sorted(info["missing_keys"])


def _implementation(model: Any) -> str | None:
    """The attention of a model's class by its name in transformers, None for its own choice."""
    if is_decoder(model.config_class):
        return None  # transformers knows which decoders need the plain products
    return "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"


def _check_whole(name: str, missing_keys: Iterable[str]) -> None:
    if missing := sorted(missing_keys):
        some = ", ".join(missing[:3])
        fault = f"is not a whole encoder: {len(missing)} weights are missing ({some})"
        raise DataError(name, fault, remedy="Save it again with save_pretrained, or name another")


def _own_weights(name: str, model: Any) -> None:
    """Copy the weights out of the mapped file. Raises `DataError` where one is not finite."""
    for label, parameter in model.named_parameters():
        if not torch.isfinite(parameter.detach().sum()):
            fault = f"its weights hold NaN or infinite values ({label})"
            raise DataError(name, fault, remedy="Its training diverged: take an earlier checkpoint")
        # Loaded weights are views of the mapped file, at odd addresses. Their products are
        # slower, and not bit-equal to those of trained ones.
        parameter.data = parameter.data.clone()


def _check_fit(name: str, folder: Path, model: Any, tokenizer: Any) -> None:
    """The tokenizer is fast, every piece has an embedding, and half of these at least a piece."""
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        fault = "its tokenizer has no fast form (tokenizer.json)"
        remedy = "Words are mapped to pieces by it; convert the tokenizer"
        raise DataError(name, fault, remedy=remedy)
    rows, pieces = model.get_input_embeddings().num_embeddings, len(tokenizer)
    made_of = sorted(path.name for pattern in TOKENIZERS for path in folder.glob(pattern))
    remedy = f"{', '.join(made_of)} and the model do not belong together"
    if pieces <= rows <= 2 * pieces:
        return
    only = "only " if pieces > rows else ""
    remedy += "" if only else f". {SAVE_TOKENIZER}"
    fault = f"its tokenizer has {pieces} pieces, but the model {only}{rows} embeddings"
    raise DataError(name, fault, remedy=remedy)


@contextmanager
def _explained(name: str, folder: Path, *patterns: str) -> Iterator[None]:
    """Turn what transformers raises on the files of a folder that it opens in the block into the
    user's errors, which name the file that cannot be read by itself, else all that may be wrong.
    """
    try:
        yield
    except (RaxalignError, MemoryError, ImportError):
        raise
    except Exception as error:  # the tokenizers library raises nothing else
        files = sorted({path for pattern in patterns for path in folder.glob(pattern)})
        rest = [path.name for path in files if not _is_whole(path)]
        reason = first_line(error)
        if "tiktoken" in reason:  # the last form that is tried, after that of SentencePiece
            reason = "in no form of a tokenizer"
        told = f"{', '.join(rest)} ({reason})"
        fault = f"is not an encoder that transformers can open: {told}"
        raise DataError(name, fault, remedy=f"{AGAIN}, or name another") from error


def _is_whole(path: Path) -> bool:
    """Return whether nothing is wrong with a file, as far as it alone can show it; False where only
    the whole folder can. Raises `DataError` where something is.
    """
    from tokenizers import Tokenizer

    if path.suffix == ".safetensors":
        return bool(weight_headers(path))
    if path.suffix == ".json":
        read_config(path)
    try:
        if path.suffix == ".txt":
            path.read_text(encoding="utf-8")
        if path.name == "tokenizer.json":
            Tokenizer.from_file(str(path))
    except Exception as error:
        fault = f"cannot be read as a part of a tokenizer ({first_line(error)})"
        raise DataError(path, fault, remedy=AGAIN) from error
    return path.name == "tokenizer.json"


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no reports of weights from transformers; what is wrong is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a folder that `AutoModel`, or `AutoModelForMaskedLM`, and `AutoTokenizer` open. What is
    held in bfloat16 is written so, and transformers opens all of it in float32, without rounding.
    """
    with quiet():
        # of half a model the names are its own, not those of the whole one that it was read from
        model.save_pretrained(folder, save_original_format=not is_half(model))
        tokenizer.save_pretrained(folder)
    if len({parameter.dtype for parameter in model.parameters()}) > 1:
        path = folder / "config.json"  # where transformers wrote the type of the first weight
        config = {**read_config(path), "dtype": "float32"}
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def set_text_form(config: Any, tokenizer: Any, form: TextForm) -> None:
    """Put a form before the tokenizer's own steps from now on; `config` keeps it."""
    setattr(config, _KEPT, form)
    keep_text_form(config, tokenizer)


def text_form(config: Any) -> TextForm:
    """Return the form that a config keeps."""
    form: TextForm = getattr(config, _KEPT, "none")
    return form


def keep_text_form(config: Any, tokenizer: Any) -> None:
    """Put the form that a config keeps, if any, before the tokenizer's own steps."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = [
        normalizers.Replace(Regex(step[0]), step[1]) if step else normalizers.NFC()
        for step in TEXT_FORMS[text_form(config)]
    ]
    backend = tokenizer.backend_tokenizer
    own = [] if backend.normalizer is None else [backend.normalizer]
    if steps:
        backend.normalizer = normalizers.Sequence([*steps, *own])
