"""Rows in one forward pass, and the vectors of their sentences."""

from __future__ import annotations

from dataclasses import dataclass

from raxalign.encoders.models.rows import Packed, Sentences
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import SentencePooling, Spans
from raxalign.lazy import np, torch

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

    def sentences(self, pooling: SentencePooling) -> torch.Tensor:
        """Return the vectors (S, H) of the sentences at the first layer that was read: of the first
        piece (`cls`), of the last one that is not special (`last`), or the mean over all pieces,
        special ones too (as sentence-transformers do), in which all weigh the same or piece i
        weighs i + 1 (`weighted`).
        """
        spans = Spans.of_sentences(self.starts_S, self.lengths_S, pooling, self.trailing)
        return spans.pool(self.layers[:1])[:, 0]


def read_states(
    encoder: TransformerEncoder, sentences: Sentences, numbers: np.ndarray, layers: tuple[int, ...]
) -> States:
    """Return the states of some sentences, each by itself, by one forward pass. Gradient flows."""
    packed = encoder.lay_out([sentences.single_rows(numbers)])
    states = encoder.states(packed, layers)
    return States(states, packed.starts_S, packed.lengths_S, encoder.trailing)


def last_states(encoder: TransformerEncoder, packed: Packed) -> torch.Tensor:
    """Return the last-layer states (F, H) of rows that were laid out; gradient flows."""
    (states_FH,) = encoder.states(packed, (encoder.n_layers,))
    return states_FH


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
