"""Sums over the word vectors of monolingual text: means, deviations and second moments that do not
grow with the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.errors import RaxalignError
from raxalign.methods.base import MethodInputs
from raxalign.methods.statistics.pair_moments import drawn_sentences, sentences_of

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

Step = Callable[["torch.Tensor"], "torch.Tensor"]
"""A map of vectors (..., H), as `Unit` and `Affine` are."""

Steps = tuple[Step, ...]


@dataclass
class TextMoments:
    """Sums over the word vectors of a language, in float64, for each layer: `count`, `sum_LH`,
    `square_LH` (of the squares of the coordinates) and, where asked for, `gram_LHH`, the sum of the
    products ``x[h] * x[k]``.
    """

    count: int
    sum_LH: torch.Tensor
    square_LH: torch.Tensor
    gram_LHH: torch.Tensor | None = None

    @classmethod
    def empty(
        cls, n_layers: int, hidden: int, device: str = "cpu", *, gram: bool = False
    ) -> TextMoments:
        """No vector yet."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        return cls(
            0,
            zeros(n_layers, hidden),
            zeros(n_layers, hidden),
            zeros(n_layers, hidden, hidden) if gram else None,
        )

    def add(self, vectors_NLH: torch.Tensor) -> None:
        """Count in some vectors, (N, L, H)."""
        vectors = vectors_NLH.double()
        self.count += len(vectors)
        self.sum_LH += vectors.sum(dim=0)
        self.square_LH += vectors.square().sum(dim=0)
        if self.gram_LHH is not None:
            self.gram_LHH += torch.einsum("nlh,nlk->lhk", vectors, vectors)

    def means(self) -> torch.Tensor:
        """Return the mean vectors, (L, H)."""
        return self.sum_LH / self.count

    def deviations(self) -> torch.Tensor:
        """Return the standard deviation of each coordinate (L, H), that of the whole population; 1
        where a coordinate never changes, so that dividing by it leaves that coordinate finite.
        """
        means = self.means()
        variances = (self.square_LH / self.count - means.square()).clamp(min=0)
        constant = variances <= 1e-12 * (self.square_LH / self.count)
        return torch.where(constant, 1.0, variances.sqrt())


@dataclass(frozen=True)
class WordReading:
    """How the words of a text become vectors: the encoder, its layers, the pooling of pieces, the
    number of sentences (None: all of them), and the seed by which they are drawn (None: the first
    ones).
    """

    encoder: Encoder
    layers: tuple[int, ...]
    pooling: Pooling
    limit: int | None = None
    seed: int | None = None

    def sentences(self, text: Path) -> Iterator[list[list[str]]]:
        """The sentences of a text dataset that are read, in its order, some at a time."""
        if self.limit is None or self.seed is None:
            return _first(sentences_of(text, "words"), self.limit)
        return drawn_sentences(text, "words", self.limit, self.seed)


def text_moments(
    reading: WordReading,
    inputs: MethodInputs,
    lang: str,
    *,
    before: Sequence[Steps] | None = None,
    gram: bool = False,
) -> TextMoments:
    """Return the moments of the word vectors of one language's text.

    Args:
        reading: What is read of the encoder, and how.
        inputs: The inputs of the method, with the text.
        lang: The language.
        before: The steps that each layer's vectors go through first.
        gram: Whether products of coordinates are summed too.

    Raises:
        RaxalignError: The encoder reads no word of the text.
    """
    encoder, layers = reading.encoder, reading.layers
    moments = TextMoments.empty(len(layers), encoder.hidden_size, encoder.device, gram=gram)
    for sentences in reading.sentences(inputs.text[lang]):
        for _, part in encoder.iter_words(sentences, lang, layers=layers, pooling=reading.pooling):
            vectors_NLH = part.vectors_NLH[part.present_N]
            moments.add(vectors_NLH if before is None else stepped(vectors_NLH, before))
    if not moments.count:
        raise RaxalignError(
            f"the text of {lang} has no word that the encoder reads, so it has no mean: look at"
            f" `text` or `corpus` of {lang}"
        )
    return moments


def stepped(vectors_NLH: torch.Tensor, steps: Sequence[Steps]) -> torch.Tensor:
    """Vectors in float64 after the steps of each layer."""
    columns = list(vectors_NLH.double().unbind(dim=1))
    for place, chain in enumerate(steps):
        for step in chain:
            columns[place] = step(columns[place])
    return torch.stack(columns, dim=1)


def _first(chunks: Iterator[list[list[str]]], limit: int | None) -> Iterator[list[list[str]]]:
    """The first `limit` sentences."""
    left = limit
    for chunk in chunks:
        part = chunk if left is None else chunk[:left]
        left = None if left is None else left - len(part)
        yield part
        if left == 0:
            return
