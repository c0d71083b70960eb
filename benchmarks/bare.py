"""The bare side of trainings: rows that are packed before the clock runs, in the way in which ours
packs them, so that padding which ours leaves out is not counted in its favour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder


def packed(encoder: TransformerEncoder, parts: Sequence[Rows], width: int = 128) -> Packed:
    """Return the rows of several parts as rows of about `width` subword tokens, each of which holds
    several.
    """
    return Packed.of(parts, int(encoder.tokenizer.pad_token_id or 0), width)


def states(encoder: TransformerEncoder, rows: Packed) -> torch.Tensor:
    """Return the last layer's states (F, H) of all places of packed rows; gradient flows."""
    return encoder.states(rows, (encoder.n_layers,))[0]


def there(rows: Packed) -> torch.Tensor:
    """Return the places of `states` that are not padding."""
    return torch.from_numpy(np.flatnonzero(rows.sentences_BT.reshape(-1) >= 0))
