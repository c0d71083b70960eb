"""GloVe (Pennington et al. 2014): vectors whose dot products are the logarithms of how often words
occur near each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from raxalign.encoders.training.params import StaticParams

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

BATCH = 16_384
"""Entries of the co-occurrence matrix whose gradients are added up before a step."""


def cooccurrences(sentences: Sequence[Ints], size: int, window: int) -> Any:
    """The symmetric co-occurrence matrix (size, size): two words d places apart in a sentence count
    1/d, up to `window` places. Words without a number are -1, and keep their place.
    """
    words_T = np.concatenate([np.zeros(0, np.int64), *sentences])
    owners_T = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    counts = sparse.csr_matrix((size, size))
    for distance in range(1, window + 1):
        left, right = words_T[:-distance], words_T[distance:]
        near = (owners_T[:-distance] == owners_T[distance:]) & (left >= 0) & (right >= 0)
        weights = np.full(int(near.sum()), 1.0 / distance)
        places = left[near], right[near]
        counts = counts + sparse.coo_matrix((weights, places), shape=(size, size)).tocsr()
    counts = (counts + counts.T).tocsr()
    counts.sort_indices()
    return counts


@dataclass
class Glove:
    """The parameters of both roles of every word, ``[vector; bias]``, and AdaGrad's sums of squared
    gradients.

    The loss over the entries X_ij > 0 is sum f(X_ij) (w_i . c_j + b_i + d_j - log X_ij)^2 / 2 with
    f(x) = min(1, x / x_max)^alpha (Eq. 8-9). Steps are those of AdaGrad on the gradient of a batch
    of entries: the squares are added before the step is taken (Duchi et al. 2011), so that no
    coordinate moves by more than the learning rate.
    """

    words_VH: Floats
    contexts_VH: Floats
    word_bias_V: Floats
    context_bias_V: Floats
    x_max: float = 100.0
    alpha: float = 0.75
    learning_rate: float = 0.05
    _squares: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("words_VH", "contexts_VH", "word_bias_V", "context_bias_V"):
            self._squares[name] = np.zeros_like(getattr(self, name)) + _START

    @classmethod
    def random(cls, size: int, params: StaticParams, rng: np.random.Generator) -> Glove:
        """Parameters uniform in +-1/(2 dimension), as in the paper's own program."""
        dimension = params.dimension
        shapes: tuple[tuple[int, ...], ...] = (size, dimension), (size, dimension), (size,), (size,)
        drawn = (rng.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes)
        words, contexts, of_words, of_contexts = (part / np.float32(dimension) for part in drawn)
        return cls(words, contexts, of_words, of_contexts, params.x_max, learning_rate=params.rate)

    def step(self, rows_N: Ints, columns_N: Ints, counts_N: npt.NDArray[np.float64]) -> float:
        """One step on a batch of different entries; returns its loss, before the step."""
        rows, at_row = np.unique(rows_N, return_inverse=True)
        columns, at_column = np.unique(columns_N, return_inverse=True)
        words, contexts = self.words_VH[rows], self.contexts_VH[columns]
        guess_N = (
            np.einsum("nh,nh->n", words[at_row], contexts[at_column])
            + self.word_bias_V[rows_N]
            + self.context_bias_V[columns_N]
        )
        gap_N = guess_N - np.log(counts_N).astype(np.float32)
        pull_N = np.minimum(1.0, (counts_N / self.x_max) ** self.alpha).astype(np.float32) * gap_N
        pulls = sparse.csr_matrix((pull_N, (at_row, at_column)), shape=(len(rows), len(columns)))
        self._move("words_VH", rows, pulls @ contexts)
        self._move("contexts_VH", columns, pulls.T.tocsr() @ words)
        self._move("word_bias_V", rows, np.bincount(at_row, pull_N, len(rows)).astype(np.float32))
        pulls_C = np.bincount(at_column, pull_N, len(columns)).astype(np.float32)
        self._move("context_bias_V", columns, pulls_C)
        return float(np.dot(pull_N.astype(np.float64), gap_N) / 2)

    def _move(self, name: str, places: Ints, gradient: Floats) -> None:
        squares = self._squares[name]
        squares[places] += gradient * gradient
        getattr(self, name)[places] -= (
            np.float32(self.learning_rate) * gradient / np.sqrt(squares[places])
        )

    def vectors(self) -> Floats:
        """The sum of both roles (V, H), which is what GloVe returns (§4.2)."""
        return self.words_VH + self.contexts_VH


_START = np.float32(1e-8)


def train_glove(
    sentences: Sequence[Ints], size: int, params: StaticParams
) -> tuple[Floats, list[float]]:
    """Train the vectors of a vocabulary of `size` words on sentences of their numbers (-1: another
    word); the same seed gives the same vectors. Returns float32 (size, dimension), and the mean
    loss per entry in each epoch.
    """
    counts = cooccurrences(sentences, size, params.window).tocoo()
    rows, columns = counts.row.astype(np.int64), counts.col.astype(np.int64)
    rng = np.random.default_rng(params.seed)
    model, losses = Glove.random(size, params, rng), []
    for _ in range(params.trained_epochs):
        order, total = rng.permutation(len(rows)), 0.0
        for start in range(0, len(rows), BATCH):
            part = order[start : start + BATCH]
            total += model.step(rows[part], columns[part], counts.data[part])
        losses.append(total / max(1, len(rows)))
    return model.vectors(), losses
