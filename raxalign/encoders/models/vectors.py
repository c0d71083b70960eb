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
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator

from raxalign.arrays import offsets_of, ranges, word_pieces
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device

Pooling = Literal["first", "last", "mean", "sum"]
SentencePooling = Literal["cls", "mean", "last", "weighted"]
"""The vector of a sentence: its first piece (`cls`), the mean of its pieces, the last one that is
not special (`last`), or the mean in which piece i of the row weighs i + 1 (`weighted`; SGPT).
"""
WordLists: TypeAlias = Sequence[Sequence[str]]
"""Sentences, each as its words."""


def parse_layers(layers: str, n_layers: int, *, blocks: bool = False) -> tuple[int, ...]:
    """Layer numbers of a param: ``last`` -> (n,), ``9`` -> (9,), ``9-12`` -> (9, 10, 11, 12); 0 is
    the embeddings, l the output of block l. Those of `blocks`, after which states are changed,
    begin at 1. Raises `RaxalignError` for layers that are not there.

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
    if blocks and not first:
        raise RaxalignError(
            f"layers {layers!r}: with {n_layers} blocks this begins at layer 0, the embeddings, but"
            " states are changed after a block"
        )
    return tuple(range(first, final + 1))


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
BlockRange = Annotated[str, AfterValidator(partial(_checked, blocks=True))]
"""A param that `parse_layers` reads as blocks."""
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
        moved: dict[str, Any] = {name: on_device(part, device) for name, part in parts}
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

    @classmethod
    def assembled(
        cls,
        sentences: Sequence[Sequence[str]],
        batches: Iterable[tuple[Sequence[int], WordVectors]],
        n_layers: int,
        hidden_size: int,
    ) -> WordVectors:
        """Return vectors of so many layers in the order of `sentences` from `Encoder.iter_words`,
        on the device of the first batch. Words of no batch keep zero vectors and `present_N` False.
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
        return cls(vectors_NLH, offsets.tolist(), present_N)


