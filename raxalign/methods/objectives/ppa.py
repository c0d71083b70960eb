"""The objective of `ppa` (Pan et al. 2021, §3): momentum contrast on [CLS], and masked words of
both sentences predicted together.

Formula: L = L_MoCo + L_TLM. L_MoCo = mean over sentence pairs of -log(e^(q·k/τ) / (e^(q·k/τ) +
Σ_queue e^(q·k'/τ))); L_TLM = mean over masked pieces m of -log p(x_m | both sentences with masks).

Numbers of sentences by their pieces, so that equal sentences are known.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import torch
from torch import nn

from raxalign.arrays import offsets_of
from raxalign.encoders.models.packing import Packed, can_pack
from raxalign.encoders.training.masking import (
    MaskRule,
    Masks,
    chance_of,
    choose_masks,
    masked_lm_loss,
)
from raxalign.methods.objectives.moco import Moco, MocoOptions
from raxalign.methods.rows.sentences import Rows, Sentences, joint_rows, single_rows
from raxalign.methods.rows.states import last_states, lay_out_rows
from raxalign.methods.rows.tokenised import Bitexts
from raxalign.train.chance import MASKING, MIXING, NEW_WEIGHTS, mix
from raxalign.train.devices import on_device
from raxalign.train.group import add_up
from raxalign.train.objective import HostSided, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder


_CHUNK = 65_536  # sentences that are compared at once
_SALTS = (0, 0x5851F42D4C957F2D)


def sentence_numbers(sentences: Sentences, chosen: np.ndarray) -> np.ndarray:
    """Return a number for each of some sentences, int64: the same for sentences of the same
    pieces, in the order in which they first occur.

    Sentences are compared by their lengths and two hashes of 64 bits each.
    """
    marks_N3 = np.concatenate(
        [
            np.zeros((0, 3), np.uint64),
            *(
                _marks(sentences, chosen[start : start + _CHUNK])
                for start in range(0, len(chosen), _CHUNK)
            ),
        ]
    )
    order = np.lexsort(marks_N3.T)
    differs = (np.diff(marks_N3[order], axis=0) != 0).any(axis=1)
    group = np.concatenate([np.zeros(min(1, len(order)), np.int64), np.cumsum(differs)])
    first = np.full(int(group.max(initial=-1)) + 1, len(order))
    np.minimum.at(first, group, order)
    ranks, numbers = np.empty_like(first), np.empty(len(order), np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    numbers[order] = ranks[group]
    return numbers


def _marks(sentences: Sentences, chosen: np.ndarray) -> np.ndarray:
    """The length and two hashes of the pieces of each sentence, uint64 (N, 3): sums over pieces of
    a number that depends on the piece and on its place.
    """
    lengths = sentences.lengths_S[chosen]
    offsets = offsets_of(lengths)
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    pieces = sentences.ids[places + np.repeat(sentences.starts_S[chosen], lengths)]
    codes = (places.astype(np.uint64) << np.uint64(32)) + pieces.astype(np.uint64)
    sums = [
        np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(codes + np.uint64(salt)))])
        for salt in _SALTS
    ]
    return np.stack(
        [lengths.astype(np.uint64), *(part[offsets[1:]] - part[offsets[:-1]] for part in sums)],
        axis=1,
    )


def _mixed(codes: np.ndarray) -> np.ndarray:
    """Numbers whose bits all depend on all bits of the codes (the finaliser of SplitMix64)."""
    mixed = codes * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


@dataclass(frozen=True)
class PostPretrainingOptions:
    """The parts of the loss: `moco` None leaves the contrast out, `mask_share` None the masked
    words; with `joint` these see both sentences, else only their own.
    """

    moco: MocoOptions | None
    mask_share: float | None
    joint: bool = True


@dataclass(frozen=True)
class Contrasted:
    """The sentence pairs of a global batch that are compared: the rows of the queries, and those
    of the keys.
    """

    query: Rows
    key: Rows


@dataclass(frozen=True)
class Predicted:
    """The rows of a global batch whose words are masked: one per pair, or all first sentences and
    then all second ones.
    """

    rows: Rows
    masks: Masks


@dataclass(frozen=True)
class DrawnBatch:
    """What is drawn for a global batch; None for a part of the loss that is left out."""

    contrasted: Contrasted | None
    predicted: Predicted | None


@dataclass(frozen=True)
class _Masked:
    """Masked rows: the places of their masks in the states, and the pieces that stood there."""

    places_M: np.ndarray
    targets_M: np.ndarray
    total: int


@dataclass(frozen=True)
class _Layout:
    """Queries, if any, and masked rows as the encoder reads them: where the queries begin in the
    states, and the masks (None: nothing is masked).
    """

    packed: Packed
    queries_B: np.ndarray
    masked: _Masked | None


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
    alone: Predicted | None


class PostPretraining(HostSided[DrawnBatch, _Read]):
    """L_MoCo + L_TLM, a mean over the pairs of the global batch and one over its masked pieces.

    Row r is sentence pair r of the bitexts. Which of its sentences comes first is drawn anew in
    each step: the first one is the query, the second one the key, and the same order is that of the
    pair whose words are masked. One forward reads queries and masked rows. Keys are made without
    gradient, and enter the queue after the step in the order of the global batch, whichever worker
    made them.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        bitexts: Bitexts,
        options: PostPretrainingOptions,
        seed: int,
    ) -> None:
        can_pack(encoder)  # found out here, and not by the thread that prepares steps
        self.encoder, self.bitexts, self.options = encoder, bitexts, options
        self.moco = (
            Moco(encoder.model, encoder.hidden_size, options.moco, mix(seed, NEW_WEIGHTS))
            if options.moco
            else None
        )
        self.module = self.moco or encoder.model
        self.slow = encoder.with_model(self.moco.key) if self.moco else encoder
        can_pack(self.slow)
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P)
        self.pivots_P = on_device(numbers, encoder.device)
        self.rule = (
            MaskRule.of(encoder, options.mask_share) if options.mask_share is not None else None
        )
        self.keys_BD: torch.Tensor | None = None

    def on(self, bitexts: Bitexts) -> Self:
        """Return the same objective over other sentence pairs; it shares the module, and so the
        queue. All keys of the queue are negatives for them.
        """
        other = copy.copy(self)
        other.bitexts = bitexts
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P) + len(self.pivots_P)
        other.pivots_P = on_device(numbers, self.encoder.device)
        return other

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks."""
        return self.encoder.blocks()

    def host_batch(self, step: Step) -> DrawnBatch:
        """Return the order of sentences and the masks of the global batch."""
        sentences, src, tgt = (
            self.bitexts.sentences,
            self.bitexts.src_P[step.rows],
            self.bitexts.tgt_P[step.rows],
        )
        turned = chance_of(step, MIXING).random(len(step.rows)) < 0.5
        first, second = np.where(turned, tgt, src), np.where(turned, src, tgt)
        contrasted = predicted = None
        if self.moco:
            contrasted = Contrasted(single_rows(sentences, first), single_rows(sentences, second))
        if self.rule:
            joint = self.options.joint
            rows = (
                joint_rows(sentences, first, second)
                if joint
                else single_rows(sentences, np.concatenate([first, second]))
            )
            within: Literal["batch", "row"] = "batch" if joint else "row"
            masks = choose_masks(rows, self.rule, chance_of(step, MASKING), within=within)
            predicted = Predicted(rows, masks)
        return DrawnBatch(contrasted, predicted)

    def host_part(self, step: Step, batch: DrawnBatch, positions: np.ndarray) -> _Read:
        """Return what is read of some rows of the global batch. Only when a step begins is it known
        whether it contrasts: masked rows alone are laid out then.
        """
        queries, masked, keys = None, None, None
        if batch.contrasted:
            key = batch.contrasted.key.take(positions)
            keys = lay_out_rows(self.slow, [(key, key.ids)])
            queries = batch.contrasted.query.take(positions)
        if batch.predicted:
            chosen = (
                positions
                if self.options.joint
                else np.concatenate([positions, len(step.rows) + positions])
            )
            chosen = chosen[np.diff(batch.predicted.masks.offsets)[chosen] > 0]
            masked = Predicted(
                batch.predicted.rows.take(chosen), batch.predicted.masks.take(chosen)
            )
        return _Read(
            positions,
            step.rows[positions],
            keys,
            self.lay_out(queries, masked),
            masked if self.moco and self.moco.options.queue_start == "full" else None,
        )

    def lay_out(self, queries: Rows | None, masked: Predicted | None) -> _Layout | None:
        """Return queries and masked rows as the encoder reads them; None where there are none."""
        parts = [] if queries is None else [(queries, queries.ids)]
        n_queries = 0 if queries is None else len(queries)
        if masked is not None:
            parts.append((masked.rows, masked.masks.applied(masked.rows)))
        if not sum(len(rows) for rows, _ in parts):
            return None
        packed = lay_out_rows(self.encoder, parts)
        found = None
        if masked is not None:
            places_M = masked.masks.flat(packed.starts_S[n_queries:])
            found = _Masked(places_M, masked.masks.targets, masked.masks.total)
        return _Layout(packed, packed.starts_S[:n_queries], found)

    def begin(self, step: Step) -> None:
        """What was drawn for the global batch, and room for its keys: zero where another worker
        makes them.
        """
        super().begin(step)
        if self.moco:
            self.keys_BD = self.moco.queue_KD.new_zeros(len(step.rows), self.moco.options.out)

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
        states_FH = last_states(self.encoder, layout.packed)
        if contrasts:
            total = total + self.contrast(step, part, states_FH[self.tensor(layout.queries_B)])
        if layout.masked is not None:
            total = total + self.predict(states_FH, layout.masked)
        return total

    @torch.no_grad()
    def make_keys(self, packed: Packed, positions_B: np.ndarray) -> None:
        """The keys of some rows of the global batch, by the slow encoder."""
        assert self.moco is not None
        assert self.keys_BD is not None, "begin comes first"
        states_FH = last_states(self.slow, packed)
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

    def predict(self, states_FH: torch.Tensor, masked: _Masked) -> torch.Tensor:
        """L_TLM's part."""
        logits_MV = self.encoder.lm_logits(states_FH[self.tensor(masked.places_M)])
        return masked_lm_loss(logits_MV, self.tensor(masked.targets_M), max(masked.total, 1))

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
