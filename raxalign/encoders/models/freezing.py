"""The parts of an encoder that a training leaves as they are: blocks, and embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from raxalign.config.params import BaseParams
from raxalign.encoders.models.vectors import parse_layers
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

_BLOCKS = re.compile(r"none|lower|upper|last|[1-9]\d*(-[1-9]\d*)?")


def _named(blocks: str) -> str:
    if not _BLOCKS.fullmatch(blocks):
        raise ValueError(
            f"{blocks!r} names no blocks: write lower, upper, none, last, a number from 1 on, or a"
            " range such as 1-6"
        )
    return blocks


class FrozenParts(BaseParams):
    """The parts of an encoder that are not trained. Blocks are counted from 1; the middle block of
    an odd number belongs to the upper half.
    """

    blocks: Annotated[str, AfterValidator(_named)] = Field(
        description=(
            "Blocks that are not trained: `lower` or `upper` (a half), `last`, one number, a range"
            " such as `1-6`, or `none`."
        )
    )
    embeddings: bool = Field(
        False, description="Whether all that lies outside the blocks is not trained either."
    )


def _in_a_word(freeze: str | FrozenParts) -> str | FrozenParts:
    """A mapping that freezes what a word freezes, as that word, so that both have one identity."""
    if not isinstance(freeze, FrozenParts):
        return freeze
    words = {("none", False): "none", ("lower", True): "lower", ("upper", False): "upper"}
    return words.get((freeze.blocks, freeze.embeddings), freeze)


Freeze = Annotated[
    Literal["none", "lower", "upper"] | FrozenParts,
    AfterValidator(_in_a_word),
    Field(
        description=(
            "Parts that are not trained: the lower half of the blocks and the embeddings (`lower`),"
            " the upper half of the blocks (`upper`), what a mapping names, or `none`."
        )
    ),
]


def frozen_parts(freeze: Freeze, n_blocks: int) -> tuple[frozenset[int], bool]:
    """The held blocks, counted from 1, and whether the embeddings are held."""
    parts = (
        freeze
        if isinstance(freeze, FrozenParts)
        else FrozenParts(blocks=freeze, embeddings=freeze == "lower")
    )
    half = n_blocks // 2
    halves = {"none": range(0), "lower": range(1, half + 1), "upper": range(half + 1, n_blocks + 1)}
    if parts.blocks in halves:
        return frozenset(halves[parts.blocks]), parts.embeddings
    try:
        return frozenset(parse_layers(parts.blocks, n_blocks)), parts.embeddings
    except RaxalignError:
        raise RaxalignError(
            f"freeze.blocks: {parts.blocks}: this encoder has the blocks 1 to {n_blocks}"
        ) from None


def lowest_trained(freeze: Freeze, n_blocks: int, *, embeddings_held: bool = False) -> int:
    """The lowest layer that training can change: that of the lowest block that is not held, or 0
    where the embeddings are trained (not with `embeddings_held`, whatever `freeze` names).
    """
    held, embeddings = frozen_parts(freeze, n_blocks)
    if not (embeddings or embeddings_held):
        return 0
    return next(block for block in range(1, n_blocks + 2) if block not in held)


@contextmanager
def frozen(encoder: TransformerEncoder, freeze: Freeze) -> Iterator[None]:
    """Hold what `freeze` names as it is until the block ends (AlignFreeze; Bakos et al. 2025)."""
    if freeze == "none":
        yield
        return
    from raxalign.encoders.models.blocks import find_blocks

    blocks = find_blocks(encoder.model.base_model).parts
    if len(blocks) != encoder.n_layers:
        raise RaxalignError(
            f"freeze: the {encoder.n_layers} blocks of {type(encoder.model).__name__} share their"
            " weights, so that none can be frozen alone; set `freeze: none`"
        )
    numbers, embeddings = frozen_parts(freeze, len(blocks))
    block_of = {
        id(p): number for number, block in enumerate(blocks, start=1) for p in block.parameters()
    }
    base = [p for p in encoder.model.base_model.parameters() if p.requires_grad]
    held = [p for p in base if (block_of[id(p)] in numbers if id(p) in block_of else embeddings)]
    for parameter in held:
        parameter.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(requires_grad=True)
