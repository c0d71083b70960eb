"""Tasks as most train them: a linear head on the encoder of transformers, over padded batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.train.objective import Objective, Step

NO_LABEL = -100


@dataclass(frozen=True)
class Rows:
    """Rows of pieces with their labels: one number, one per piece (`NO_LABEL`: none), or the first
    and the last piece of an answer.
    """

    pieces: RowSource
    labels: Sequence[Any]
    n_outputs: int


class Plain(nn.Module):
    """The encoder of transformers with a linear head, over padded batches."""

    def __init__(self, folder: Path, kind: str, n_outputs: int) -> None:
        super().__init__()
        encoder = TransformerEncoder.from_folder(folder)
        self.base, self.kind = encoder.model.base_model, kind
        self.head = nn.Linear(encoder.hidden_size, n_outputs)
        nn.init.normal_(self.head.weight, std=0.02, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(self.head.bias)

    def forward(self, labels: torch.Tensor, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean loss over rows, or over words."""
        states_BTH = self.base(**inputs).last_hidden_state
        if self.kind == "xnli":
            return {"loss": nn.functional.cross_entropy(self.head(states_BTH[:, 0]), labels)}
        logits_BTO = self.head(states_BTH)
        if self.kind == "slots":
            return {"loss": nn.functional.cross_entropy(logits_BTO.flatten(0, 1), labels.flatten())}
        absent_BT = inputs["attention_mask"] == 0
        logits_BT2 = logits_BTO.masked_fill(absent_BT[..., None], -torch.inf)
        return {"loss": nn.functional.cross_entropy(logits_BT2, labels)}


def padded(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch as `Trainer` collates it."""
    width = max(len(row["input_ids"]) for row in rows)

    def filled(values: Any, filler: int) -> torch.Tensor:
        return torch.tensor([[*value, *[filler] * (width - len(value))] for value in values])

    names = ("input_ids", "token_type_ids", "attention_mask")
    batch = {name: filled([row[name] for row in rows], 0) for name in names}
    labels = [row["labels"] for row in rows]
    per_piece = isinstance(labels[0], list) and len(labels[0]) == len(rows[0]["input_ids"])
    return {**batch, "labels": filled(labels, NO_LABEL) if per_piece else torch.tensor(labels)}


def examples(rows: Rows) -> list[dict[str, Any]]:
    """What `Trainer` is given."""
    return [
        {
            "input_ids": row.ids.tolist(),
            "token_type_ids": row.segments.tolist(),
            "attention_mask": [1] * len(row.ids),
            "labels": label,
            "length": len(row.ids),
        }
        for row, label in zip(rows.pieces, rows.labels, strict=True)
    ]


class Reference(Objective):
    """The plain model in the batches of ours."""

    def __init__(self, model: Plain, rows: Sequence[Mapping[str, Any]]) -> None:
        self.module: nn.Module = model
        self.rows = rows

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """The mean over the batch, which is one micro-batch."""
        loss: torch.Tensor = self.module(**padded([self.rows[i] for i in step.rows[positions]]))[
            "loss"
        ]
        return loss
