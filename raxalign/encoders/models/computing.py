"""The precision in which an encoder computes, the type of what it gives, and what of it a backward
pass can compute again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.blocks import recomputable
from raxalign.train.precision import arithmetic


class Computing(Encoder):
    """An encoder whose products are computed in its `precision`."""

    model: Any

    def blocks(self) -> tuple[nn.Module, ...]:
        """The parts of the model that a backward pass can run again (`Objective.blocks`)."""
        return recomputable(self.model)

    def arithmetic(self) -> AbstractContextManager[None]:
        """A block in which products are computed in the precision of the encoder."""
        return arithmetic(self.precision, self.device)

    def widened(self, states: torch.Tensor) -> torch.Tensor:
        """States or logits as the rest of a computation reads them: float32 where the precision of
        the encoder may have made them narrower.
        """
        return states.float() if self.precision == "bf16" else states

    def within(self, part: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """What a part of the model makes of an input, in the precision of the encoder."""
        with self.arithmetic():
            made = part(x)
        return self.widened(made)
