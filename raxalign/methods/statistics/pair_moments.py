"""Vectors of word pairs as a stream, and what linear methods need of them: sums that do not grow
with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.corpora.text.sentences import read_sentences, sentence_chunks
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Pooling, WordVectors
from raxalign.pairing.schema import links_of

if TYPE_CHECKING:
    import numpy as np
    import torch
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")

CHUNK = 4096
"""Sentence pairs whose word vectors are in memory together."""

BLOCK = 8192
"""Word pairs that are added at once. What is computed from them in float64 must fit into memory
together with the vectors.
"""


@dataclass
class Moments:
    """Sums over pairs of vectors, in float64, for each layer: `count`, `source_LH`, `target_LH`,
    and `cross_LHH`, the sum of the products ``source[h] * target[k]``. They are enough for any
    orthogonal or least-squares map.
    """

    count: int
    source_LH: torch.Tensor
    target_LH: torch.Tensor
    cross_LHH: torch.Tensor

    @classmethod
    def empty(cls, n_layers: int, hidden: int, device: str = "cpu") -> Moments:
        """No pair yet."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        return cls(
            0, zeros(n_layers, hidden), zeros(n_layers, hidden), zeros(n_layers, hidden, hidden)
        )

    def add(self, source_PLH: torch.Tensor, target_PLH: torch.Tensor) -> None:
        """Count in some pairs: (P, L, H) each."""
        source, target = source_PLH.double(), target_PLH.double()
        self.count += len(source)
        self.source_LH += source.sum(dim=0)
        self.target_LH += target.sum(dim=0)
        self.cross_LHH += torch.einsum("plh,plk->lhk", source, target)

    def means(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the centroids (H,) of both sides, at the layer of this place."""
        return self.source_LH[layer] / self.count, self.target_LH[layer] / self.count

    def cross(self, layer: int, *, center: bool = False) -> torch.Tensor:
        """Source^T target (H, H), about the centroids with `center`."""
        if not center:
            return self.cross_LHH[layer]
        return self.cross_about(layer, *self.means(layer))

    def cross_about(
        self, layer: int, source_H: torch.Tensor, target_H: torch.Tensor
    ) -> torch.Tensor:
        """Return (Source - a)^T (target - b), (H, H), about any two points a and b."""
        shifted = (
            self.cross_LHH[layer]
            - torch.outer(source_H, self.target_LH[layer])
            - torch.outer(self.source_LH[layer], target_H)
        )
        return shifted + self.count * torch.outer(source_H, target_H)


def linked_vectors(
    encoder: Encoder, table: Any, lang: str, pivot: str, layers: tuple[int, ...], pooling: Pooling
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the vectors of all word pairs of a dataset, at most `BLOCK` pairs at a time.

    Args:
        encoder: The encoder that reads the sentences.
        table: The rows of a word-pair dataset (`read_pairs`).
        lang: The other language.
        pivot: The pivot.
        layers: The layers that are read.
        pooling: How pieces become words.

    Yields:
        Vectors (P, L, H) of the other language and of the pivot. Pairs with a word that the
        encoder did not read (too long a sentence, no piece) are left out.
    """
    for start in range(0, len(table), CHUNK):
        part = table.slice(start, CHUNK)
        links = links_of(part)
        if not len(links.src):
            continue
        rows = np.repeat(np.arange(len(links)), np.diff(links.offsets))
        src = encoder.words(read_sentences(part, "src"), lang, layers=layers, pooling=pooling)
        tgt = encoder.words(read_sentences(part, "tgt"), pivot, layers=layers, pooling=pooling)
        src_P, tgt_P = (
            _places(words, rows, links_of_side)
            for words, links_of_side in ((src, links.src), (tgt, links.tgt))
        )
        both_P = src.present_N[src_P] & tgt.present_N[tgt_P]
        src_P, tgt_P = src_P[both_P], tgt_P[both_P]
        for first in range(0, len(src_P), BLOCK):
            yield (
                src.vectors_NLH[src_P[first : first + BLOCK]],
                tgt.vectors_NLH[tgt_P[first : first + BLOCK]],
            )


def _places(words: WordVectors, rows: np.ndarray, positions: np.ndarray) -> torch.Tensor:
    """The rows of `words` that hold the words at some positions of some sentences."""
    return torch.from_numpy(np.asarray(words.offsets)[rows] + positions).to(
        words.vectors_NLH.device
    )


def sentences_of(folder: Path, side: str) -> Iterator[list[list[str]]]:
    """Yield the sentences (lists of words) of one side of a bitext or word-pair dataset, `CHUNK` at
    a time.
    """
    from raxalign.corpora.text.dataset import read_table

    yield from sentences_in(read_table(folder), side)


def sentences_in(table: Any, side: str) -> Iterator[list[list[str]]]:
    """Yield the sentences of a column of an Arrow table, `CHUNK` at a time."""
    yield from sentence_chunks(table, side, CHUNK)


def drawn_sentences(folder: Path, side: str, size: int, seed: int) -> Iterator[list[list[str]]]:
    """Draw sentences of one side of a dataset at random, without repetition.

    Args:
        folder: The dataset.
        side: Its column.
        size: The number of sentences; all of them where there are fewer.
        seed: Seed of the draw.

    Yields:
        The sentences in the order of the dataset, `CHUNK` at a time.
    """
    from raxalign.corpora.text.dataset import read_table

    table = read_table(folder)
    count = len(table)
    rows = np.sort(np.random.default_rng(seed).choice(count, min(size, count), replace=False))
    for start in range(0, len(rows), CHUNK):
        yield read_sentences(table.take(rows[start : start + CHUNK]), side)
