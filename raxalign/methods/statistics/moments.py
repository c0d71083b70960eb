"""Sums over vectors that do not grow with their number, and the vectors as streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences, sentence_chunks
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Pooling
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs
from raxalign.pairing.schema import links_of

CHUNK = 4096
"""Sentence pairs whose word vectors are in memory together."""

BLOCK = 8192
"""Word pairs that are added at once. What is computed from them in float64 must fit into memory
together with the vectors.
"""

Step = Callable[["torch.Tensor"], "torch.Tensor"]
"""A map of vectors (..., H), as `Unit` and `Affine` are."""

Steps = tuple[Step, ...]


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
        """Return the moments of no pair yet."""
        source, target = _zeros(device, 2, n_layers, hidden)
        return cls(0, source, target, _zeros(device, n_layers, hidden, hidden))

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        layers: tuple[int, ...],
        blocks: Iterable[tuple[torch.Tensor, torch.Tensor]],
        missing: str,
    ) -> Moments:
        """Return the moments of blocks of pairs. Raises `RaxalignError` (`missing`) without any."""
        moments = cls.empty(len(layers), encoder.hidden_size, encoder.device)
        for source_PLH, target_PLH in blocks:
            moments.add(source_PLH, target_PLH)
        if not moments.count:
            raise RaxalignError(missing)
        return moments

    def add(self, source_PLH: torch.Tensor, target_PLH: torch.Tensor) -> None:
        """Count in some pairs: (P, L, H) each."""
        source, target = source_PLH.double(), target_PLH.double()
        self.count += len(source)
        self.source_LH += source.sum(dim=0)
        self.target_LH += target.sum(dim=0)
        self.cross_LHH += torch.einsum("plh,plk->lhk", source, target)

    def means(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the centroids (L, H) of both sides."""
        return self.source_LH / self.count, self.target_LH / self.count

    def crosses(self, *, center: bool = False) -> list[torch.Tensor]:
        """Return Source^T target (H, H) at every layer, about the centroids with `center`."""
        if not center:
            return list(self.cross_LHH)
        ends = zip(*self.means(), strict=True)
        return [self.cross_about(place, *both) for place, both in enumerate(ends)]

    def cross_about(
        self, place: int, source_H: torch.Tensor, target_H: torch.Tensor
    ) -> torch.Tensor:
        """Return (Source - a)^T (target - b), (H, H), about any two points a and b."""
        shifted = (
            self.cross_LHH[place]
            - torch.outer(source_H, self.target_LH[place])
            - torch.outer(self.source_LH[place], target_H)
        )
        return shifted + self.count * torch.outer(source_H, target_H)


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
        """Return the moments of no vector yet."""
        products = _zeros(device, n_layers, hidden, hidden) if gram else None
        total, squares = _zeros(device, 2, n_layers, hidden)
        return cls(0, total, squares, products)

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


def _zeros(device: str, *shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.float64, device=device)


@dataclass(frozen=True)
class WordReading:
    """How the words of a text become vectors: the encoder, its layers, the pooling of pieces, the
    number of sentences, from the first one on (None: all of them).
    """

    encoder: Encoder
    layers: tuple[int, ...]
    pooling: Pooling
    limit: int | None = None

    def sentences(self, text: Path) -> Iterator[list[list[str]]]:
        """The sentences of a text dataset that are read, in its order, `CHUNK` at a time."""
        table = read_table(text)
        table = table if self.limit is None else table.slice(0, self.limit)
        return sentence_chunks(table, "words", CHUNK)


def text_moments(
    reading: WordReading,
    inputs: MethodInputs,
    lang: str,
    *,
    before: Sequence[Steps] | None = None,
    gram: bool = False,
) -> TextMoments:
    """Return the moments of the word vectors of one language's text, after the steps `before` of
    each layer; with `gram` products of coordinates are summed too. Raises `RaxalignError` where the
    encoder reads no word of the text.
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
    """Return vectors in float64 after the steps of each layer."""
    columns = list(vectors_NLH.double().unbind(dim=1))
    for place, chain in enumerate(steps):
        for step in chain:
            columns[place] = step(columns[place])
    return torch.stack(columns, dim=1)


def linked_vectors(
    encoder: Encoder, table: Any, lang: str, pivot: str, layers: tuple[int, ...], pooling: Pooling
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the vectors (P, L, H) of all word pairs of a table (`read_pairs`) of the other language
    and of the pivot, at most `BLOCK` pairs at a time. Pairs with a word that the encoder did not
    read (too long a sentence, no piece) are left out.
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
            torch.from_numpy(np.asarray(words.offsets)[rows] + positions).to(encoder.device)
            for words, positions in ((src, links.src), (tgt, links.tgt))
        )
        both_P = src.present_N[src_P] & tgt.present_N[tgt_P]
        src_P, tgt_P = src_P[both_P], tgt_P[both_P]
        for first in range(0, len(src_P), BLOCK):
            yield (
                src.vectors_NLH[src_P[first : first + BLOCK]],
                tgt.vectors_NLH[tgt_P[first : first + BLOCK]],
            )


def sentence_pair_means(
    encoder: Encoder, inputs: MethodInputs, lang: str, layers: tuple[int, ...], pooling: Pooling
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the mean vectors (P, L, H), in float64, of the sentences of a language and of their
    translations in the pivot. Pairs with a side of which the encoder reads no word are left out.
    """
    table = read_table(inputs.bitext[lang])
    sides = (sentence_chunks(table, side, CHUNK) for side in ("src", "tgt"))
    for src, tgt in zip(*sides, strict=True):
        src_BLH, src_B = sentence_means(encoder, src, lang, layers, pooling)
        tgt_BLH, tgt_B = sentence_means(encoder, tgt, inputs.pivot, layers, pooling)
        both_B = src_B & tgt_B
        yield src_BLH[both_B], tgt_BLH[both_B]


def sentence_means(
    encoder: Encoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    layers: tuple[int, ...],
    pooling: Pooling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the means (B, L, H), in float64, of the words of B sentences that the encoder reads,
    and whether (B,) there is such a word.
    """
    words = encoder.words(sentences, lang, layers=layers, pooling=pooling)
    offsets = torch.tensor(words.offsets, device=words.vectors_NLH.device)
    rows_N = torch.repeat_interleave(
        torch.arange(len(sentences), device=offsets.device), offsets.diff()
    )
    sums_BLH = torch.zeros(
        len(sentences), len(layers), encoder.hidden_size, dtype=torch.float64, device=offsets.device
    )
    sums_BLH.index_add_(0, rows_N, words.vectors_NLH.double())  # absent words are zero
    counts_B = torch.bincount(rows_N[words.present_N], minlength=len(sentences))
    return sums_BLH / counts_B.clamp(min=1)[:, None, None], counts_B > 0
