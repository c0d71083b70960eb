"""Vectors of words outside sentences: means over their occurrences in a text, or of each word
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from raxalign import lazy
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.vectors import Pooling

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.vectors import WordVectors
else:
    torch = lazy.load("torch")

CHUNK = 1024
"""Sentences whose word vectors are in memory together."""


@dataclass(frozen=True)
class WordReading:
    """How words become vectors: their language, the `layers` that are added up, and
    how a word's pieces are joined.
    """

    lang: str
    layers: str
    pooling: Pooling

    def of(self, aligned: AlignedEncoder, sentences: Sequence[Sequence[str]]) -> WordVectors:
        """Return the vectors of the words of some sentences, layers not yet added up."""
        return aligned.words(sentences, self.lang, layers=self.layers, pooling=self.pooling)


def sentences_of(folder: Path) -> Iterator[list[list[str]]]:
    """Yield the sentences of a text dataset, `CHUNK` at a time."""
    yield from sentence_chunks(read_table(folder), "words", CHUNK)


def mean_vectors(
    aligned: AlignedEncoder,
    folder: Path,
    words: Sequence[str],
    reading: WordReading,
    max_contexts: int | None,
) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
    """Return the means of the vectors of words over their occurrences in a text.

    Words are met in any casing. Sentences are read in their order; one is encoded where it holds a
    word that was met less than `max_contexts` times before it, and then all its words count.

    Args:
        aligned: the encoder.
        folder: the text, a dataset with a column ``words``.
        words: V words, lower-cased and all different.
        reading: how words become vectors.
        max_contexts: the most occurrences of a word that are searched (None: all of them).

    Returns:
        (means (V, H), zero for a word that does not occur; occurrences that were counted (V,)).
    """
    numbers = {word: i for i, word in enumerate(words)}
    met = np.zeros(len(words), np.int64)
    sums_VH = torch.zeros(
        len(words), aligned.hidden_size, dtype=torch.float64, device=aligned.device
    )
    counts_V = torch.zeros(len(words), dtype=torch.int64, device=aligned.device)
    for chunk in sentences_of(folder):
        places = [[numbers.get(word.lower(), -1) for word in sentence] for sentence in chunk]
        chosen = list(_wanted(places, met, max_contexts))
        if not chosen:
            continue
        vectors = reading.of(aligned, [chunk[i] for i in chosen])
        held = [number for i in chosen for number in places[i]]
        numbers_N = torch.tensor(held, device=aligned.device)
        kept_N = (numbers_N >= 0) & vectors.present_N
        sums_VH.index_add_(0, numbers_N[kept_N], vectors.vectors_NLH[kept_N].sum(1).double())
        counts_V += torch.bincount(numbers_N[kept_N], minlength=len(words))
    return (sums_VH / counts_V.clamp(min=1)[:, None]).float(), counts_V.cpu().numpy()


def _wanted(
    places: Sequence[Sequence[int]], met: npt.NDArray[np.int64], most: int | None
) -> Iterator[int]:
    """Yield the sentences with a word that was not met often enough, and count what they hold into
    `met`.
    """
    for i, row in enumerate(places):
        held = {number for number in row if number >= 0}
        if any(most is None or met[number] < most for number in held):
            for number in held:
                met[number] += 1
            yield i


def lone_vectors(
    aligned: AlignedEncoder, words: Sequence[str], reading: WordReading
) -> tuple[torch.Tensor, npt.NDArray[np.bool_]]:
    """Return (vectors (V, H), whether each word has one (V,)) of words that each are a sentence of
    their own.
    """
    found = reading.of(aligned, [[word] for word in words])
    return found.vectors_NLH.sum(1).float(), found.present_N.cpu().numpy().astype(np.bool_)
