"""Linked words are drawn together, and one side is held where it was (Cao et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, final

from pydantic import Field

from raxalign.arrays import offsets_of
from raxalign.encoders.models.trained_weights import frozen_copy
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Layers, Pooling, Spans, parse_layers
from raxalign.lazy import np, torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import TrainedMethod
from raxalign.options.params import LATER, Removed
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step
from raxalign.train.options import NO_OPTION, Epochs, LearningRate, RateSchedule, Warmup

if TYPE_CHECKING:
    from raxalign.encoders.models.rows import Packed
    from raxalign.methods.families.rows import Bitexts

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
_PROFILES = {
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


@final
class Finetune(TrainedMethod["Bitexts"]):
    """Train the encoder so that linked words have the same vector, while the vectors of one side
    stay near those of the start.

    Formula: d(f(src word), g(tgt word)) over links + λ d(f(tgt word), f0(tgt word)) over words,
    where f0 is the frozen start and g is f0, or f in `profile: paper`; d is the squared distance,
    or the distance (`norm: plain`); sums over `layers` and languages.

    Data: linked words of the bitext. With `direction: to-other` the pivot moves and the other
    language is held.

    `profile` fills in what is not given. `paper` is the printed formula: sums, live targets, words
    alone, 2 sentence pairs per batch. `released` is the circulating code: means over words and
    coordinates of parts of 4 sentence pairs, which are summed; frozen targets; [CLS] and [SEP]
    count as linked words; file order. `sane` is `released` without its quirks: means over the whole
    batch, so that words in parts with few links do not weigh more, and rows in random order. Frozen
    targets stay, since they have the same optimum and cannot shrink both sides together; so do
    [CLS] and [SEP], which classifiers read.

    Reference: Cao et al. (2020, §3.3); for layers, plain norm and both directions Kulshreshtha et
    al. (2020, Eq. 7-10).

    Relations: `rotation` maps the same word pairs without a training run; `strong_contrastive` and
    `weak_contrastive` also push other words away; `weam` predicts linked words; without links there
    are `sentence_margin`, `ppa` and `tlm`.

    Example:
        methods:
          none: {}
          finetune: {profile: released, lambda: [0.1, 1, 10], epochs: 1}
    """

    VERSION = 1
    name = "finetune"
    reads = "links"
    reference = "Cao et al. 2020; Kulshreshtha et al. 2020"
    papers = ("cao2020", "norm=plain kulshreshtha2020")
    profiles = _PROFILES

    class Params(TrainedMethod.Params):
        """Training is by AdamW with β1 = 0.9, β2 = 0.98 and ε = 1e-9."""

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float = Field(1.0, alias="lambda", ge=0, allow_inf_nan=False)
        """Weight of the regulariser, λ in the formula."""
        learning_rate: LearningRate[float] = 5e-5
        batch_size: int | None = Field(None, ge=1)
        """Sentence pairs of each language per training step."""
        epochs: Epochs = 1
        warmup: Warmup[float] = 0.1
        schedule: Annotated[RateSchedule, LATER] = "constant"
        optimizer: ClassVar = {"betas": (0.9, 0.98), "eps": 1e-9}
        layers: Layers = "last"
        """Layers over which the loss is summed: `last`, one number or a range such as `9-12` (0:
        the embeddings).
        """
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)
        direction: Literal["to-pivot", "to-other"] = Field(
            "to-pivot", description=wording.DIRECTION
        )
        norm: Norm = "squared"
        """The distance d in the formula: the Euclidean distance (`plain`) or its square
        (`squared`).
        """
        removed: ClassVar = {
            "betas": Removed(NO_OPTION, default="0.9 0.98"),
            "eps": Removed(NO_OPTION, default=1e-9),
            "align_target": Removed("leave it out: `profile` decides", None),
            "special_pairs": Removed("leave it out: `profile` decides", None),
            "part": Removed("leave it out: `profile` decides", None),
            "shuffle": Removed("leave it out: `profile` decides", None),
        }
        reduction: Reduction | None = None
        """Whether distances are summed over words (`sum`), or averaged over words and, where they
        are squared, over coordinates (`mean`).
        """
        max_length: int = Field(128, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

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
        """As the profile says."""
        return bool(self.resolved()["shuffle"])

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the word pairs of all languages."""
        from raxalign.methods.families.rows import Bitexts

        return Bitexts.read_linked(encoder, folders, inputs.pivot, self.params.max_length)

    def n_rows(self, rows: Bitexts) -> int:
        """Return the size of the largest corpus."""
        return int(np.bincount(rows.langs_P).max())

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentences and word pairs of each language."""
        pairs = np.bincount(rows.langs_P[rows.links.rows()], minlength=len(rows.counts))
        return {
            lang: {"sentences": counted["sentences"], "pairs": n}
            for (lang, counted), n in zip(rows.counts.items(), pairs.tolist(), strict=True)
        }

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> Alignment:  # noqa: ARG002
        """Return the distances of linked words, and of words from those of a frozen twin."""
        model = frozen_copy(encoder.model, rounded=encoder.precision == "bf16")
        return Alignment(encoder, encoder.with_model(model), rows, self.resolved())


def alignment_loss(
    moving_PLH: torch.Tensor,
    target_PLH: torch.Tensor,
    kept_WLH: torch.Tensor,
    origin_WLH: torch.Tensor,
    *,
    reg_weight: float,
    norm: Norm,
    pair_weights_P: torch.Tensor,
    word_weights_W: torch.Tensor,
) -> torch.Tensor:
    """sum_p w_p d(moving_p, target_p) + reg_weight * sum_w v_w d(kept_w, origin_w), where d is
    summed over layers (Cao et al. 2020, §3.3; their weights are 1).

    d is the squared Euclidean distance, or the distance itself (`norm: plain`; Kulshreshtha et al.
    2020, Eq. 7-8).
    """
    align = _distance(moving_PLH, target_PLH, norm) @ pair_weights_P
    return align + reg_weight * (_distance(kept_WLH, origin_WLH, norm) @ word_weights_W)


def _distance(left_NLH: torch.Tensor, right_NLH: torch.Tensor, norm: Norm) -> torch.Tensor:
    """(N,), summed over layers. The plain distance of equal vectors has gradient 0, and so have
    vectors that differ by rounding alone.
    """
    from raxalign.methods.families.rows import real_gap

    gap_NLH = real_gap(left_NLH, right_NLH)
    if norm == "squared":
        return gap_NLH.pow(2).sum(dim=-1).sum(dim=-1)
    lengths_NL: torch.Tensor = torch.linalg.vector_norm(gap_NLH, dim=-1)
    return lengths_NL.sum(dim=-1)


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


_Words = tuple["np.ndarray", "np.ndarray", "np.ndarray"]
"""Words to read: the place of the first piece of each, its number of pieces, and its weight."""


@dataclass(frozen=True)
class _Read:
    """What the device reads of a micro-batch: the sentences of the encoder, those of the frozen
    one (None: it is not read), the weights of pairs and words, and the words: of pairs those that
    move and their targets; those that are held, and their origins.
    """

    live: Packed
    frozen: Packed | None
    pair_weights: np.ndarray
    word_weights: np.ndarray
    pairs: Spans
    targets: Spans
    words: Spans
    origins: Spans


_Weights = list[tuple["np.ndarray", "np.ndarray"]]
"""For each corpus the weights of the pairs and of the words of each row of a global batch."""


class Alignment(HostSided[_Weights, _Read]):
    """Brings linked words together and holds one side where it was, summed over corpora of equal
    batches, one per language; shorter corpora begin anew. `options` are the resolved params.

    Row r of the training is row ``r % len(corpus)`` of each corpus. One forward reads both sides of
    all corpora; the frozen twin reads the side that is held, without gradients.
    """

    replays = True

    def __init__(
        self,
        encoder: TransformerEncoder,
        frozen: TransformerEncoder,
        bitexts: Bitexts,
        options: Mapping[str, Any],
    ) -> None:
        for part in (encoder, frozen):
            part.can_pack()  # found out here, and not by the thread that prepares steps
        self.module = encoder.model
        self.encoder, self.frozen, self.options = encoder, frozen, options
        self.layers = parse_layers(options["layers"], encoder.n_layers)
        self.weight, self.target = options["lambda"], options["align_target"]
        self.loss_unit = max(1.0, self.weight)
        self.to_pivot = options["direction"] == "to-pivot"
        self._read(bitexts)

    def on(self, bitexts: Bitexts) -> Self:
        """Return the same objective over other pairs of these languages, with the same module."""
        other = super().on(bitexts)
        other._read(bitexts)
        return other

    def _read(self, bitexts: Bitexts) -> None:
        """Count the links and the words that are held in each row."""
        self.rows, sentences = bitexts, bitexts.sentences
        self.corpora = [np.flatnonzero(bitexts.langs_P == k) for k in range(len(bitexts.counts))]
        sides = (bitexts.src_P, bitexts.tgt_P)
        self.moving_P, self.held_P = sides if self.to_pivot else sides[::-1]
        before = offsets_of(sentences.count_W[:] > 0)[sentences.word_offsets]
        self.n_items = (np.diff(bitexts.links.offsets), np.diff(before)[self.held_P])

    def encoders(self) -> tuple[TransformerEncoder, ...]:
        """Return the encoder and its frozen twin."""
        return self.encoder, self.frozen

    def host_batch(self, step: Step) -> _Weights:
        """Return the weights of every row's pairs and words, from the counts of the batch."""
        options, hidden = self.options, self.encoder.hidden_size
        how = options["part"], options["reduction"], options["norm"], hidden
        specials = 2 if options["special_pairs"] else 0
        weights: _Weights = []
        for corpus in self.corpora:
            rows = corpus[step.rows % len(corpus)]
            pair, word = (item_weights(counts[rows] + specials, *how) for counts in self.n_items)
            weights.append((pair, word))
        return weights

    def host_part(self, step: Step, batch: _Weights, positions: np.ndarray) -> _Read:
        """Return what is read of some rows of the global batch."""
        chosen = [corpus[step.rows[positions] % len(corpus)] for corpus in self.corpora]
        rows, sentences = np.concatenate(chosen), self.rows.sentences
        moving, held = self.moving_P[rows], self.held_P[rows]
        is_read = {  # by the encoder, and by the frozen one
            name: self.weight > 0 or self.target == name for name in ("live", "frozen")
        }
        both = np.concatenate([moving, held]) if is_read["live"] else moving
        live = self.encoder.lay_out([sentences.single_rows(both)])
        frozen = self.frozen.lay_out([sentences.single_rows(held)]) if is_read["frozen"] else None
        starts = {"moving": live.starts_S[: len(rows)], "live": live.starts_S[len(rows) :]}
        if frozen is not None:
            starts["frozen"] = frozen.starts_S
        items = []
        for c, (pair, word) in enumerate(batch):
            own = slice(c * len(positions), (c + 1) * len(positions))
            begins = {name: part[own] for name, part in starts.items()}
            items.append(self._items(chosen[c], begins, pair[positions], word[positions]))
        words = [_joined(parts) for parts in zip(*items, strict=True)]
        spans = [Spans.of(first, count, self.options["pooling"]) for first, count, _ in words]
        pair_weights, word_weights = words[0][2], words[2][2]
        if self.encoder.even:  # words that are added have the weight 0
            spans = [part.evened() for part in spans]
            pair_weights = np.pad(pair_weights, (0, spans[0].n - len(pair_weights)))
            word_weights = np.pad(word_weights, (0, spans[2].n - len(word_weights)))
        return _Read(live, frozen, pair_weights, word_weights, *spans)

    def device_loss(self, step: Step, part: _Read) -> torch.Tensor:  # noqa: ARG002
        """Return the contribution of what was read, a scalar."""
        live = self.encoder.states(part.live, self.layers)
        frozen: list[torch.Tensor] = []
        if part.frozen is not None:
            with torch.no_grad():
                frozen = self.frozen.states(part.frozen, self.layers)
        moving_PLH = part.pairs.pool(live)
        return alignment_loss(
            moving_PLH,
            part.targets.pool(live if self.target == "live" else frozen),
            part.words.pool(live),
            part.origins.pool(frozen or live),
            reg_weight=self.weight,
            norm=self.options["norm"],
            pair_weights_P=on_device(part.pair_weights, moving_PLH.device, moving_PLH.dtype),
            word_weights_W=on_device(part.word_weights, moving_PLH.device, moving_PLH.dtype),
        )

    def _items(
        self,
        rows: np.ndarray,
        starts: Mapping[str, np.ndarray],
        pair_weight: np.ndarray,
        word_weight: np.ndarray,
    ) -> list[_Words]:
        """Return the words of some rows of a corpus, whose sentences begin at `starts`: of pairs
        those that move and their targets; those that are held, and their origins.
        """
        moving, held = self.moving_P[rows], self.held_P[rows]
        owners, *ends = self.rows.linked(rows)
        mine, theirs = ends if self.to_pivot else ends[::-1]
        pairs = [
            self._words(moving, starts["moving"], mine, owners, pair_weight),
            self._words(held, starts[self.target], theirs, owners, pair_weight),
        ]
        if not self.weight:
            none = np.zeros(0, np.int64)
            return [*pairs, *[(none, none, np.zeros(0))] * 2]
        words, owners = self.rows.sentences.read_words(held)
        kept = (
            self._words(held, starts[n], words, owners, word_weight) for n in ("live", "frozen")
        )
        return [*pairs, *kept]

    def _words(
        self,
        numbers: np.ndarray,
        starts: np.ndarray,
        words: np.ndarray,
        owners: np.ndarray,
        weight: np.ndarray,
    ) -> _Words:
        """Words of the sentences `numbers`, the place there of the sentence of each, and, where
        wanted, the first and last piece of each sentence.
        """
        first, count = self.rows.sentences.spans(words)
        items = (starts[owners] + first, count, weight[owners])
        if not self.options["special_pairs"]:
            return items
        ends = starts + self.rows.sentences.row_lengths(numbers) - 1
        ones = np.ones(len(numbers), np.int64)
        return _joined([items, (starts, ones, weight), (ends, ones, weight)])


def _joined(parts: Sequence[_Words]) -> _Words:
    """All words of several parts."""
    first, count, weight = map(np.concatenate, zip(*parts, strict=True))
    return first, count, weight
