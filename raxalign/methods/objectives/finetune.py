"""The objective of fine-tuning alignment (Cao et al. 2020), which feeds its loss.

Words whose vectors are read from the states of sentences, each with its weight in a loss.

The loss of fine-tuning alignment (Cao et al. 2020): its arithmetic.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from raxalign import lazy
from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.packing import can_pack
from raxalign.encoders.models.vectors import Pooling
from raxalign.methods.objectives.rounding import real_gap
from raxalign.methods.rows.linked_words import LinkedRows, PieceSide
from raxalign.methods.rows.states import Layout, Spans, lay_out, states_of
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    np = lazy.load("numpy")
    torch = lazy.load("torch")


@dataclass(frozen=True)
class WeightedSpans:
    """Words as their vectors are read, and the weight of each."""

    spans: Spans
    weight: np.ndarray


@dataclass(frozen=True)
class WeightedWords:
    """Words to read: the place of the first piece of each, its number of pieces, and its weight."""

    first: np.ndarray
    count: np.ndarray
    weight: np.ndarray

    @classmethod
    def none(cls) -> WeightedWords:
        """No words."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def join(cls, parts: Sequence[WeightedWords]) -> WeightedWords:
        """All words of several parts."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("first", "count", "weight")
            )
        )

    def pooled(self, pooling: Pooling) -> WeightedSpans:
        """Return the words as their vectors are read."""
        return WeightedSpans(Spans.of(self.first, self.count, pooling), self.weight)


def ends_of_rows(
    side: PieceSide, rows: np.ndarray, starts: np.ndarray, weight: np.ndarray
) -> WeightedWords:
    """Return the first and the last piece of some rows, with the weights of the rows; they begin at
    `starts` in the states.
    """
    ends = starts + side.offsets[rows + 1] - side.offsets[rows] - 1
    ones = np.ones(len(rows), np.int64)
    pieces = (WeightedWords(starts, ones, weight), WeightedWords(ends, ones, weight))
    return WeightedWords.join(pieces)


def count_read_words(side: PieceSide) -> np.ndarray:
    """Return how many words of each sentence were read."""
    read = offsets_of(side.read_words())
    return np.diff(read[side.word_offsets])


def read_words_of(side: PieceSide, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all words of some rows that were read: (positions in their sentences, the place in
    `rows` of each).
    """
    number, owners = ranges(side.word_offsets, rows)
    read = side.count_W[number] > 0
    return (number - side.word_offsets[rows][owners])[read], owners[read]


Norm = Literal["squared", "plain"]
Reduction = Literal["sum", "mean"]


def alignment_loss(
    moving_PLH: torch.Tensor,
    target_PLH: torch.Tensor,
    kept_WLH: torch.Tensor,
    origin_WLH: torch.Tensor,
    *,
    reg_weight: float,
    norm: Norm = "squared",
    pair_weights_P: torch.Tensor | None = None,
    word_weights_W: torch.Tensor | None = None,
) -> torch.Tensor:
    """sum_p w_p d(moving_p, target_p) + reg_weight * sum_w v_w d(kept_w, origin_w), where d is
    summed over layers.

    d is the squared Euclidean distance, or the distance itself (`norm: plain`; Kulshreshtha et al.
    2020, Eq. 7-8). Weights that are not given are 1: plain sums, as printed by Cao et al. (2020,
    §3.3).
    """
    distance_P, drift_W = (
        _distance(moving_PLH, target_PLH, norm),
        _distance(kept_WLH, origin_WLH, norm),
    )
    align = distance_P.sum() if pair_weights_P is None else distance_P @ pair_weights_P
    drift = drift_W.sum() if word_weights_W is None else drift_W @ word_weights_W
    return align + reg_weight * drift


def _distance(left_NLH: torch.Tensor, right_NLH: torch.Tensor, norm: Norm) -> torch.Tensor:
    """(N,), summed over layers. The plain distance of equal vectors has gradient 0, and so have
    vectors that differ by rounding alone.
    """
    gap_NLH = real_gap(left_NLH, right_NLH)
    per_layer_NL = (
        gap_NLH.pow(2).sum(dim=-1)
        if norm == "squared"
        else torch.linalg.vector_norm(gap_NLH, dim=-1)
    )
    return per_layer_NL.sum(dim=-1)


