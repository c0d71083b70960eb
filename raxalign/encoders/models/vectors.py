"""What encoders read and give: batches of pieces with their languages, vectors of words pooled from
those of pieces, and the params by which layers and pooling are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator

from raxalign.arrays import offsets_of, ranges, word_pieces
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device, to_device

Pooling = Literal["first", "last", "mean", "sum"]
WordLists: TypeAlias = Sequence[Sequence[str]]
"""Sentences, each as its words."""


def parse_layers(layers: str, n_layers: int) -> tuple[int, ...]:
    """Layer numbers of a param: ``last`` -> (n,), ``9`` -> (9,), ``9-12`` -> (9, 10, 11, 12); 0 is
    the embeddings, l the output of block l.

    A number with a point is a fraction of the depth: ``0.5`` is the layer 0.5 n, rounded to the
    nearest one (a half rounds up), and ``0.5-1.0`` the range from there to the last layer.

    >>> parse_layers("last", 4), parse_layers("1-3", 4)
    ((4,), (1, 2, 3))
    >>> parse_layers("0.5", 12), parse_layers("0.5", 5), parse_layers("0.75-1.0", 4)
    ((6,), (3,), (3, 4))
    """
    try:
        ends = layer_ends(layers) or (n_layers, n_layers)
    except ValueError as error:
        raise RaxalignError(str(error)) from None
    # fractions are exact, so that 0.29 of 50 is 14.5 and not just below
    half = Fraction(1, 2)
    first, final = (e if isinstance(e, int) else floor(e * n_layers + half) for e in ends)
    if final > n_layers:
        there = f"the layers 0 (embeddings) to {n_layers}" if n_layers else "layer 0 alone"
        raise RaxalignError(f"layers {layers!r}: this encoder has {there}")
    return tuple(range(first, final + 1))


def parse_blocks(layers: str, n_layers: int) -> tuple[int, ...]:
    """Layer numbers of a param that names blocks, after which states are changed; raises
    `RaxalignError` where a fraction of the depth rounds to layer 0.
    """
    numbers = parse_layers(layers, n_layers)
    if not numbers[0]:
        raise RaxalignError(
            f"layers {layers!r}: with {n_layers} blocks this begins at layer 0, the embeddings, but"
            " states are changed after a block"
        )
    return numbers


def layer_ends(layers: str) -> tuple[int, int] | tuple[Fraction, Fraction] | None:
    """The first and the last layer that a param names, as numbers or as fractions of the depth;
    None for ``last``. Raises `ValueError` for what is neither.

    >>> layer_ends("9-12"), layer_ends("last"), layer_ends("0.5")
    ((9, 12), None, (Fraction(1, 2), Fraction(1, 2)))
    """
    text = str(layers).strip()
    if text == "last":
        return None
    written = _RANGE.fullmatch(text)
    if written is None:
        raise ValueError(
            f"layers {text!r}: write `last`, one number, a fraction of the depth such as 0.5, or a"
            " range such as 9-12 or 0.5-1.0"
        )
    low, high = written[1], written[2] or written[1]
    if ("." in low) != ("." in high):
        raise ValueError(f"layers {text!r}: a range has two numbers, or two fractions of the depth")
    first, final = Fraction(low), Fraction(high)
    if "." in low and max(first, final) > 1:
        raise ValueError(
            f"layers {text!r}: a number with a point is a fraction of the depth, at most 1.0 (the"
            " last layer); write a layer's number without a point"
        )
    if first > final:
        raise ValueError(f"layers {text!r}: a range begins with its smaller number")
    return (first, final) if "." in low else (int(first), int(final))


def _checked(layers: str, *, single: bool = False, blocks: bool = False) -> str:
    ends = layer_ends(layers)
    if single and ends is not None and ends[0] != ends[1]:
        raise ValueError(f"layers {layers!r} names several layers; choose one")
    if blocks and ends is not None and ends[0] == 0:
        raise ValueError(f"layers {layers!r}: states are changed after a block; begin at 1")
    return layers


_RANGE = re.compile(r"(\d+|\d*\.\d+)(?:\s*-\s*(\d+|\d*\.\d+))?", re.ASCII)
Layers = Annotated[str, AfterValidator(_checked)]
"""A param that `parse_layers` reads: a text of another form is a fault of the file that has it."""
Layer = Annotated[str, AfterValidator(partial(_checked, single=True))]
"""Likewise, of one layer."""
Blocks = Annotated[str, AfterValidator(partial(_checked, blocks=True))]
"""A param that `parse_blocks` reads."""
Block = Annotated[str, AfterValidator(partial(_checked, single=True, blocks=True))]
"""Likewise, of one block."""


def _listed(layers: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(layers, str):
        return _checked(layers)
    if not layers:
        raise ValueError("layers names no layer; write `last`, or a list such as [4, 8-12]")
    for entry in layers:
        _checked(entry)
        if layers.count(entry) > 1:
            raise ValueError(f"layers names {entry!r} twice")
    return layers


LayerList = Annotated[str | tuple[str, ...], AfterValidator(_listed)]
"""A param that is `Layers`, or a list of these, each of which is evaluated."""


@dataclass(frozen=True)
class Batch:
    """Padded pieces, all int64: `mask_BT` is 1 for real ones, `segments_BT` are token types,
    `langs_BT` indexes `languages`. `words_BT` and `lasts_BT` are the first and last word of a piece
    in its own sentence (-1: special, a blank, padding).
    """

    ids_BT: torch.Tensor
    mask_BT: torch.Tensor
    segments_BT: torch.Tensor
    words_BT: torch.Tensor
    lasts_BT: torch.Tensor
    langs_BT: torch.Tensor
    languages: tuple[str, ...]

    def on(self, device: torch.device | str) -> Batch:
        """Return the same batch on a device, for which the host does not wait."""
        parts = [(name, part) for name, part in vars(self).items() if name.endswith("T")]
        moved: dict[str, Any] = {name: to_device(part, device) for name, part in parts}
        return replace(self, **moved)


@dataclass(frozen=True)
class WordVectors:
    """Vectors of all words of some sentences, in input order: `vectors_NLH` (words, layers,
    hidden); the words of sentence i are rows ``offsets[i]`` to ``offsets[i + 1]``. Words beyond the
    encoder's positions, or without a piece, have `present_N` False and a zero vector.
    """

    vectors_NLH: torch.Tensor
    offsets: Sequence[int]
    present_N: torch.Tensor


def assemble(
    sentences: Sequence[Sequence[str]],
    batches: Iterable[tuple[Sequence[int], WordVectors]],
    n_layers: int,
    hidden_size: int,
) -> WordVectors:
    """One `WordVectors` of so many layers in the order of `sentences` from `Encoder.iter_words`, on
    the device of the first batch. Words of no batch keep zero vectors and `present_N` False.
    """
    offsets = offsets_of([len(sentence) for sentence in sentences])
    vectors_NLH = torch.zeros(int(offsets[-1]), n_layers, hidden_size)
    present_N = torch.zeros(int(offsets[-1]), dtype=torch.bool)
    for k, (indices, part) in enumerate(batches):
        if k == 0:
            vectors_NLH = vectors_NLH.to(part.vectors_NLH.device)
            present_N = present_N.to(part.present_N.device)
        rows, _ = ranges(offsets, np.array(indices, dtype=np.int64))
        where = torch.from_numpy(rows).to(vectors_NLH.device)
        vectors_NLH[where] = part.vectors_NLH
        present_N[where.to(present_N.device)] = part.present_N
    return WordVectors(vectors_NLH, offsets.tolist(), present_N)


@dataclass(frozen=True)
class WordIndex:
    """Where the words of a batch are among its flattened pieces: piece ``pieces_P[k]`` belongs to
    word ``owners_P[k]`` of ``size``, once per word that shares it; words with pieces are
    ``words_M`` (ascending), with ``counts_M`` adjacent entries each.
    """

    pieces_P: torch.Tensor
    owners_P: torch.Tensor
    words_M: torch.Tensor
    counts_M: torch.Tensor
    size: int

    @classmethod
    def of(
        cls, pieces_P: np.ndarray, owners_P: np.ndarray, size: int, device: torch.device | str
    ) -> WordIndex:
        """Return the index on a device of pieces in the order of their words."""
        words_M, counts_M = np.unique(owners_P, return_counts=True)
        parts = (pieces_P, owners_P, words_M, counts_M)
        pieces, owners, words, counts = (on_device(p.astype(np.int64), device) for p in parts)
        return cls(pieces, owners, words, counts, size)

    def present(self) -> torch.Tensor:
        """Whether each word has a piece, (N,)."""
        present_N = torch.zeros(self.size, dtype=torch.bool, device=self.words_M.device)
        present_N[self.words_M] = True
        return present_N


def index_words(
    words_BT: np.ndarray,
    lasts_BT: np.ndarray,
    counts: Sequence[int] | np.ndarray,
    device: torch.device | str,
) -> WordIndex:
    """Return the index of a batch on a device, by the first (-1: none) and the last word of each
    piece in its row, and the number of words of each row. Word w of row b becomes word
    ``sum(counts[:b]) + w``; a piece that several words share counts for each of them.
    """
    starts_B = offsets_of(counts)
    pieces_P, words_P = word_pieces(words_BT.reshape(-1), lasts_BT.reshape(-1))
    owners_P = words_P + starts_B[pieces_P // max(words_BT.shape[1], 1)]
    order = np.argsort(owners_P, kind="stable")
    return WordIndex.of(pieces_P[order], owners_P[order], int(starts_B[-1]), device)


def pool_words(states_BTH: torch.Tensor, index: WordIndex, pooling: Pooling) -> torch.Tensor:
    """Vectors of the words of a batch, (N, H); words without a piece are zero. Gradient flows."""
    flat_PH = states_BTH.reshape(-1, states_BTH.shape[-1])[index.pieces_P]
    vectors_NH = flat_PH.new_zeros(index.size, flat_PH.shape[-1])
    if pooling in ("first", "last"):
        ends_M = index.counts_M.cumsum(0)
        chosen_M = ends_M - index.counts_M if pooling == "first" else ends_M - 1
        return vectors_NH.index_copy(0, index.words_M, flat_PH[chosen_M])
    if pooling not in ("mean", "sum"):
        raise ValueError(f"pooling is first, last, mean or sum, not {pooling!r}")
    vectors_NH = vectors_NH.index_add(0, index.owners_P, flat_PH)
    if pooling == "mean":
        counts_M = index.counts_M.to(vectors_NH.dtype)
        sizes_N = vectors_NH.new_ones(index.size).index_copy(0, index.words_M, counts_M)
        vectors_NH = vectors_NH / sizes_N[:, None]
    return vectors_NH


def refuse_infinite(vectors: torch.Tensor, lang: str) -> None:
    """Raise `RaxalignError` where vectors of a language are NaN or infinite."""
    if not torch.isfinite(vectors.detach().sum()):
        raise RaxalignError(
            f"the encoder gives vectors with NaN or infinite values for sentences of {lang}: its"
            " weights are too large, as after a training that diverged. Train it again with a"
            " smaller `learning_rate`"
        )
