"""Numbers of sentences by their pieces, so that equal sentences are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.arrays import offsets_of
from raxalign.methods.rows.sentences import Sentences

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.load("numpy")

_CHUNK = 65_536  # sentences that are compared at once
_SALTS = (0, 0x5851F42D4C957F2D)


def sentence_numbers(sentences: Sentences, chosen: np.ndarray) -> np.ndarray:
    """Return a number for each of some sentences, int64: the same for sentences of the same
    pieces, in the order in which they first occur.

    Sentences are compared by their lengths and two hashes of 64 bits each.
    """
    marks_N3 = np.concatenate(
        [
            np.zeros((0, 3), np.uint64),
            *(
                _marks(sentences, chosen[start : start + _CHUNK])
                for start in range(0, len(chosen), _CHUNK)
            ),
        ]
    )
    order = np.lexsort(marks_N3.T)
    differs = (np.diff(marks_N3[order], axis=0) != 0).any(axis=1)
    group = np.concatenate([np.zeros(min(1, len(order)), np.int64), np.cumsum(differs)])
    first = np.full(int(group.max(initial=-1)) + 1, len(order))
    np.minimum.at(first, group, order)
    ranks, numbers = np.empty_like(first), np.empty(len(order), np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    numbers[order] = ranks[group]
    return numbers


def _marks(sentences: Sentences, chosen: np.ndarray) -> np.ndarray:
    """The length and two hashes of the pieces of each sentence, uint64 (N, 3): sums over pieces of
    a number that depends on the piece and on its place.
    """
    lengths = sentences.lengths_S[chosen]
    offsets = offsets_of(lengths)
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    pieces = sentences.ids[places + np.repeat(sentences.starts_S[chosen], lengths)]
    codes = (places.astype(np.uint64) << np.uint64(32)) + pieces.astype(np.uint64)
    sums = [
        np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(codes + np.uint64(salt)))])
        for salt in _SALTS
    ]
    return np.stack(
        [lengths.astype(np.uint64), *(part[offsets[1:]] - part[offsets[:-1]] for part in sums)],
        axis=1,
    )


def _mixed(codes: np.ndarray) -> np.ndarray:
    """Numbers whose bits all depend on all bits of the codes (the finaliser of SplitMix64)."""
    mixed = codes * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