def item_weights(
    counts_N: np.ndarray, part: int, reduction: Reduction, norm: Norm, hidden: int
) -> np.ndarray:
    """Return the weight of each item of the rows of a global batch, (N,): `counts_N` items stand in
    each of its N rows.

    A mean is over all items of the batch, or of `part` consecutive rows (their means are then
    summed), and over coordinates where the distance is squared: a mean squared error, as in the
    circulating code.
    """
    if reduction == "sum":
        return np.ones(len(counts_N))
    groups_N = np.arange(len(counts_N)) // (part or max(len(counts_N), 1))
    totals_N = np.bincount(groups_N, weights=counts_N)[groups_N]
    return 1.0 / (np.maximum(totals_N, 1) * (hidden if norm == "squared" else 1))


@dataclass(frozen=True)
class AlignmentOptions:
    """The options of `finetune` that the loss reads. `moves` is the side that training moves."""

    moves: Literal["src", "tgt"]
    layers: tuple[int, ...]
    pooling: Pooling
    reg_weight: float
    norm: Norm
    align_target: Literal["live", "frozen"]
    reduction: Reduction
    special_pairs: bool
    part: int


@dataclass(frozen=True)
class _Read:
    """What the device reads of a micro-batch: the sentences of the encoder, those of the frozen
    one (None: it is not read), and the words: of pairs those that move and their targets; those
    that are held, and their origins.
    """

    live: Layout
    frozen: Layout | None
    pairs: WeightedSpans
    targets: WeightedSpans
    words: WeightedSpans
    origins: WeightedSpans


_Weights = list[tuple["np.ndarray", "np.ndarray"]]
"""For each corpus the weights of the pairs and of the words of each row of a global batch."""


