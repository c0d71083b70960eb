"""Decoders (causal language models such as Qwen, Llama, Gemma and Mistral) read as encoders: their
hidden states, without a language-modelling head.

A piece sees only the pieces before it, unless an encoder is opened as `bidirectional`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raxalign.encoders.models.pieces import PieceRow
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import torch

_BOTH_WAYS = "raxalign_bidirectional"
"""The entry of a model's ``config.json`` by which a decoder stays bidirectional on disk."""


def is_decoder(config: Any) -> bool:
    """Return whether transformers has the architecture of a config as a causal LM alone. What it
    has as a masked LM too, such as BERT, is an encoder.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED,
    )

    return config.model_type in CAUSAL and config.model_type not in MASKED


def make_bidirectional(model: Any) -> None:
    """Let every piece of a decoder see the whole row from now on. Its ``config.json`` keeps this.

    Raises `RaxalignError` for an encoder, which is bidirectional as it is.
    """
    if not is_decoder(model.config):
        raise RaxalignError(
            f"bidirectional: {type(model).__name__} is not a decoder; its pieces see the whole row"
            " already. Leave the option out"
        )
    setattr(model.config, _BOTH_WAYS, True)


def is_bidirectional(config: Any) -> bool:
    """Return whether a decoder was made bidirectional."""
    return bool(getattr(config, _BOTH_WAYS, False))


def attention_inputs(model: Any, mask_BT: torch.Tensor) -> dict[str, Any]:
    """Return what the forward pass of a model gets for its attention, by the mask of real pieces:
    encoders get it as it is. For decoders there is no cache of keys and values, and a bidirectional
    one gets a mask (B, 1, T, T) in the place of the causal one, sliding windows included.
    """
    import torch

    if not is_decoder(model.config):
        return {"attention_mask": mask_BT}
    if not is_bidirectional(model.config):
        return {"attention_mask": mask_BT, "use_cache": False}
    dtype, width = next(model.parameters()).dtype, mask_BT.shape[1]
    hidden_B1TT = (mask_BT == 0)[:, None, None, :].expand(-1, 1, width, -1)
    added_B1TT = torch.zeros(hidden_B1TT.shape, dtype=dtype, device=mask_BT.device)
    added_B1TT = added_B1TT.masked_fill(hidden_B1TT, torch.finfo(dtype).min)
    return {"attention_mask": added_B1TT, "use_cache": False}


def with_a_piece(row: PieceRow, filler: int) -> PieceRow:
    """Return a row that has one piece at least: the `filler`, which belongs to no word, where a
    tokenizer without special pieces makes nothing of a text. A row of padding alone has no states.
    """
    if len(row):
        return row
    none = np.array([-1])
    return PieceRow(np.array([filler]), none, none, 1, row.n_words, row.languages)


def summary_places(model: Any, starts_S: np.ndarray, lengths_S: np.ndarray) -> np.ndarray:
    """Return the place of the piece that stands for each row, (S,), which begins at `starts_S`: of
    an encoder the first piece ([CLS]), of a decoder the last one, which alone has seen the others.
    """
    return starts_S + lengths_S - 1 if is_decoder(model.config) else starts_S
