"""The vectors of words as streams, and sums over them that do not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences, sentence_chunks
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.token_means import word_means
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine
from raxalign.encoders.models.vectors import Pooling, WordVectors
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs
from raxalign.pairing.links import Links

CHUNK = 4096
"""Sentence pairs whose word vectors are in memory together."""

BLOCK = 8192
"""Word pairs that are added at once. What is computed from them in float64 must fit into memory
together with the vectors.
"""

NO_SINGULAR_VALUE = 1e-10
"""Singular values below this share of the largest one are rounding."""

_NORMAL = 1
"""Dimensions that may be missing without a remark: centred outputs of a layer normalisation lie in
a hyperplane.
"""

_FEW = 1 / 32
"""A map whose pairs vary together in a smaller share of the dimensions gets a remark. In a small
encoder rotations that helped had 12 to 31 of 256, and one that took F1 from 22 to 2 had 5.6.
"""


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

    @property
    def shape(self) -> tuple[int, int, str]:
        """The number of layers, the width of a vector, and the device."""
        return len(self.layers), self.encoder.hidden_size, self.encoder.device

    def words(self, sentences: Sequence[Sequence[str]], lang: str) -> WordVectors:
        """Return the vectors of the words of some sentences."""
        return self.encoder.words(sentences, lang, layers=self.layers, pooling=self.pooling)

    def text_moments(
        self,
        inputs: MethodInputs,
        lang: str,
        *,
        before: Callable[[torch.Tensor], torch.Tensor] | None = None,
        gram: bool = False,
    ) -> TextMoments:
        """Return the moments of the word vectors of one language's text, after `before`; with
        `gram` products of coordinates are summed too. Raises `RaxalignError` where the encoder
        reads no word of the text.
        """
        how: Any = {"layers": self.layers, "pooling": self.pooling}
        moments = TextMoments.empty(*self.shape, gram=gram)
        for sentences in self.sentences(inputs.text[lang]):
            for _, part in self.encoder.iter_words(sentences, lang, **how):
                vectors_NLH = part.vectors_NLH[part.present_N]
                moments.add(vectors_NLH if before is None else before(vectors_NLH))
        if not moments.count:
            raise RaxalignError(
                f"the text of {lang} has no word that the encoder reads, so it has no mean: look at"
                f" `text` or `corpus` of {lang}"
            )
        return moments

    def linked(
        self, table: Any, lang: str, pivot: str
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the vectors (P, L, H) of all word pairs of a table (`WordPairs`) of the other
        language and of the pivot, at most `BLOCK` pairs at a time. Pairs with a word that the
        encoder did not read (too long a sentence, no piece) are left out.
        """
        for start in range(0, len(table), CHUNK):
            part = table.slice(start, CHUNK)
            links = Links.of_table(part)
            if not len(links.src):
                continue
            rows = np.repeat(np.arange(len(links)), np.diff(links.offsets))
            src = self.words(read_sentences(part, "src"), lang)
            tgt = self.words(read_sentences(part, "tgt"), pivot)
            src_P, tgt_P = (
                torch.from_numpy(np.asarray(words.offsets)[rows] + positions).to(
                    self.encoder.device
                )
                for words, positions in ((src, links.src), (tgt, links.tgt))
            )
            both_P = src.present_N[src_P] & tgt.present_N[tgt_P]
            src_P, tgt_P = src_P[both_P], tgt_P[both_P]
            for first in range(0, len(src_P), BLOCK):
                yield (
                    src.vectors_NLH[src_P[first : first + BLOCK]],
                    tgt.vectors_NLH[tgt_P[first : first + BLOCK]],
                )

    def short_rows(self, table: Any, langs: tuple[str, str], max_pieces: int) -> Any:
        """Return the rows of an Arrow table (words in ``src`` and ``tgt``, of two languages) with
        at most `max_pieces` pieces on each side, special pieces apart; 0 keeps all rows. Raises
        `RaxalignError` for a static encoder, whose words are not made of pieces.
        """
        if not max_pieces:
            return table
        if not isinstance(self.encoder, TransformerEncoder):
            raise RaxalignError("`max_pieces` requires a transformer encoder; leave it out")
        kept = np.ones(len(table), bool)
        for start in range(0, len(table), CHUNK):
            part = slice(start, start + CHUNK)
            for name, lang in zip(("src", "tgt"), langs, strict=True):
                sentences = read_sentences(table.slice(start, CHUNK), name)
                kept[part] &= (
                    Pieces.read(self.encoder.tokenizer, [sentences], lang).lengths <= max_pieces
                )
        return table.take(np.flatnonzero(kept))

    def entries(
        self, table: Any, entries: Sequence[tuple[str, str]], langs: tuple[str, str], min_count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean vectors (E, L, H), over all occurrences in a table of sentence pairs, of
        the words of dictionary entries whose words both occur `min_count` times.
        """
        sides = []
        for i, (side, code) in enumerate(zip(("src", "tgt"), langs, strict=True)):
            numbers = {
                word: n for n, word in enumerate(dict.fromkeys(entry[i] for entry in entries))
            }
            read, text = partial(self.words, lang=code), sentence_chunks(table, side, CHUNK)
            *shape, device = self.shape
            means_VLH, counts_V = word_means(
                read, text, (code, list(numbers)), (shape[0], shape[1]), device
            )
            places_E = torch.tensor([numbers[entry[i]] for entry in entries], device=device)
            sides.append((means_VLH[places_E], counts_V[places_E] >= min_count))
        (src_ELH, src_E), (tgt_ELH, tgt_E) = sides
        return src_ELH[src_E & tgt_E], tgt_ELH[src_E & tgt_E]

    def sentence_pairs(
        self, inputs: MethodInputs, lang: str
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the mean vectors (P, L, H), in float64, of the sentences of a language and of their
        translations in the pivot. Pairs with a side of which the encoder reads no word are left
        out.
        """
        table = read_table(inputs.bitext[lang])
        sides = (sentence_chunks(table, side, CHUNK) for side in ("src", "tgt"))
        for src, tgt in zip(*sides, strict=True):
            src_BLH, src_B = self.sentence_means(src, lang)
            tgt_BLH, tgt_B = self.sentence_means(tgt, inputs.pivot)
            both_B = src_B & tgt_B
            yield src_BLH[both_B], tgt_BLH[both_B]

    def sentence_means(
        self, sentences: Sequence[Sequence[str]], lang: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the means (B, L, H), in float64, of the words of B sentences that the encoder
        reads, and whether (B,) there is such a word.
        """
        words = self.words(sentences, lang)
        offsets = torch.tensor(words.offsets, device=words.vectors_NLH.device)
        rows_N = torch.repeat_interleave(
            torch.arange(len(sentences), device=offsets.device), offsets.diff()
        )
        sums_BLH = torch.zeros(
            len(sentences), *self.shape[:2], dtype=torch.float64, device=offsets.device
        )
        sums_BLH.index_add_(0, rows_N, words.vectors_NLH.double())  # absent words are zero
        counts_B = torch.bincount(rows_N[words.present_N], minlength=len(sentences))
        return sums_BLH / counts_B.clamp(min=1)[:, None, None], counts_B > 0


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
        reading: WordReading,
        blocks: Iterable[tuple[torch.Tensor, torch.Tensor]],
        missing: str,
    ) -> Moments:
        """Return the moments of blocks of pairs. Raises `RaxalignError` (`missing`) without any."""
        moments = cls.empty(*reading.shape)
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

    def steps(self, weights: Sequence[torch.Tensor], *, center: bool) -> list[Affine]:
        """Return the map of each layer with its matrix, about the centroids with `center`."""
        if not center:
            return [Affine(weight=weight_HH) for weight_HH in weights]
        sources, targets = self.means()
        return [Affine(*step) for step in zip(sources, weights, targets, strict=True)]

    def rotations(self, *, center: bool = False) -> list[Affine]:
        """Return the rotation of each layer that brings the sources of pairs nearest to their
        targets, about the centroids of both with `center`.
        """
        return self.steps([nearest_rotation(c) for c in self.crosses(center=center)], center=center)

    def support(
        self,
        matrices: Sequence[torch.Tensor],
        *,
        centred: Sequence[torch.Tensor] = (),
        otherwise: str = "is arbitrary",
        unit: str = "pairs",
        tolerance: float = NO_SINGULAR_VALUE,
    ) -> dict[str, object]:
        """Return what a map rests on, for the notes of a language: `dimensions`, `rank` and
        `effective_rank` (one per layer), and a `warning` where the pairs leave more than one
        dimension of some layer undetermined, or vary together in few.

        `unit` is what the pairs are, `otherwise` what the map does in dimensions that they do not
        determine. `matrices` (H, H) determine the map of each layer; `centred` are
        cross-covariances of the pairs, for a rotation: a direction in which they hardly vary
        together is turned by chance.
        """
        dimensions = len(matrices[0])
        ranks = [numerical_rank(matrix_HH, tolerance) for matrix_HH in matrices]
        effective = [round(effective_rank(matrix_HH), 1) for matrix_HH in centred]
        facts: dict[str, object] = {"dimensions": dimensions, "rank": ranks}
        facts |= {"effective_rank": effective} if effective else {}
        missing, count = dimensions - min(ranks), f"{self.count:,} {unit}"
        if missing > _NORMAL:
            facts["warning"] = (
                f"{count} for {dimensions:,} dimensions: the map {otherwise} in {missing:,} of them"
            )
        elif effective and min(effective) < _FEW * dimensions:
            facts["warning"] = (
                f"{count} vary together in {min(effective)} of {dimensions:,} directions: in the"
                f" others the map {otherwise}, or nearly so"
            )
        return facts


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


def nearest_rotation(cross_HH: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal W that maximises the trace of W^T cross, where cross is source^T target
    in float64.
    """
    left_HH, _, right_HH = torch.linalg.svd(cross_HH)
    rotation_HH: torch.Tensor = left_HH @ right_HH
    return rotation_HH


def effective_rank(cross_HH: torch.Tensor) -> float:
    """Return in how many directions a matrix is strong: the exponential of the entropy of its
    singular values as shares (Roy & Vetterli 2007).
    """
    strength_H = torch.linalg.svdvals(cross_HH)
    if not strength_H.sum() > 0:
        return 0.0
    shares_H = strength_H / strength_H.sum()
    return float(torch.exp(-torch.special.xlogy(shares_H, shares_H).sum()))


def numerical_rank(matrix_HH: torch.Tensor, tolerance: float = NO_SINGULAR_VALUE) -> int:
    """Return the number of singular values above `tolerance` times the largest one."""
    strength_H = torch.linalg.svdvals(matrix_HH)
    return int((strength_H > tolerance * strength_H.max()).sum())
