"""The masked-LM head of an encoder: whether a folder or a hub name has one, by its config and the
names of its weights alone, and how an opened model's head is applied.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.errors import DataError, RaxalignError

if TYPE_CHECKING:
    import torch

_ARCHITECTURES = re.compile(r"(?!Electra).*(ForMaskedLM|ForPreTraining)|(XLM|Flaubert)With.*")
_WEIGHTS = re.compile(
    r"cls\.predictions\.|lm_head\.(dense|layer_norm|weight)|vocab_transform\.|lm_predictions\."
    r"|pred_layer\.proj|predictions\.dense|generator_predictions\.|head\.linear1\."
)
# ModernBERT's classifiers have `head.dense` too, but not the decoder.
_MODERN = frozenset({"head.dense.weight", "decoder.bias"})


def has_head(config: Mapping[str, Any], weights: Collection[str] | None) -> bool | None:
    """Whether an encoder has a masked-LM head.

    Args:
        config: The content of its ``config.json``.
        weights: The names of its weights; None where they are not known.

    Returns:
        What the names show; else what the recorded architectures promise; None where neither
        is known.
    """
    if config.get("is_encoder_decoder"):
        return False
    architectures = config.get("architectures")
    named = architectures if isinstance(architectures, list) else []
    if named and all(str(name).endswith("ForCausalLM") for name in named):
        return False  # a decoder's head predicts the next word
    if weights is not None:
        return any(map(_WEIGHTS.match, weights)) or weights >= _MODERN  # type: ignore[operator]
    return any(_ARCHITECTURES.fullmatch(str(name)) for name in named) if named else None


def folder_has_head(folder: Path) -> bool:
    """Whether the encoder of a folder has a masked-LM head. Raises `DataError` where its config or
    the header of its weights cannot be read.
    """
    return has_head(read_config(folder / "config.json"), weight_names(folder)) is True


def read_config(path: Path) -> Mapping[str, Any]:
    """The content of a ``config.json``. Raises `DataError` where the file is not whole."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(
            path,
            f"cannot be read as an encoder's config ({error})",
            remedy="Save the encoder again, or download it again",
        ) from error
    return config if isinstance(config, dict) else {}


def weight_names(folder: Path) -> frozenset[str]:
    """The names of the weights in all safetensors files of a folder, from their headers. Raises
    `DataError` where one is damaged.
    """
    return frozenset(name for path in folder.glob("*.safetensors") for name in names_in(path))


def names_in(path: Path) -> frozenset[str]:
    """The names of the weights in a safetensors file: its header is JSON, after eight bytes with
    the header's length. Raises `DataError` where it is damaged.
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError("its header is cut off")
            header = json.loads(file.read(length))
        return frozenset(header) - {"__metadata__"}
    except (OSError, ValueError, TypeError, struct.error) as error:
        raise DataError(
            path,
            f"its weights are damaged ({error})",
            remedy="Copy or download the folder again",
        ) from error


def apply_head(model: Any, states: torch.Tensor) -> torch.Tensor:
    """Logits (..., V) of the masked-LM head on last-layer states (..., H).

    Raises:
        RaxalignError: The model has no masked-LM head, or one that is not known here.
    """
    if model.base_model is model:
        raise RaxalignError(
            f"{type(model).__name__}: this encoder has no masked-LM head, which predicts words; use"
            " one that was saved with its head (AutoModelForMaskedLM)"
        )
    if hasattr(model, "cls"):
        logits = model.cls(states)
    elif hasattr(model, "lm_head"):
        logits = model.lm_head(states)
    elif hasattr(model, "vocab_transform"):
        logits = model.vocab_projector(
            model.vocab_layer_norm(model.activation(model.vocab_transform(states)))
        )
    elif hasattr(model, "lm_predictions"):  # DeBERTa, whose head reads the input embeddings
        logits = model.lm_predictions(states, model.get_input_embeddings())
    elif hasattr(model, "pred_layer"):
        logits = model.pred_layer.proj(states)
    elif hasattr(model, "generator_predictions"):
        logits = model.generator_lm_head(model.generator_predictions(states))
    elif hasattr(model, "predictions"):
        logits = model.predictions(states)
    elif hasattr(model, "head"):
        logits = model.decoder(model.head(states))
    else:
        raise RaxalignError(f"{type(model).__name__}: no known masked-LM head")
    return logits  # type: ignore[no-any-return]
