"""Blocks whose outputs are kept from one forward pass, so that others over the same batch begin
above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from raxalign.encoders.models.blocks import find_blocks


def replayable(base: nn.Module) -> bool:
    """Whether each block of a base model is one module that runs once: not those of ALBERT, which
    run many times, nor those of XLM, whose parts are in several lists.
    """
    blocks = find_blocks(base)
    n_layers = int(base.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
    return blocks.parts == blocks.leaves and len(blocks.parts) == n_layers


@contextmanager
def recorded(base: nn.Module, top: int) -> Iterator[list[Any]]:
    """Yields a list that collects the outputs of the first `top` blocks, whole and before any
    edit, while the model runs once.
    """
    outputs: list[Any] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        outputs.append(output)

    handles = [block.register_forward_hook(keep) for block in find_blocks(base).leaves[:top]]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def replayed(base: nn.Module, outputs: Sequence[Any]) -> Iterator[None]:
    """Lets the first blocks return what `recorded` collected, without being computed; hooks, and so
    edits of the stream, still apply to it.
    """
    blocks = find_blocks(base).leaves[: len(outputs)]
    before = [vars(block).get("forward") for block in blocks]
    try:
        for block, output in zip(blocks, outputs, strict=True):
            vars(block)["forward"] = lambda *_, output=output, **__: output
        yield
    finally:
        for block, forward in zip(blocks, before, strict=True):
            if forward is None:
                vars(block).pop("forward", None)
            else:
                vars(block)["forward"] = forward