class Alignment(HostSided[_Weights, _Read]):
    """Brings linked words together and holds one side where it was, summed over corpora of equal
    batches; shorter corpora begin anew.

    Row r of the training is row ``r % len(corpus)`` of each corpus. One forward reads both sides of
    all corpora; the frozen twin reads the side that is held, without gradients.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        frozen: TransformerEncoder,
        corpora: list[LinkedRows],
        options: AlignmentOptions,
    ) -> None:
        for part in (encoder, frozen):
            can_pack(part)  # found out here, and not by the thread that prepares steps
        self.module = encoder.model
        self.encoder, self.frozen, self.options = encoder, frozen, options
        self.loss_unit = max(1.0, options.reg_weight)
        self.reads_frozen = options.reg_weight > 0 or options.align_target == "frozen"
        self.reads_kept = options.reg_weight > 0 or options.align_target == "live"
        self._read(corpora)

    def on(self, corpora: list[LinkedRows]) -> Self:
        """Return the same objective over other corpora of these languages, with the same module."""
        other = copy.copy(self)
        other._read(corpora)
        return other

    def _read(self, corpora: list[LinkedRows]) -> None:
        """Count the links and the words that are held in each row of the corpora."""
        self.corpora = corpora
        self.n_links = [np.diff(corpus.link_offsets) for corpus in corpora]
        self.n_kept = [count_read_words(self.sides(corpus)[1]) for corpus in corpora]

    def sides(self, corpus: LinkedRows) -> tuple[PieceSide, PieceSide]:
        """Return (the side that moves, the side that is held)."""
        return (corpus.src, corpus.tgt) if self.options.moves == "src" else (corpus.tgt, corpus.src)

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks."""
        return self.encoder.blocks()

    def host_batch(self, step: Step) -> _Weights:
        """Return the weights of every row's pairs and words, from the counts of the batch."""
        options, specials = self.options, 2 if self.options.special_pairs else 0
        weights: _Weights = []
        for corpus, links, kept in zip(self.corpora, self.n_links, self.n_kept, strict=True):
            rows = step.rows % len(corpus)
            pair, word = (
                item_weights(
                    counts[rows] + specials,
                    options.part,
                    options.reduction,
                    options.norm,
                    self.encoder.hidden_size,
                )
                for counts in (links, kept)
            )
            weights.append((pair, word))
        return weights

    def host_part(self, step: Step, batch: _Weights, positions: np.ndarray) -> _Read:
        """Return what is read of some rows of the global batch."""
        rows = [step.rows[positions] % len(corpus) for corpus in self.corpora]
        live, frozen, starts = self.layouts(rows)
        items = [
            self.corpus_items(
                c,
                rows[c],
                {name: part[c] for name, part in starts.items()},
                (pair[positions], word[positions]),
            )
            for c, (pair, word) in enumerate(batch)
        ]
        pairs, targets, words, origins = (
            WeightedWords.join(parts).pooled(self.options.pooling)
            for parts in zip(*items, strict=True)
        )
        return _Read(live, frozen, pairs, targets, words, origins)

    def device_loss(self, step: Step, part: _Read) -> torch.Tensor:  # noqa: ARG002
        """Return the contribution of what was read, a scalar."""
        live = states_of(self.encoder, part.live, self.options.layers).layers
        frozen: list[torch.Tensor] = []
        if part.frozen is not None:
            with torch.no_grad():
                frozen = states_of(self.frozen, part.frozen, self.options.layers).layers
        moving_PLH = part.pairs.spans.pool(live)
        return alignment_loss(
            moving_PLH,
            part.targets.spans.pool(live if self.options.align_target == "live" else frozen),
            part.words.spans.pool(live),
            part.origins.spans.pool(frozen or live),
            reg_weight=self.options.reg_weight,
            norm=self.options.norm,
            pair_weights_P=on_device(part.pairs.weight, moving_PLH.device, moving_PLH.dtype),
            word_weights_W=on_device(part.words.weight, moving_PLH.device, moving_PLH.dtype),
        )

    def layouts(
        self, rows: list[np.ndarray]
    ) -> tuple[Layout, Layout | None, dict[str, np.ndarray]]:
        """Return some rows of each corpus as the encoder reads them, and as the frozen one does,
        where it is read. Then where the sentences begin in the states, (corpora, rows): those that
        move (`moving`), and those that are held (`live`, `frozen`), if read.
        """
        moving, kept = (
            [(self.sides(corpus)[i], rows[c]) for c, corpus in enumerate(self.corpora)]
            for i in (0, 1)
        )
        live = lay_out(self.encoder, [*moving, *kept] if self.reads_kept else moving)
        begins = np.split(live.packed.starts_S, [sum(map(len, rows))])
        starts = dict(zip(("moving", "live"), begins, strict=True))
        frozen = lay_out(self.frozen, kept) if self.reads_frozen else None
        if frozen is not None:
            starts["frozen"] = frozen.packed.starts_S
        by_corpus = {
            name: part.reshape(len(rows), -1) for name, part in starts.items() if len(part)
        }
        return live, frozen, by_corpus

    def corpus_items(
        self,
        c: int,
        rows: np.ndarray,
        starts: dict[str, np.ndarray],
        weights: tuple[np.ndarray, np.ndarray],
    ) -> tuple[WeightedWords, WeightedWords, WeightedWords, WeightedWords]:
        """Return the words of some rows of a corpus: of pairs those that move and their targets;
        those that are held, and their origins.
        """
        corpus, options = self.corpora[c], self.options
        mine, held = self.sides(corpus)
        pair_weight, word_weight = weights
        left, right = (
            (corpus.link_src, corpus.link_tgt)
            if options.moves == "src"
            else (corpus.link_tgt, corpus.link_src)
        )
        link, owners = ranges(corpus.link_offsets, rows)
        pairs = self.items(mine, rows, starts["moving"], left[link], owners, pair_weight)
        targets = self.items(
            held, rows, starts[options.align_target], right[link], owners, pair_weight
        )
        if not options.reg_weight:
            return pairs, targets, WeightedWords.none(), WeightedWords.none()
        place, owners = read_words_of(held, rows)
        words, origins = (
            self.items(held, rows, starts[name], place, owners, word_weight)
            for name in ("live", "frozen")
        )
        return pairs, targets, words, origins

    def items(
        self,
        side: PieceSide,
        rows: np.ndarray,
        starts: np.ndarray,
        words: np.ndarray,
        owners: np.ndarray,
        weight: np.ndarray,
    ) -> WeightedWords:
        """Words (positions in their sentences, and the place in `rows` of each) and, where wanted,
        the first and last piece of each row.
        """
        first, count = side.spans(side.word_offsets[rows][owners] + words)
        items = WeightedWords(starts[owners] + first, count, weight[owners])
        if not self.options.special_pairs:
            return items
        return WeightedWords.join([items, ends_of_rows(side, rows, starts, weight)])
