"""Rows in one forward pass, and the vectors of spans of their pieces."""

from __future__ import annotations

from dataclasses import dataclass

from raxalign.encoders.models.packing import Packed, flat_states, lay_out
from raxalign.encoders.models.rows import Sentences, single_rows
from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import np, torch
from raxalign.train.devices import on_device

# units in the last place of the largest coordinate: what batches of other widths change in a dozen
# blocks
_ROUNDING = 100


@dataclass(frozen=True)
class States:
    """Hidden states of some sentences end to end, one tensor (pieces, H) per layer; sentence s has
    ``lengths_S[s]`` pieces from ``starts_S[s]`` on, of which `trailing` at the end are special.
    """

    layers: list[torch.Tensor]
    starts_S: np.ndarray
    lengths_S: np.ndarray
    trailing: int = 0


def read_states(
    encoder: TransformerEncoder, sentences: Sentences, numbers: np.ndarray, layers: tuple[int, ...]
) -> States:
    """Return the states of some sentences, each by itself, by one forward pass. Gradient flows."""
    packed = lay_out(encoder, [single_rows(sentences, numbers)])
    states = flat_states(encoder, packed, layers)
    return States(states, packed.starts_S, packed.lengths_S, encoder.trailing)


def last_states(encoder: TransformerEncoder, packed: Packed) -> torch.Tensor:
    """Return the last-layer states (F, H) of rows that were laid out; gradient flows."""
    (states_FH,) = flat_states(encoder, packed, (encoder.n_layers,))
    return states_FH


@dataclass(frozen=True)
class Spans:
    """Which pieces make the vectors of N spans: piece `pieces_P[p]` is of span `owners_P[p]`, and
    the sum is divided by `divisors_N`. Without owners each span has one piece; without divisors
    the sum stays as it is.
    """

    pieces_P: np.ndarray
    owners_P: np.ndarray | None
    divisors_N: np.ndarray | None
    n: int

    @classmethod
    def of(cls, first_N: np.ndarray, count_N: np.ndarray, pooling: Pooling) -> Spans:
        """Spans of adjacent pieces: `count_N` of them (one at least) from `first_N` on."""
        first_N, count_N, n = first_N.astype(np.int64), count_N.astype(np.int64), len(first_N)
        if pooling in ("first", "last"):
            return cls(first_N if pooling == "first" else first_N + count_N - 1, None, None, n)
        owners_P = np.repeat(np.arange(n), count_N)
        before_N = np.cumsum(count_N) - count_N
        pieces_P = np.arange(len(owners_P)) + np.repeat(first_N - before_N, count_N)
        return cls(pieces_P, owners_P, None if pooling == "sum" else count_N, n)

    def pool(self, states: list[torch.Tensor]) -> torch.Tensor:
        """Return the vectors (N, L, H) of the spans."""
        device = states[0].device
        pieces_P = on_device(self.pieces_P, device)
        if self.owners_P is None:
            return torch.stack([state[pieces_P] for state in states], dim=1)
        owners_P = on_device(self.owners_P, device)
        summed = [
            state.new_zeros(self.n, state.shape[-1]).index_add(0, owners_P, state[pieces_P])
            for state in states
        ]
        vectors_NLH = torch.stack(summed, dim=1)
        if self.divisors_N is None:
            return vectors_NLH
        return vectors_NLH / on_device(self.divisors_N, device, vectors_NLH.dtype)[:, None, None]


def pool_sentences(states: States, pooling: SentencePooling) -> torch.Tensor:
    """Return the vectors (S, H) of the sentences at the first layer that was read: of the first
    piece (`cls`), of the last one that is not special (`last`), or the mean over all pieces,
    special ones too (as sentence-transformers do), in which all weigh the same or piece i weighs
    i + 1 (`weighted`).
    """
    if pooling == "weighted":  # Muennighoff 2022, Eq. 1
        return _weighted_means(states)
    if pooling == "last":
        last_S = np.maximum(states.lengths_S - 1 - states.trailing, 0)
        ones_S = np.ones_like(last_S)
        spans = Spans.of(states.starts_S + last_S, ones_S, "first")
        return spans.pool(states.layers[:1])[:, 0]
    of_pieces: Pooling = "first" if pooling == "cls" else "mean"
    return Spans.of(states.starts_S, states.lengths_S, of_pieces).pool(states.layers[:1])[:, 0]


def _weighted_means(states: States) -> torch.Tensor:
    """The means (S, H) of the pieces of sentences, piece i with weight i + 1."""
    state_FH, lengths_S = states.layers[0], states.lengths_S.astype(np.int64)
    owners = np.repeat(np.arange(len(lengths_S)), lengths_S)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths_S) - lengths_S, lengths_S)
    totals_S = lengths_S * (lengths_S + 1) / 2
    weights = on_device((places + 1) / totals_S[owners], state_FH.device, state_FH.dtype)
    owners_P, pieces_P = (
        on_device(index, state_FH.device)
        for index in (owners, states.starts_S[owners].astype(np.int64) + places)
    )
    sums_SH = state_FH.new_zeros(len(lengths_S), state_FH.shape[-1])
    return sums_SH.index_add(0, owners_P, state_FH[pieces_P] * weights[:, None])


def real_gap(vectors_XH: torch.Tensor, reference_XH: torch.Tensor) -> torch.Tensor:
    """``vectors - reference`` (..., H), 0 (and without gradient) in coordinates that differ by
    rounding alone.

    At step 0 the frozen side equals its reference up to the rounding of another batch. Adam divides
    a gradient by its own size, so that noise would move words by a whole learning rate, and
    differently with each number of workers.
    """
    gap_XH = vectors_XH - reference_XH
    rounding_X1 = (
        _ROUNDING
        * torch.finfo(gap_XH.dtype).eps
        * reference_XH.detach().abs().amax(dim=-1, keepdim=True)
    )
    return torch.where(
        gap_XH.detach().abs() <= rounding_X1, 0.0, gap_XH
    )  # in this order NaN stays NaN
