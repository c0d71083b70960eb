"""What every model of a task is made of: an aligned encoder's copy that training changes, and a
head.

The tensors of a task's model: what its training changed, written and read back.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.packing import can_pack
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.train.devices import on_device


class TaskModel(nn.Module):
    """A module of which training changes the parameters that require a gradient."""

    def trained(self) -> dict[str, torch.Tensor]:
        """Copies of the trained tensors, on the CPU: what training may change."""
        return {
            name: p.detach().cpu().clone().contiguous()
            for name, p in self.named_parameters()
            if p.requires_grad
        }

    def frozen(self) -> dict[str, torch.Tensor]:
        """Copies of the tensors that training must leave alone."""
        return {
            name: p.detach().cpu().clone()
            for name, p in self.named_parameters()
            if not p.requires_grad
        }

    def save(self, file: Path) -> None:
        """Write the trained tensors (safetensors)."""
        from safetensors.torch import save_file

        save_file(self.trained(), file)

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote; the rest is that of the encoder at hand."""
        from safetensors.torch import load_file

        tensors = load_file(file)
        parameters = {name: p for name, p in self.named_parameters() if p.requires_grad}
        wrong = [
            name
            for name in sorted(tensors.keys() | parameters.keys())
            if getattr(tensors.get(name), "shape", 0) != getattr(parameters.get(name), "shape", 1)
        ]
        if wrong:
            told = "was trained on another encoder, or with other options"
            raise RaxalignError(f"{file}: {told}: {wrong[:3]} differ")
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[name])


class FineTuned(TaskModel):
    """An aligned encoder's copy with a linear head on its last layer; its transforms apply to what
    the head reads.

    With an inside transform at layer l (`AlignedEncoder.inside_depth`), the embeddings and the
    blocks up to l stay as they are: what was measured on them stays true. So do the masked-LM head
    and the pooler, which nothing reads. Rows are cut to `max_length` pieces, or to the encoder's
    positions.
    """

    def __init__(
        self, aligned: AlignedEncoder, n_outputs: int, *, dropout: float, max_length: int, seed: int
    ) -> None:
        super().__init__()
        if not isinstance(aligned.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer can be fine-tuned on a task")
        can_pack(aligned.encoder)  # found out before training changes the weights
        encoder = copy.copy(aligned.encoder)
        encoder.model = copy.deepcopy(aligned.encoder.model)
        encoder.max_positions = min(encoder.max_positions, max_length)
        self.encoder, self.aligned = encoder, replace(aligned, encoder=encoder)
        self.model: nn.Module = encoder.model
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.hidden_size, n_outputs)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.head.bias)
        self.to(encoder.device)
        self._freeze(aligned.inside_depth())

    def _freeze(self, depth: int) -> None:
        self.model.requires_grad_(False)
        base = cast("nn.Module", self.encoder.model.base_model)
        for name, parameter in base.named_parameters():
            place = name.split(".")
            block = next((int(part) for part in place if part.isdigit()), None)
            below = depth > 0 and (
                place[0] == "embeddings" or (block is not None and block < depth)
            )
            parameter.requires_grad_(place[0] != "pooler" and not below)


def summed_loss(logits: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
    """Return the summed cross-entropy of the labels of some rows or words."""
    gold = on_device(labels, logits.device)
    return nn.functional.cross_entropy(logits, gold, reduction="sum")
