"""Fine-tuning alignment: linked words are drawn together, and one side is held where it was (Cao et
al. 2020).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, final

from pydantic import Field

from raxalign.arrays import offsets_of, ranges
from raxalign.config.params import LATER
from raxalign.encoders.models.packing import can_pack
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import Profiles, TrainedMethod, TrainedParams
from raxalign.methods.objectives.rounding import real_gap
from raxalign.methods.rows.linked_words import LinkedRows, PieceSide, read_linked_rows
from raxalign.methods.rows.states import Layout, Spans, lay_out, states_of
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step
from raxalign.train.options import Betas, Epochs, Epsilon, LearningRate, RateSchedule, Warmup

if TYPE_CHECKING:
    from torch import nn

    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime

Norm = Literal["squared", "plain"]
Reduction = Literal["sum", "mean"]
_RELEASED = {
    "batch_size": 8,
    "align_target": "frozen",
    "reduction": "mean",
    "special_pairs": True,
    "part": 4,
    "shuffle": False,
}
_PROFILES: Profiles = {
    "paper": {
        "batch_size": 2,
        "align_target": "live",
        "reduction": "sum",
        "special_pairs": False,
        "part": 0,
        "shuffle": False,
    },
    "released": _RELEASED,
    "sane": {**_RELEASED, "part": 0, "shuffle": True},
}

_LAYERS = (
    "Layers over which the loss is summed: `last`, one number or a range such as `9-12` (0: the"
    " embeddings)."
)
_ALIGN_TARGET = (
    "What a word is drawn towards, g in the formula: the vector of the encoder in training"
    " (`live`), or that of its start (`frozen`)."
)
_REDUCTION = (
    "Whether distances are summed over words (`sum`), or averaged over words and, where they are"
    " squared, over coordinates (`mean`)."
)
_PART = (
    "Sentence pairs over which one mean is taken with `reduction: mean`; the means of a batch are"
    " then summed (0: one mean over the batch)."
)


@final
class Finetune(TrainedMethod[list[LinkedRows]]):
    """Train the encoder so that linked words have the same vector, while the vectors of one side
    stay near those of the start.

    Formula: d(f(src word), g(tgt word)) over links + λ d(f(tgt word), f0(tgt word)) over words,
    where f0 is the frozen start and g is f0 (`align_target: frozen`) or f (`live`); d is the
    squared distance, or the distance (`norm: plain`); sums over `layers` and languages.

    Data: linked words of the bitext. With `direction: to-other` the pivot moves and the other
    language is held.

    `profile` fills in what is not given. `paper` is the printed formula: sums, live targets, words
    alone, 2 sentence pairs per batch. `released` is the circulating code: means over words and
    coordinates of parts of 4 sentence pairs, which are summed; frozen targets; [CLS] and [SEP]
    count as linked words; file order. `sane` is that without its accidents: means over the whole
    batch, so that words in parts with few links do not weigh more, and rows in random order. Frozen
    targets stay, since they have the same optimum and cannot shrink both sides together; so do
    [CLS] and [SEP], which classifiers read.

    Reference: Cao et al. (2020, §3.3); for layers, plain norm and both directions Kulshreshtha et
    al. (2020, Eq. 7-10).
    """

    VERSION = 1
    name = "finetune"
    reference = "Cao et al. 2020; Kulshreshtha et al. 2020"
    papers = ("cao2020", "norm=plain kulshreshtha2020")
    profiles = _PROFILES

    class Params(TrainedParams):
        """Training is by AdamW."""

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float = Field(
            1.0,
            alias="lambda",
            ge=0,
            allow_inf_nan=False,
            description="Weight of the regulariser, λ in the formula.",
        )
        learning_rate: LearningRate[float] = 5e-5
        batch_size: int | None = Field(
            None, ge=1, description="Sentence pairs of each language per training step."
        )
        epochs: Epochs = 1
        warmup: Warmup[float] = 0.1
        schedule: Annotated[RateSchedule, LATER] = "constant"
        betas: Annotated[Betas, LATER] = "0.9 0.98"
        eps: Annotated[Epsilon[float], LATER] = 1e-9
        layers: Layers = Field("last", description=_LAYERS)
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)
        direction: Literal["to-pivot", "to-other"] = Field(
            "to-pivot", description=wording.DIRECTION
        )
        norm: Norm = Field(
            "squared",
            description=(
                "The distance d in the formula: the Euclidean distance (`plain`) or its square"
                " (`squared`)."
            ),
        )
        align_target: Literal["live", "frozen"] | None = Field(None, description=_ALIGN_TARGET)
        reduction: Reduction | None = Field(None, description=_REDUCTION)
        special_pairs: bool | None = Field(
            None, description="Whether [CLS] and [SEP] of a sentence pair count as linked words."
        )
        part: int | None = Field(None, ge=0, description=_PART)
        shuffle: bool | None = Field(
            None,
            description=(
                "Whether sentence pairs are read in random order, rather than in that of the"
                " corpus."
            ),
        )
        max_length: int = Field(128, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def needs(self) -> Needs:
        """Word pairs."""
        return Needs(links=True, dev=self.selects(), pieces=True)

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params; with `reduction: sum` there are no means over parts."""
        resolved = super().canonical()
        if resolved["reduction"] == "sum":
            resolved["part"] = 0
        return resolved

    def has_chance(self) -> bool:
        """Dropout and the order of rows have."""
        return self.params.dropout or self.shuffles()

    def shuffles(self) -> bool:
        """As `shuffle` says."""
        return bool(self.resolved()["shuffle"])

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> list[LinkedRows]:
        """Return the word pairs of each language."""
        length = self.params.max_length
        return [read_linked_rows(encoder, folders[lang], length) for lang in inputs.languages]

    def n_rows(self, rows: list[LinkedRows]) -> int:
        """Return the size of the largest corpus."""
        return max(map(len, rows))

    def counts(self, inputs: MethodInputs, rows: list[LinkedRows]) -> dict[str, object]:
        """Return the number of sentences and word pairs of each language."""
        return {
            lang: {"sentences": len(corpus), "pairs": len(corpus.link_src)}
            for lang, corpus in zip(inputs.languages, rows, strict=True)
        }

    def objective(
        self,
        encoder: TransformerEncoder,
        rows: list[LinkedRows],
        runtime: Runtime,  # noqa: ARG002
    ) -> Alignment:
        """Return the distances of linked words, and of words from those of a frozen twin."""
        model = copy.deepcopy(encoder.model).eval().requires_grad_(requires_grad=False)
        options = self._options(encoder.n_layers)
        return Alignment(encoder, encoder.with_model(model), rows, options)

    def _options(self, n_layers: int) -> AlignmentOptions:
        params, resolved = self.params, self.resolved()
        return AlignmentOptions(
            moves="src" if params.direction == "to-pivot" else "tgt",
            layers=parse_layers(params.layers, n_layers),
            pooling=params.pooling,
            reg_weight=params.reg_weight,
            norm=params.norm,
            align_target=resolved["align_target"],
            reduction=resolved["reduction"],
            special_pairs=resolved["special_pairs"],
            part=resolved["part"],
        )


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
class WeightedWords:
    """Words to read: the place of the first piece of each, its number of pieces, and its weight."""

    first: np.ndarray
    count: np.ndarray
    weight: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[WeightedWords]) -> WeightedWords:
        """Return all words of several parts."""
        columns = zip(*((part.first, part.count, part.weight) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    def pooled(self, pooling: Pooling) -> tuple[Spans, np.ndarray]:
        """Return the words as their vectors are read, and their weights."""
        return Spans.of(self.first, self.count, pooling), self.weight


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
    pairs: tuple[Spans, np.ndarray]
    targets: Spans
    words: tuple[Spans, np.ndarray]
    origins: Spans


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
        held = [self.sides(corpus)[1] for corpus in corpora]
        self.n_kept = [np.diff(offsets_of(side.read_words())[side.word_offsets]) for side in held]

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
        return _Read(live, frozen, pairs, targets[0], words, origins[0])

    def device_loss(self, step: Step, part: _Read) -> torch.Tensor:  # noqa: ARG002
        """Return the contribution of what was read, a scalar."""
        live = states_of(self.encoder, part.live, self.options.layers).layers
        frozen: list[torch.Tensor] = []
        if part.frozen is not None:
            with torch.no_grad():
                frozen = states_of(self.frozen, part.frozen, self.options.layers).layers
        (pairs, pair_weights), (words, word_weights) = part.pairs, part.words
        moving_PLH = pairs.pool(live)
        return alignment_loss(
            moving_PLH,
            part.targets.pool(live if self.options.align_target == "live" else frozen),
            words.pool(live),
            part.origins.pool(frozen or live),
            reg_weight=self.options.reg_weight,
            norm=self.options.norm,
            pair_weights_P=on_device(pair_weights, moving_PLH.device, moving_PLH.dtype),
            word_weights_W=on_device(word_weights, moving_PLH.device, moving_PLH.dtype),
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
            none = np.zeros(0, np.int64)
            nothing = WeightedWords(none, none, np.zeros(0))
            return pairs, targets, nothing, nothing
        number, owners = ranges(held.word_offsets, rows)
        read = held.count_W[number] > 0
        place, owners = (number - held.word_offsets[rows][owners])[read], owners[read]
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
        ends = starts + side.offsets[rows + 1] - side.offsets[rows] - 1
        ones = np.ones(len(rows), np.int64)
        specials = [WeightedWords(places, ones, weight) for places in (starts, ends)]
        return WeightedWords.join([items, *specials])