@dataclass(frozen=True)
class Spans:
    """Which pieces make the vectors of N spans, words or sentences: `pieces_P[p]` of the pieces of
    a batch laid end to end is of span `owners_P[p]` (None: each span has one piece) and has the
    weight `weights_P[p]` (None: 1). The sum is divided by `divisors_N` (None: it stays as it is).
    A span without a piece has a zero vector.
    """

    n: int
    pieces_P: np.ndarray
    owners_P: np.ndarray | None = None
    weights_P: np.ndarray | None = None
    divisors_N: np.ndarray | None = None

    @classmethod
    def of(cls, first_N: np.ndarray, count_N: np.ndarray, pooling: Pooling) -> Spans:
        """Return spans of `count_N` adjacent pieces (one at least) from `first_N` on."""
        first_N, count_N, n = first_N.astype(np.int64), count_N.astype(np.int64), len(first_N)
        if pooling in ("first", "last"):
            return cls(n, first_N if pooling == "first" else first_N + count_N - 1)
        owners_P = np.repeat(np.arange(n), count_N)
        before_N = np.cumsum(count_N) - count_N
        pieces_P = np.arange(len(owners_P)) + np.repeat(first_N - before_N, count_N)
        return cls.grouped(pieces_P, owners_P, n, pooling)

    @classmethod
    def grouped(cls, pieces_P: np.ndarray, owners_P: np.ndarray, n: int, pooling: Pooling) -> Spans:
        """Return `n` spans of pieces in the order of their owners; some may have no piece."""
        if pooling not in get_args(Pooling):
            raise ValueError(f"pooling is first, last, mean or sum, not {pooling!r}")
        count_N = np.bincount(owners_P, minlength=n)
        if pooling in ("first", "last"):
            ends_N, known = np.cumsum(count_N), np.flatnonzero(count_N)
            chosen = (ends_N - count_N if pooling == "first" else ends_N - 1)[known]
            return cls(n, pieces_P[chosen], None if len(known) == n else known)
        divisors_N = None if pooling == "sum" else np.maximum(count_N, 1)
        return cls(n, pieces_P, owners_P, divisors_N=divisors_N)

    @classmethod
    def of_words(
        cls,
        words_BT: np.ndarray,
        lasts_BT: np.ndarray,
        counts: Sequence[int] | np.ndarray,
        pooling: Pooling,
    ) -> Spans:
        """Return the words of a batch, by the first (-1: none) and the last word of each piece in
        its row, and the number of words of each row. Word w of row b becomes word ``sum(counts[:b])
        + w``; a piece that several words share counts for each of them.
        """
        starts_B = offsets_of(counts)
        pieces_P, words_P = word_pieces(words_BT.reshape(-1), lasts_BT.reshape(-1))
        owners_P = words_P + starts_B[pieces_P // max(words_BT.shape[1], 1)]
        order = np.argsort(owners_P, kind="stable")
        return cls.grouped(pieces_P[order], owners_P[order], int(starts_B[-1]), pooling)

    @classmethod
    def of_sentences(
        cls, starts_S: np.ndarray, lengths_S: np.ndarray, pooling: SentencePooling, trailing: int
    ) -> Spans:
        """Return sentences of `lengths_S` pieces from `starts_S` on, special ones included, of
        which `trailing` ones at the end are not the last one.
        """
        if pooling == "cls":
            return cls.of(starts_S, lengths_S, "first")
        if pooling == "last":
            return cls.of(starts_S, np.maximum(lengths_S - trailing, 1), "last")
        found = cls.of(starts_S, lengths_S, "mean")
        if pooling == "mean":
            return found
        lengths_S, owners_P = lengths_S.astype(np.int64), found.owners_P  # Muennighoff 2022, Eq. 1
        places_P = found.pieces_P - starts_S.astype(np.int64)[owners_P]
        totals_S = lengths_S * (lengths_S + 1) / 2
        weights_P = (places_P + 1) / totals_S[owners_P]
        return replace(found, weights_P=weights_P, divisors_N=None)

    def evened(self) -> Spans:
        """Return the same with more spans at the end, which read subword tokens of the first ones
        again, so that the numbers of spans and of subword tokens are powers of two, and many
        batches have the same.

        >>> made = Spans.of(np.array([4, 7]), np.array([1, 2]), "mean").evened()
        >>> made.n, made.pieces_P.tolist(), made.owners_P.tolist(), made.divisors_N.tolist()
        (4, [4, 7, 8, 4], [0, 1, 1, 3], [1, 2, 1, 1])
        """
        n = 1 << self.n.bit_length()
        total = n if self.owners_P is None else 1 << len(self.pieces_P).bit_length()

        def filled(values: np.ndarray | None, size: int, value: int) -> Any:
            if values is None:
                return None
            return np.pad(values, (0, size - len(values)), constant_values=value)

        return Spans(
            n,
            np.resize(self.pieces_P, total),  # in turn, and 0 where there is none
            filled(self.owners_P, total, n - 1),
            filled(self.weights_P, total, 0),
            filled(self.divisors_N, n, 1),
        )

    def present(self, device: torch.device | str) -> torch.Tensor:
        """Return whether each span has a piece, (N,)."""
        present_N = np.full(self.n, self.owners_P is None)
        present_N[slice(0) if self.owners_P is None else self.owners_P] = True
        return on_device(present_N, device)

    def pool(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the vectors (N, L, H) of the spans by the states (..., H) of some layers. Gradient
        flows.
        """
        device, owners_P = states[0].device, None
        pieces_P, weights_P1 = on_device(self.pieces_P, device), None
        if self.owners_P is not None:
            owners_P = on_device(self.owners_P, device)
        if self.weights_P is not None:
            weights_P1 = on_device(self.weights_P, device, states[0].dtype)[:, None]
        found = []
        for state in states:
            vectors_XH = state.reshape(-1, state.shape[-1])[pieces_P]
            vectors_XH = vectors_XH if weights_P1 is None else vectors_XH * weights_P1
            if owners_P is not None:
                none_NH = state.new_zeros(self.n, state.shape[-1])
                vectors_XH = none_NH.index_add(0, owners_P, vectors_XH)
            found.append(vectors_XH)
        vectors_NLH = torch.stack(found, dim=1) if len(found) > 1 else found[0][:, None]
        if self.divisors_N is None:
            return vectors_NLH
        return vectors_NLH / on_device(self.divisors_N, device, vectors_NLH.dtype)[:, None, None]
