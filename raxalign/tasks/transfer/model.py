"""What models of a task are made of: an encoder's copy, and a head on its last layer."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device

_OF_ENCODER = "model."
"""How the names of an encoder's weights begin in a model of a task."""


class TaskModel(nn.Module):
    """A module of which training changes the parameters that require a gradient. `lay_out` returns
    some of the rows (None: all) as `logits` reads them, without the device.
    """

    lay_out: Any
    logits: Any

    def forward(self, rows: Any, chosen: np.ndarray | None = None) -> torch.Tensor:
        """Return the logits of some rows (None: of all)."""
        logits: torch.Tensor = self.logits(self.lay_out(rows, chosen))
        return logits

    def trained(self) -> dict[str, torch.Tensor]:
        """Copies of the trained tensors, on the CPU: what training may change."""
        own = {name: p for name, p in self.named_parameters() if p.requires_grad}
        return {name: p.detach().cpu().clone().contiguous() for name, p in own.items()}

    def frozen(self) -> dict[str, torch.Tensor]:
        """Copies of the tensors that training must leave alone."""
        others = {name: p for name, p in self.named_parameters() if not p.requires_grad}
        return {name: p.detach().cpu().clone() for name, p in others.items()}

    def save(self, file: Path, *, with_encoder: bool = True) -> None:
        """Write the trained tensors (safetensors), or only those that are not the encoder's."""
        from safetensors.torch import save_file

        tensors = self.trained()
        if not with_encoder:
            tensors = {n: tensor for n, tensor in tensors.items() if not n.startswith(_OF_ENCODER)}
        save_file(tensors, file)

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote; the rest is that of the encoder at hand, which a file
        without an encoder was trained with.
        """
        from safetensors.torch import load_file

        tensors = load_file(file)
        parameters = {name: p for name, p in self.named_parameters() if p.requires_grad}
        if not any(name.startswith(_OF_ENCODER) for name in tensors):
            parameters = {n: p for n, p in parameters.items() if not n.startswith(_OF_ENCODER)}
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
        if aligned.encoder.base_precision != "fp32":
            raise RaxalignError(
                "run.base_precision: bf16 holds weights that are frozen in bfloat16, and this task"
                " trains them: leave it at fp32"
            )
        aligned.encoder.can_pack()  # found out before training changes the weights
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
        self.model.requires_grad_(False)
        base, depth = cast("nn.Module", encoder.model.base_model), aligned.inside_depth()
        for name, parameter in base.named_parameters():
            place = name.split(".")
            block = next((int(part) for part in place if part.isdigit()), depth)
            below = depth > 0 and (place[0] == "embeddings" or block < depth)
            parameter.requires_grad_(place[0] != "pooler" and not below)


def summed_loss(logits: torch.Tensor, labels: np.ndarray) -> torch.Tensor:
    """Return the summed cross-entropy of the labels of some rows or words."""
    gold = on_device(labels, logits.device)
    return nn.functional.cross_entropy(logits, gold, reduction="sum")


def shares_rows(aligned: AlignedEncoder, languages: Collection[str]) -> bool:
    """Whether several rows of these languages can go through the encoder as one: it keeps them
    apart, and no inside transform applies to them.
    """
    encoder = aligned.encoder
    return (
        isinstance(encoder, TransformerEncoder)
        and not any(transform.lang in languages for transform in aligned.active("inside"))
        and encoder.can_pack()
    )


def lay_out(aligned: AlignedEncoder, rows: Rows) -> Packed:
    """Return rows of about equal width where `shares_rows` holds, else padded ones. The device has
    no part in it.
    """
    encoder = aligned.encoder
    assert isinstance(encoder, TransformerEncoder)
    shared = shares_rows(aligned, rows.languages)
    return encoder.lay_out([rows], rows.fitting_width() if shared else 0)
