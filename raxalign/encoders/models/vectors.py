"""What encoders read and give: batches of pieces, vectors of words, and the params by which layers
and pooling are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator

from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import torch

Pooling = Literal["first", "last", "mean", "sum"]


def parse_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """Layer numbers of a param: ``last`` -> (n,), ``9`` -> (9,), ``9-12`` -> (9, 10, 11, 12); 0 is
    the embeddings, l the output of block l.

    >>> parse_layers("last", 4), parse_layers("1-3", 4)
    ((4,), (1, 2, 3))
    """
    try:
        ends = layer_ends(layers)
    except ValueError as error:
        raise RaxalignError(str(error)) from None
    first, final = ends or (n_layers, n_layers)
    if final > n_layers:
        there = f"the layers 0 (embeddings) to {n_layers}" if n_layers else "layer 0 alone"
        raise RaxalignError(f"layers {layers!r}: this encoder has {there}")
    return tuple(range(first, final + 1))


def layer_ends(layers: str) -> tuple[int, int] | None:
    """The first and the last layer that a param names, None for ``last``. Raises `ValueError` for
    what is neither.

    >>> layer_ends("9-12"), layer_ends("9"), layer_ends("last")
    ((9, 12), (9, 9), None)
    """
    text = str(layers).strip()
    if text == "last":
        return None
    written = _RANGE.fullmatch(text)
    if written is None:
        raise ValueError(f"layers {text!r}: write `last`, one number, or a range such as 9-12")
    first, final = int(written[1]), int(written[2] or written[1])
    if first > final:
        raise ValueError(f"layers {text!r}: a range begins with its smaller number")
    return first, final


def _several(layers: str) -> str:
    layer_ends(layers)
    return layers


def _single(layers: str) -> str:
    ends = layer_ends(layers)
    if ends is not None and ends[0] != ends[1]:
        raise ValueError(f"layers {layers!r} names several layers; choose one")
    return layers


_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?", re.ASCII)
Layers = Annotated[str, AfterValidator(_several)]
"""A param that `parse_layers` reads: a text of another form is a fault of the file that has it."""
Layer = Annotated[str, AfterValidator(_single)]
"""Likewise, of one layer."""


@dataclass(frozen=True)
class Batch:
    """Padded pieces. `ids_BT`, `mask_BT` (1 for real pieces), `segments_BT` (token types) are
    int64; `words_BT` and `lasts_BT` map a piece to its first and last word in the row (-1: special,
    a bare blank, or padding), counted on through both sentences of a pair; they differ where words
    share a piece. `langs_BT` indexes `languages` for every piece.
    """

    ids_BT: torch.Tensor
    mask_BT: torch.Tensor
    segments_BT: torch.Tensor
    words_BT: torch.Tensor
    lasts_BT: torch.Tensor
    langs_BT: torch.Tensor
    languages: tuple[str, ...]


@dataclass(frozen=True)
class WordVectors:
    """Vectors of all words of some sentences, in input order: `vectors_NLH` (words, layers,
    hidden); the words of sentence i are rows ``offsets[i]`` to ``offsets[i + 1]``. Words beyond the
    encoder's positions, or without a piece, have `present_N` False and a zero vector.
    """

    vectors_NLH: torch.Tensor
    offsets: Sequence[int]
    present_N: torch.Tensor
