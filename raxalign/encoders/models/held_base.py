"""Weights of an encoder that nothing trains, held in bfloat16 (`run.base_precision`), which takes
half the memory of float32. What is computed with them is as precise as `run.precision` says.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class HeldLinear(nn.Linear):
    """A linear layer whose weight may be in bfloat16 while its input is wider. Autocast casts the
    input; without it the weight is widened for the product alone, in both directions, so that no
    wide copy of it stays for the backward pass. The weight gets no gradient then.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (..., out) of (..., in)."""
        if self.weight.dtype == x.dtype or torch.is_autocast_enabled(x.device.type):
            return functional.linear(x, self.weight, self.bias)
        return _Product.apply(x, self.weight, self.bias)  # type: ignore[no-any-return, no-untyped-call]


class _Product(torch.autograd.Function):
    """A product with a frozen weight that is widened to the type of the other factor."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(weight)
        return functional.linear(x, weight.to(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return grads[0] @ weight.to(grads[0].dtype), None, None


def hold(model: Any, *, exactly: bool = False) -> None:
    """Hold the weights of a model's linear layers and of its embeddings of pieces in bfloat16, in
    place, one after the other; `exactly` leaves those as they are that this would round. All others
    (norms, biases, positions) are float32, and so is the stream that leaves the embeddings. Nothing
    of the model is trained from then on.
    """
    words = model.get_input_embeddings()
    linear = [module for module in model.modules() if type(module) is nn.Linear]
    held = {id(module.weight) for module in (*linear, words)}
    for parameter in model.parameters():
        wide = parameter.data
        narrow = wide.to(torch.bfloat16) if id(parameter) in held else wide.float()
        if not exactly or torch.equal(narrow.to(wide.dtype), wide):
            parameter.data = narrow
    for module in linear:
        module.__class__ = HeldLinear
    words.register_forward_hook(lambda _, __, states: states.float())
    model.requires_grad_(requires_grad=False)
