"""What `doctor` says of the devices of a machine."""

from __future__ import annotations

import pytest
import torch

from raxalign.report.doctor import _devices


@pytest.mark.parametrize(
    ("capability", "more"), [((7, 5), ""), ((9, 0), "; `run: {precision: bf16}` is faster there")]
)
def test_bf16_is_recommended_on_a_card_that_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], more: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert _devices() == f"device   a card{more}"
