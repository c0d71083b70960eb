"""Weights of an encoder in bfloat16. Those that nothing trains may be held in it
(`run.base_precision`), which takes half the memory of float32; what is computed with them is as
precise as `run.precision` says. Those that are trained are rounded to it for products alone
(`run.precision`), all by one operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
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


def run_rounded(model: nn.Module, inputs: Mapping[str, Any]) -> Any:
    """Return ``model(**inputs)`` within a block of autocast to bfloat16, which would round each
    trained weight of a linear layer by an operation of its own, and widen each gradient by another:
    nearly half of all that the host of a GPU starts in a step, while the GPU waits for it.

    The values are those of autocast, and so is the memory: it keeps what it rounds of trained
    weights until the block ends, and rounds others anew for each product.
    """
    trained = {
        f"{place}.{name}": weight
        for place, part in model.named_modules()
        if isinstance(part, nn.Linear)
        for name, weight in part.named_parameters(recurse=False)
        if weight.requires_grad and weight.dtype == torch.float32
    }
    weights = list(dict.fromkeys(trained.values()))  # layers that share a weight share its copy
    if not weights:
        return model(**inputs)
    rounded = dict(zip(weights, _Rounded.apply(*weights), strict=True))  # type: ignore[no-untyped-call]
    given = {place: rounded[weight] for place, weight in trained.items()}
    return functional_call(model, given, kwargs=dict(inputs), tie_weights=False)


class _Rounded(torch.autograd.Function):
    """Weights in bfloat16, by one operation, and their gradients in float32, by another."""

    @staticmethod
    def forward(ctx: Any, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)  # what is not read has no gradient
        return tuple(_copied(weights, torch.bfloat16))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # noqa: ARG004
        wide = iter(_copied([grad for grad in grads if grad is not None], torch.float32))
        return tuple(None if grad is None else next(wide) for grad in grads)


def _copied(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Return copies in another type, all by one operation."""
    made = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    if made:
        torch._foreach_copy_(made, list(tensors))
    return made
