"""The contract of encoders: hidden states of a batch, and vectors of words."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    import torch

    from raxalign.train.runtime import Runtime

Pooling = Literal["first", "last", "mean", "sum"]


def parse_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """Layer numbers of a param: ``last`` -> (n,), ``9`` -> (9,), ``9-12`` -> (9, 10, 11, 12); 0 is the embeddings, l the output of block l.

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
    """The first and the last layer that a param names, None for ``last``. Raises `ValueError` for what is neither.

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
    """Padded pieces. `ids_BT`, `mask_BT` (1 for real pieces), `segments_BT` (token types) are int64; `words_BT` maps a piece to its word in
    the row (-1: special or padding), counted on through both sentences of a pair; `langs_BT` indexes `languages` for every piece.
    """

    ids_BT: torch.Tensor
    mask_BT: torch.Tensor
    segments_BT: torch.Tensor
    words_BT: torch.Tensor
    langs_BT: torch.Tensor
    languages: tuple[str, ...]


@dataclass(frozen=True)
class WordVectors:
    """Vectors of all words of some sentences, in input order: `vectors_NLH` (words, layers, hidden); the words of sentence i are rows
    ``offsets[i]`` to ``offsets[i + 1]``. Words beyond the encoder's positions, or without a piece, have `present_N` False and a zero vector.
    """

    vectors_NLH: torch.Tensor
    offsets: Sequence[int]
    present_N: torch.Tensor


class Encoder(ABC):
    """Something that turns words in their sentences into vectors. `family` is what methods and tasks `accept`."""

    family: ClassVar[str]
    hidden_size: int
    n_layers: int
    device: str

    @abstractmethod
    def iter_words(
        self, sentences: Sequence[Sequence[str]], lang: str, *, layers: tuple[int, ...], pooling: Pooling
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """Word vectors batch by batch, longest sentences first: (indices of the batch's sentences in the input, their vectors)."""

    def words(self, sentences: Sequence[Sequence[str]], lang: str, *, layers: tuple[int, ...], pooling: Pooling) -> WordVectors:
        """Vectors of all words, in input order (assembled from `iter_words`)."""
        from raxalign.encoders.models.assemble import assemble

        return assemble(sentences, self.iter_words(sentences, lang, layers=layers, pooling=pooling), len(layers), self.hidden_size)

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Write the encoder into a folder, in the format that others open (Hugging Face, word2vec)."""


@dataclass(frozen=True)
class EncoderInputs:
    """What building or loading may read: `text`, a folder of text a language (empty unless `needs_text`), `locations` of the `sources` and
    their `revisions` (digests, as in the key), and `folder`, where a built encoder lies.
    """

    text: Mapping[str, Path] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


class EncoderKind(ABC):
    """A kind of encoder: what it is made from, how it is built (once, as a stage) and loaded. One final subclass a file."""

    VERSION: ClassVar[int]
    family: ClassVar[str]
    needs_text: bool = False

    class Params(BaseParams):
        """The options of the encoder."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def sources(self) -> Mapping[str, Source]:
        """Outside data (a folder's files, a hub name), by name."""
        return {}

    def fetch(self) -> Mapping[str, str]:
        """Look up what outside data without a pin is now: source name -> revision. Raises `TransientError` where that cannot be reached."""
        return {}

    def depth(self, known: Callable[[str], str | None]) -> int | None:
        """The number of the encoder's blocks, where that can be told without opening it (None: not yet).

        `known` gives what was looked up before, by name: revisions (`fetch`) and depths (`fetch_depth`).
        """
        return None

    def fetch_depth(self, known: Callable[[str], str | None]) -> Mapping[str, str]:
        """Look up the `depth` of outside data: name -> number of blocks. Raises `TransientError` where that cannot be reached."""
        return {}

    def check(self) -> list[str]:
        """Faults that only a look at the data shows, as messages."""
        return []

    def label(self) -> str:
        """The name in tables."""
        return type(self).__name__.lower()

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Make the encoder from text into `folder`; only where `needs_text`. Returns notes for the manifest."""
        raise NotImplementedError(f"{type(self).__name__} is loaded, not built")

    @abstractmethod
    def load(self, inputs: EncoderInputs, device: str) -> Encoder:
        """The encoder, on a device, in eval mode."""
