"""Sentences are contrasted by momentum, and words predicted in both (Pan et al. 2021)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from raxalign.arrays import offsets_of
from raxalign.encoders.models.masking import Masked, MaskRule, PredictedPieces, masked_lm_loss
from raxalign.encoders.models.rows import Packed, Rows, Sentences
from raxalign.encoders.models.trained_weights import frozen_copy
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, pa, torch
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.families.trained import MaskedLMMethod, TrainedMethod
from raxalign.options.params import Removed
from raxalign.train.chance import Stream, mix
from raxalign.train.devices import on_device
from raxalign.train.group import add_up
from raxalign.train.loop import Fitted
from raxalign.train.objective import HostSided, Step

_OF_MOCO = ("queue_size", "queue_start", "momentum", "temperature", "normalize_z", "projection")
_OF_TLM = ("mask_share", "mlm_for_tlm")


@final
class Ppa(TrainedMethod[Bitexts]):
    """Train the encoder so that [CLS] of a sentence is nearer to that of its translation than to
    those of other sentences (MoCo), and so that masked words of a sentence and its translation,
    read together, are predicted (TLM).

    Formula: L_MoCo + L_TLM. L_MoCo = mean over pairs of -log(e^(q·k/τ) / (e^(q·k/τ) + Σ_queue
    e^(q·k'/τ))), with q = g(f(x)) and k = g'(f'(y)), where g = W2 ReLU(W1 h) of the unit [CLS]
    vector h of the last layer, and f', g' are moving averages of f, g, of which a step keeps 0.999.
    Which sentence is x is random. L_TLM = mean over masked tokens of -log p(token | [CLS] x [SEP] y
    [SEP]).

    Data: sentence pairs of all languages together, in random order; pairs of another length than
    `min_pieces` and `max_pieces` allow are left out. The queue holds the keys of the last
    `queue_size` pairs; those of a row's own pivot sentence are not negatives for it.

    `profile` fills in what is not given. `paper` is as printed: a queue of random unit vectors at
    the start, z as it leaves the projection, and sentences of 10 subword tokens at least, 128 both
    together. `sane` normalises z, as momentum contrast does elsewhere (else the logits hardly
    differ at first); holds L_MoCo back until the queue is full of real keys; and reads short and
    long sentences too. Dropout is on in both encoders. Rows of TLM are those of the method `tlm`,
    which is this one without MoCo. Only f is kept; g, f' and g' are dropped after training.

    Reference: Pan et al. (2021, §3); MoCo: He et al. (2020, Eq. 1-2); the queue's start: Chi et al.
    (2021).

    Relations: `sentence_margin` contrasts the sentences of a batch alone, without a queue and a
    second encoder, and predicts nothing; `tlm` is the other half.

    Example:
        methods:
          none: {}
          ppa: {profile: paper, epochs: 10}
          ppa_without_moco: {kind: ppa, profile: paper, moco: false, epochs: 10}
    """

    VERSION = 1
    name = "ppa"
    reads = "bitext"
    reference = "Pan et al. 2021; He et al. 2020"
    papers = ("pan2021", "he2020")
    profiles: ClassVar = {
        "paper": {
            "queue_start": "random",
            "normalize_z": False,
            "min_pieces": 10,
            "max_pieces": 128,
        },
        "sane": {"queue_start": "full", "normalize_z": True, "min_pieces": 1, "max_pieces": 0},
    }

    class Params(MaskedLMMethod.Params):
        """Training is by AdamW."""

        profile: Literal["paper", "sane"] = Field("sane", description=wording.PROFILE)
        moco: bool = True
        """Whether L_MoCo, the contrast of sentences, is part of the loss."""
        tlm: bool = True
        """Whether L_TLM, the prediction of masked tokens, is part of the loss."""
        mlm_for_tlm: bool = False
        """Whether each sentence is read on its own for L_TLM, rather than together with its
        translation.
        """
        queue_size: int = Field(32_000, ge=1)
        """Number of earlier sentences, as keys in the queue, that a sentence is contrasted with."""
        temperature: float = Field(0.05, gt=0)
        """Temperature of the contrast, τ in the formula."""
        projection: int = Field(300, ge=1)
        """Number of coordinates of q and k."""
        min_pieces: int | None = Field(None, ge=1, description=wording.MIN_PIECES_OF_PAIR)
        max_pieces: int | None = Field(None, ge=0, description=wording.MAX_PIECES_OF_PAIR)
        batch_size: int = Field(128, ge=1, description=wording.BATCH_OF_PAIRS)
        removed: ClassVar = {
            "queue_start": Removed("leave it out: `profile` decides", None),
            "normalize_z": Removed("leave it out: `profile` decides", None),
            "momentum": Removed("leave it out: a step keeps 0.999 of the copies", 0.999),
        }

        @model_validator(mode="after")
        def _trains_something(self) -> Ppa.Params:
            if not (self.moco or self.tlm):
                raise ValueError(
                    "moco: false and tlm: false leave nothing to train; use the method `none`"
                )
            return self

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return replace(super().needs(), head=self.params.tlm)

    def idle(self) -> set[str]:
        """Those of a part that is left out."""
        idle = {*(() if self.params.moco else _OF_MOCO), *(() if self.params.tlm else _OF_TLM)}
        return super().idle() | idle

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the sentence pairs of all languages, without those of another length."""
        return self.read_pairs(encoder, folders, inputs.pivot)

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> PostPretraining:
        """Return L_MoCo + L_TLM. Raises `RaxalignError` where the queue would never be full."""
        filled = self._filled_at(len(rows))
        objective = PostPretraining(encoder, rows, self.resolved(), seed)
        objective.comparable_from = filled
        return objective

    def notes(self, rows: Bitexts, objective: PostPretraining, fitted: Fitted) -> dict[str, object]:
        """Return what was counted, the losses, and the steps that the contrast was held back."""
        random = self.resolved()["queue_start"] == "random"
        held = 0 if random else objective.comparable_from
        notes = super().notes(rows, objective, fitted)
        return {**notes, "held_back": held, "first_loss": fitted.losses[held]}

    def _filled_at(self, n_rows: int) -> int:
        """The first step whose contrast is with a whole queue of keys, beyond the last step where
        there is none; 0 without a contrast. Raises `RaxalignError` where the contrast is held back
        for a queue that is never full.
        """
        params, settings = self.params, self.settings()
        if not params.moco:
            return 0
        first, last = full_at(n_rows, params.batch_size, settings.total(n_rows), params.queue_size)
        if self.resolved()["queue_start"] == "full" and params.queue_size > last:
            span = (
                f"{params.steps} steps of {params.batch_size}"
                if params.steps
                else f"{params.epochs} epochs of {n_rows}"
            )
            raise RaxalignError(
                f"ppa: the queue is never full: {span} sentence pairs put {last} keys into it"
                f" before the last step, and queue_size is {params.queue_size}. Give a smaller"
                f" queue_size, more {'steps' if params.steps else 'epochs'}, or profile: paper"
            )
        return first


MOMENTUM = 0.999
"""Share of the slow copies that a step keeps."""
EMPTY = -1
"""The pivot sentence of a queue's place that no key has filled yet."""


def info_nce(
    query_BD: torch.Tensor,
    positive_BD: torch.Tensor,
    queue_KD: torch.Tensor,
    same_BK: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """Return (B,) losses -log(e^(q·k+/τ) / (e^(q·k+/τ) + Σ_k e^(q·k/τ))), the sum over the queue
    without the keys where `same_BK`.

    The denominator holds the positive, as in He et al. (2020, Eq. 1), where Pan et al. (2021) write
    a sum over the queue alone.
    """
    positive_B1 = (query_BD * positive_BD).sum(dim=-1, keepdim=True)
    negative_BK = (query_BD @ queue_KD.T).masked_fill(same_BK, -torch.inf)
    logits = torch.cat([positive_B1, negative_BK], dim=1) / temperature
    return torch.logsumexp(logits, dim=1) - logits[:, 0]


class Moco:
    """All that a momentum contrast changes, as one `module`: the encoder and its head, their slow
    copies (without gradients), and the queue.

    `queue_KD` are keys, `pivots_K` the numbers of the pivot sentences that they belong to, `count`
    how many keys were ever put in: the next one goes to place ``count % K``. `options` are the
    resolved params of `ppa`.
    """

    def __init__(self, model: Any, hidden: int, options: Mapping[str, Any], seed: int) -> None:
        self.options, out = options, options["projection"]
        self.size: int = options["queue_size"]
        self.module: Any = torch.nn.Module()
        self.module.query = self.query = model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first, last = torch.nn.Linear(hidden, hidden), torch.nn.Linear(hidden, out)
            queue_KD = torch.nn.functional.normalize(torch.randn(self.size, out), dim=-1)
        self.module.head = self.head = torch.nn.Sequential(first, torch.nn.ReLU(), last)
        self.module.key = self.key = frozen_copy(model.base_model)
        slow = copy.deepcopy(self.head).requires_grad_(requires_grad=False)
        self.module.key_head = self.key_head = slow
        self.module.register_buffer("queue_KD", queue_KD)
        self.module.register_buffer("pivots_K", torch.full((self.size,), EMPTY))
        self.module.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.module.to(next(model.parameters()).device)
        self.queue_KD = self.module.get_buffer("queue_KD")
        self.pivots_K = self.module.get_buffer("pivots_K")
        self.count = self.module.get_buffer("count")
        self._counted: int | None = None

    def embed(self, states_BH: torch.Tensor, *, slow: bool = False) -> torch.Tensor:
        """Return the vectors z (B, D) of last-layer first pieces: W2 ReLU(W1 h) of the unit vector
        h (Pan et al. 2021, §3), of unit length on demand.
        """
        head = self.key_head if slow else self.head
        z_BD: torch.Tensor = head(torch.nn.functional.normalize(states_BH, dim=-1))
        return torch.nn.functional.normalize(z_BD, dim=-1) if self.options["normalize_z"] else z_BD

    def losses(
        self, query_BD: torch.Tensor, positive_BD: torch.Tensor, pivots_B: torch.Tensor
    ) -> torch.Tensor:
        """Return (B,) losses against the queue; keys of a row's own pivot sentence do not count."""
        same_BK, temperature = pivots_B[:, None] == self.pivots_K, self.options["temperature"]
        return info_nce(query_BD, positive_BD, self.queue_KD, same_BK, temperature)

    def is_ready(self) -> bool:
        """Return whether the queue may be contrasted with."""
        return self.options["queue_start"] == "random" or self._put() >= self.size

    def _put(self) -> int:
        """`count`, which the device is asked for once, when what a checkpoint had is back."""
        if self._counted is None:
            self._counted = int(self.count)
        return self._counted

    def enqueue(self, keys_BD: torch.Tensor, pivots_B: torch.Tensor) -> None:
        """Put keys in for the oldest ones; of more than there are places the last ones stay."""
        size, before = self.size, self._put()
        start, after = before + max(len(keys_BD) - size, 0), before + len(keys_BD)
        places = torch.arange(start, after, device=keys_BD.device) % size
        with torch.no_grad():
            self.queue_KD[places] = keys_BD[-size:].to(self.queue_KD.dtype)
            self.pivots_K[places] = pivots_B[-size:]
            self.count += len(keys_BD)
        self._counted = after

    def follow(self) -> None:
        """The copies go a step towards encoder and head: they keep `MOMENTUM` of themselves. They
        share what is not trained.
        """
        slow = [*self.key.parameters(), *self.key_head.parameters()]
        fast = [*self.query.base_model.parameters(), *self.head.parameters()]
        pairs = [pair for pair in zip(slow, fast, strict=True) if pair[0] is not pair[1]]
        behind, ahead = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        with torch.no_grad():
            torch._foreach_lerp_(behind, ahead, 1.0 - MOMENTUM)


def sentence_numbers(sentences: Sentences, chosen: np.ndarray) -> np.ndarray:
    """Return a number for each of some sentences, int64: the same for sentences of the same
    pieces, in the order in which they first occur.
    """
    lengths = sentences.lengths_S[chosen]
    offsets = offsets_of(lengths)
    places = np.arange(offsets[-1]) + np.repeat(sentences.starts_S[chosen] - offsets[:-1], lengths)
    pieces = np.ascontiguousarray(sentences.ids[places])
    buffers = [None, pa.py_buffer(offsets * pieces.itemsize), pa.py_buffer(pieces)]
    rows = pa.Array.from_buffers(pa.large_binary(), len(chosen), buffers)
    return np.asarray(rows.dictionary_encode().indices, np.int64)


_Drawn = tuple[Rows | None, Rows | None, Masked | None]
"""What is drawn for a global batch: the sentences that are queries and those that are keys (None:
without a contrast), and the rows whose words are masked: one per pair, or all first sentences and
then all second ones (None: nothing is masked).
"""


@dataclass(frozen=True)
class _Layout(PredictedPieces):
    """Queries, if any, and masked rows as the encoder reads them, with where the queries begin in
    the states; a `total` of 0 says that nothing is masked.
    """

    queries_B: np.ndarray


@dataclass(frozen=True)
class _Read:
    """What the device reads of a micro-batch: its positions in the global batch and rows of the
    bitexts; the keys (None: without a contrast); queries and masked rows (None: there are none);
    the masked rows alone, for the steps that cannot contrast with the queue yet.
    """

    positions_B: np.ndarray
    rows_B: np.ndarray
    keys: Packed | None
    layout: _Layout | None
    alone: Masked | None


class PostPretraining(HostSided[_Drawn, _Read]):
    """L_MoCo + L_TLM, a mean over the pairs of the global batch and one over its masked pieces.

    Row r is sentence pair r of the bitexts. Which of its sentences comes first is drawn anew in
    each step: the first one is the query, the second one the key, and the same order is that of the
    pair whose words are masked. One forward reads queries and masked rows. Keys are made without
    gradient, and enter the queue after the step in the order of the global batch, whichever worker
    made them. `options` are the resolved params of `ppa`.
    """

    def __init__(
        self, encoder: TransformerEncoder, bitexts: Bitexts, options: Mapping[str, Any], seed: int
    ) -> None:
        encoder.can_pack()  # found out here, and not by the thread that prepares steps
        self.encoder, self.rows, self.joint = encoder, bitexts, not options["mlm_for_tlm"]
        new = mix(seed, Stream.NEW_WEIGHTS)
        self.moco = (
            Moco(encoder.model, encoder.hidden_size, options, new) if options["moco"] else None
        )
        self.module = self.moco.module if self.moco else encoder.model
        self.slow = encoder.with_model(self.moco.key) if self.moco else encoder
        self.slow.can_pack()
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P)
        self.pivots_P = on_device(numbers, encoder.device)
        self.rule = MaskRule.of(encoder, options["mask_share"]) if options["tlm"] else None
        self.keys_BD: torch.Tensor | None = None

    def on(self, bitexts: Bitexts) -> Self:
        """Return the same objective over other sentence pairs; it shares the module, and so the
        queue. All keys of the queue are negatives for them.
        """
        other = super().on(bitexts)
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P) + len(self.pivots_P)
        other.pivots_P = on_device(numbers, self.encoder.device)
        return other

    def host_batch(self, step: Step) -> _Drawn:
        """Return the order of sentences and the masks of the global batch."""
        bitexts: Bitexts = self.rows
        sentences = bitexts.sentences
        src, tgt = bitexts.src_P[step.rows], bitexts.tgt_P[step.rows]
        turned = step.generator(Stream.MIXING).random(len(step.rows)) < 0.5
        first, second = np.where(turned, tgt, src), np.where(turned, src, tgt)
        queries = keys = masked = None
        if self.moco:
            queries, keys = (sentences.single_rows(side) for side in (first, second))
        if self.rule:
            chance = step.generator(Stream.MASKING)
            if self.joint:
                rows = sentences.joint_rows(first, second)
                masked = Masked(rows, self.rule.choose(rows, chance))
            else:
                rows = sentences.single_rows(np.concatenate([first, second]))
                masked = Masked(rows, self.rule.choose(rows, chance, within="row"))
        return queries, keys, masked

    def host_part(self, step: Step, batch: _Drawn, positions: np.ndarray) -> _Read:
        """Return what is read of some rows of the global batch. Only when a step begins is it known
        whether it contrasts: masked rows alone are laid out then.
        """
        queries, keys, masked = batch
        read_keys = None
        if queries is not None and keys is not None:
            queries, keys = queries.take(positions), keys.take(positions)
            read_keys = self.slow.lay_out([keys])
        if masked is not None:
            second = [] if self.joint else [len(step.rows) + positions]
            chosen = np.concatenate([positions, *second])
            chosen = chosen[np.diff(masked.masks.offsets)[chosen] > 0]
            masked = Masked(masked.rows.take(chosen), masked.masks.take(chosen))
        waits = self.moco is not None and self.moco.options["queue_start"] == "full"
        layout = self.lay_out(queries, masked)
        return _Read(positions, step.rows[positions], read_keys, layout, masked if waits else None)

    def lay_out(self, queries: Rows | None, masked: Masked | None) -> _Layout | None:
        """Return queries and masked rows as the encoder reads them; None where there are none."""
        parts = [] if queries is None else [queries]
        n_queries = sum(map(len, parts))
        if masked is not None:
            parts.append(masked.masks.applied(masked.rows))
        if not sum(map(len, parts)):
            return None
        packed = self.encoder.lay_out(parts)
        queries_B, starts = np.split(packed.starts_S, [n_queries])
        if masked is None:
            none = np.zeros(0, np.int64)
            return _Layout(packed, none, none, 0, queries_B)
        masks = masked.masks
        return _Layout(packed, masks.flat(starts), masks.targets, max(masks.total, 1), queries_B)

    def begin(self, step: Step) -> None:
        """What was drawn for the global batch, and room for its keys."""
        super().begin(step)
        if self.moco:
            queue_KD = self.moco.queue_KD
            self.keys_BD = queue_KD.new_zeros(len(step.rows), queue_KD.shape[1])

    def device_loss(self, step: Step, part: _Read) -> torch.Tensor:
        """Return the contribution of some rows of the global batch."""
        contrasts = self.moco is not None and self.moco.is_ready()
        if part.keys is not None:
            self.make_keys(part.keys, part.positions_B)
        waits = self.moco is not None and not contrasts
        layout = self.lay_out(None, part.alone) if waits else part.layout
        total = torch.zeros((), device=self.encoder.device)
        if layout is None:
            return total
        (states_FH,) = self.encoder.states(layout.packed, (self.encoder.n_layers,))
        if contrasts:
            total = total + self.contrast(step, part, states_FH[self.tensor(layout.queries_B)])
        if layout.total:
            logits_MV = self.encoder.lm_logits(states_FH[self.tensor(layout.places_M)])
            targets_M = self.tensor(layout.targets_M)
            total = total + masked_lm_loss(logits_MV, targets_M, layout.total)
        return total

    def make_keys(self, packed: Packed, positions_B: np.ndarray) -> None:
        """The keys of some rows of the global batch, by the slow encoder, without gradient."""
        assert self.moco is not None
        assert self.keys_BD is not None, "begin comes first"
        with torch.no_grad():
            (states_FH,) = self.slow.states(packed, (self.slow.n_layers,))
            self.keys_BD[self.tensor(positions_B)] = self.moco.embed(
                states_FH[self.tensor(packed.starts_S)], slow=True
            ).to(self.keys_BD)

    def contrast(self, step: Step, part: _Read, states_BH: torch.Tensor) -> torch.Tensor:
        """L_MoCo's part."""
        assert self.moco is not None
        assert self.keys_BD is not None, "begin comes first"
        return self.moco.losses(
            self.moco.embed(states_BH),
            self.keys_BD[self.tensor(part.positions_B)],
            self.pivots_P[self.tensor(part.rows_B)],
        ).sum() / len(step.rows)

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """Return an index on the encoder's device."""
        return on_device(array, self.encoder.device)

    def end(self, step: Step) -> None:
        """The keys of all workers enter the queue, and the slow encoder follows."""
        if self.moco is None or self.keys_BD is None:
            return
        keys_BD = self.keys_BD
        if step.world_size > 1:
            add_up(keys_BD)
        self.moco.enqueue(keys_BD, self.pivots_P[self.tensor(step.rows)])
        self.moco.follow()


def full_at(n_rows: int, batch_size: int, steps: int, queue_size: int) -> tuple[int, int]:
    """Return the steps before the one that finds the queue full, and the keys that were ever put
    into it when the last of `steps` begins.

    >>> full_at(10, 4, 6, 10), full_at(10, 4, 6, 11), full_at(10, 4, 6, 18), full_at(10, 4, 4, 10)
    ((3, 18), (4, 18), (5, 18), (3, 10))
    """
    per_epoch = -(-n_rows // batch_size)
    epochs, batches = divmod(steps - 1, per_epoch)
    before = epochs * n_rows + batches * batch_size
    whole, rest = divmod(queue_size, n_rows)
    return whole * per_epoch + -(-rest // batch_size), before
