"""Anchors: the mean vector of a word over all its occurrences in a corpus (Schuster et al. 2019;
Kulshreshtha et al. 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Pooling

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


@dataclass(frozen=True)
class Anchors:
    """The mean vectors of `words` (lower-cased), (V, L, H) in float64, and how often each occurred;
    a word that did not has a zero vector.
    """

    words: dict[str, int]
    means_VLH: torch.Tensor
    counts_V: torch.Tensor

    def count(self, word: str) -> int:
        """Return how often a word (in any case) occurred."""
        place = self.words.get(word.lower())
        return 0 if place is None else int(self.counts_V[place])


def collect_anchors(
    encoder: Encoder,
    chunks: Iterable[Sequence[Sequence[str]]],
    words: Iterable[str],
    lang: str,
    layers: tuple[int, ...],
    pooling: Pooling,
) -> Anchors:
    """Return the mean vectors of words over their occurrences in a text, in any casing.

    Args:
        encoder: The encoder that reads the text.
        chunks: The text, as lists of sentences; those without any of the words are not read.
        words: The words, which are compared in lower case.
        lang: The language of the text.
        layers: The layers that are read.
        pooling: How pieces become words.
    """
    numbers = {word: i for i, word in enumerate(dict.fromkeys(word.lower() for word in words))}
    sums_VLH = torch.zeros(
        len(numbers), len(layers), encoder.hidden_size, dtype=torch.float64, device=encoder.device
    )
    counts_V = torch.zeros(len(numbers), dtype=torch.int64, device=encoder.device)
    for chunk in chunks:
        found = [[numbers.get(word.lower(), -1) for word in sentence] for sentence in chunk]
        chosen = [i for i, row in enumerate(found) if any(number >= 0 for number in row)]
        if not chosen:
            continue
        vectors = encoder.words([chunk[i] for i in chosen], lang, layers=layers, pooling=pooling)
        numbers_N = torch.tensor(
            [number for i in chosen for number in found[i]], device=encoder.device
        )
        kept_N = (numbers_N >= 0) & vectors.present_N
        sums_VLH.index_add_(0, numbers_N[kept_N], vectors.vectors_NLH[kept_N].double())
        counts_V += torch.bincount(numbers_N[kept_N], minlength=len(numbers))
    return Anchors(numbers, sums_VLH / counts_V.clamp(min=1)[:, None, None], counts_V)
