"""The blocks of a transformer: where they are, and their states while the model runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from raxalign.encoders.models.vectors import Batch
from raxalign.errors import RaxalignError

Edit = Callable[[torch.Tensor, Batch], torch.Tensor]
"""A change of the stream after a block: (B, T, H) and its batch to (B, T, H)."""

_BLOCKS = ("encoder.layer", "transformer.layer", "layers", "encoder.layers")


def find_blocks(base: nn.Module) -> tuple[nn.Module, str, nn.ModuleList]:
    """(parent, attribute, blocks) of a base model."""
    for path in _BLOCKS:
        parent: Any = base
        *steps, name = path.split(".")
        for step in steps:
            parent = getattr(parent, step, None)
        blocks = getattr(parent, name, None)
        if isinstance(blocks, nn.ModuleList):
            return parent, name, blocks
    raise RaxalignError(
        f"{type(base).__name__}: its blocks are not where BERT, RoBERTa, DistilBERT or ModernBERT"
        " have them"
    )


@contextmanager
def watched(
    base: nn.Module, top: int, states: list[torch.Tensor], edits: Mapping[int, Edit], batch: Batch
) -> Iterator[None]:
    """Collects into `states` what enters the first block and what leaves each, after the edits;
    blocks above `top` are left out meanwhile.
    """
    parent, name, blocks = find_blocks(base)

    def edited(states_BTH: torch.Tensor) -> torch.Tensor:
        edit = edits.get(len(states))
        states.append(states_BTH if edit is None else edit(states_BTH, batch))
        return states[-1]

    def enter(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (edited(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": edited(kwargs["hidden_states"])}

    def leave(_: nn.Module, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (edited(output[0]), *output[1:])
        return edited(output)

    handles = [
        blocks[0].register_forward_pre_hook(enter, with_kwargs=True),
        *(block.register_forward_hook(leave) for block in blocks[:top]),
    ]
    if top < len(blocks):
        setattr(parent, name, blocks[:top])
    try:
        yield
    finally:
        setattr(parent, name, blocks)
        for handle in handles:
            handle.remove()
