"""Tokens per second are counted at the word embeddings alone, and the module is left as it was."""

from __future__ import annotations

import pytest
import torch

from raxalign.train import reading
from raxalign.train.reading import TokenRate


class Encoder(torch.nn.Module):
    """Words and positions, as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = torch.nn.ModuleDict(
            {"word": torch.nn.Embedding(50, 4), "position": torch.nn.Embedding(8, 4)}
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])
        return self.embeddings["word"](ids) + self.embeddings["position"](places)


def test_tokens_are_counted_once_and_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10.0]
    monkeypatch.setattr(reading.time, "monotonic", lambda: clock[0])
    module = torch.nn.ModuleDict({"trained": Encoder(), "head": torch.nn.Linear(4, 2)})
    rate = TokenRate(module)
    for _ in range(3):
        module["trained"](torch.zeros(2, 5, dtype=torch.long))
    clock[0] += 2.0
    assert rate.take() == 3 * 2 * 5 / 2.0
    clock[0] += 1.0
    assert rate.take() is None


def test_a_closed_rate_counts_no_more() -> None:
    module = Encoder()
    rate = TokenRate(module)
    rate.close()
    module(torch.zeros(2, 5, dtype=torch.long))
    assert rate.take() is None
    assert not module.embeddings["word"]._forward_pre_hooks


def test_a_module_without_embeddings_has_no_rate() -> None:
    assert TokenRate(torch.nn.Linear(2, 2)).take() is None
