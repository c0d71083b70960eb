"""The blocks of a transformer, compiled by torch.compile while packed rows go through them.

One graph serves all blocks of a kind, whatever the number of rows and their width: sizes are
symbols in it. Hooks, and what is outside the blocks, run as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.train.recompute import forward_as

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.computing import Computing
else:
    torch = lazy.load("torch")

_GRAPHS = 64
"""The most graphs per kind of block. Each encoder has some: with and without gradient or dropout,
for one row and for several.
"""


@contextmanager
def compiled_blocks(encoder: Computing) -> Iterator[None]:
    """Run the blocks of an encoder as compiled within the block, where it is `compiled`. A block
    that runs again in the backward pass runs again as compiled.
    """
    if not encoder.compiled:
        yield
        return
    from raxalign.encoders.models.blocks import find_blocks

    found = find_blocks(encoder.model.base_model).parts
    blocks = [block for block in found if not isinstance(block, torch.nn.ModuleList)]
    # Copies of a model must not run the weights of the original, so nothing is left behind.
    with ExitStack() as stack:
        for block in dict.fromkeys(blocks):
            kind: Any = type(block)
            stack.enter_context(forward_as(block, MethodType(_compiled(kind), block)))
        yield


@cache
def _compiled(kind: Any) -> Callable[..., Any]:
    """The forward pass of a class of blocks."""
    from torch._dynamo import config

    config.recompile_limit = max(config.recompile_limit, _GRAPHS)
    made: Callable[..., Any] = torch.compile(kind.forward, dynamic=True)
    return made
