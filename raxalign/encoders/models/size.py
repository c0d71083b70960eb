"""How many parameters an encoder has, by the headers of its weights or by its config alone: a plan
estimates bytes on disk before anything is loaded.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The sizes of a transformer that decide its number of parameters; `widths` counts the
    matrices of a feed-forward layer (3 for a gated one).
    """

    layers: int
    hidden_size: int
    intermediate: int
    vocab_size: int
    positions: int
    widths: int = 2

    @property
    def parameters(self) -> int:
        """About how many parameters there are: embeddings, four square matrices of attention and
        the feed-forward layer per block, norms and biases, and a masked-LM head with tied
        embeddings.
        """
        hidden = self.hidden_size
        head = hidden * hidden + 3 * hidden + self.vocab_size
        embeddings = (self.vocab_size + self.positions + 4) * hidden
        return embeddings + self.blocks + head

    @property
    def blocks(self) -> int:
        """The parameters of all blocks."""
        hidden, inner = self.hidden_size, self.intermediate
        block = 4 * hidden * hidden + self.widths * hidden * inner + 9 * hidden + inner
        return self.layers * block


@dataclass(frozen=True)
class Footprint:
    """About how many `parameters` an encoder has, the `width` of its hidden states, and how many of
    the parameters are in `blocks`, which each token passes (0: not known).
    """

    parameters: int
    width: int
    blocks: int = 0


def config_footprint(config: Mapping[str, Any], folder: Path | None = None) -> Footprint | None:
    """Return the sizes of an encoder; None where its config does not record them.

    Args:
        config: The content of its ``config.json``.
        folder: The folder of its weights, whose headers count its parameters exactly (None: the
            config alone is read).
    """
    hidden = _first(config, "hidden_size", "d_model", "dim", "emb_dim", "n_embd")
    layers = _first(config, "num_hidden_layers", "n_layers", "num_layers", "n_layer")
    vocabulary = _first(config, "vocab_size", "n_words")
    if hidden is None or layers is None or vocabulary is None:
        return None
    inner = _first(config, "intermediate_size", "d_ff", "hidden_dim") or 4 * hidden
    positions = _first(config, "max_position_embeddings") or 0
    is_gated = config.get("is_gated_act") or "rms_norm_eps" in config
    rotary = "rope_theta" in config or "rope_parameters" in config
    shape = Shape(
        layers, hidden, inner, vocabulary, 0 if rotary else positions, 3 if is_gated else 2
    )
    counted = file_parameters(folder) if folder is not None else None
    return Footprint(counted or shape.parameters, hidden, shape.blocks)


def file_parameters(folder: Path) -> int | None:
    """Return how many parameters the safetensors files of a folder have, by their headers; None
    where there are none that can be read.
    """
    found = [_elements(path) for path in sorted(folder.glob("*.safetensors"))]
    return sum(count for count in found if count is not None) if any(found) else None


def _elements(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                return None
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return sum(int(math.prod(entry["shape"])) for entry in header.values())
    except (OSError, ValueError, TypeError, KeyError, struct.error):
        return None  # loading the weights reports what is wrong with them


def _first(config: Mapping[str, Any], *names: str) -> int | None:
    return next((config[name] for name in names if isinstance(config.get(name), int)), None)
