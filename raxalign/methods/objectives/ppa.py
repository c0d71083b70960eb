"""The objective of `ppa` (Pan et al. 2021, §3): momentum contrast on [CLS], and masked words of
both sentences predicted together.

Formula: L = L_MoCo + L_TLM. L_MoCo = mean over sentence pairs of -log(e^(q·k/τ) / (e^(q·k/τ) +
Σ_queue e^(q·k'/τ))); L_TLM = mean over masked pieces m of -log p(x_m | both sentences with masks).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from raxalign.arrays import offsets_of
from raxalign.encoders.training.masked_words import masked_lm_loss
from raxalign.encoders.training.masking import MaskRule, Masks, chance_of, choose_masks
from raxalign.methods.objectives.moco import Moco, MocoOptions
from raxalign.methods.rows.sentences import Rows, Sentences, joint_rows, single_rows
from raxalign.methods.rows.states import read_rows
from raxalign.methods.rows.tokenised import Bitexts
from raxalign.train.chance import MASKING, MIXING, NEW_WEIGHTS, mix
from raxalign.train.devices import on_device
from raxalign.train.group import add_up
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

_CHUNK = 65_536  # sentences that are compared at once
_SALTS = (0, 0x5851F42D4C957F2D)


@dataclass(frozen=True)
class PostPretrainingOptions:
    """The parts of the loss: `moco` None leaves the contrast out, `mask_share` None the masked
    words; with `joint` these see both sentences, else only their own.
    """

    moco: MocoOptions | None
    mask_share: float | None
    joint: bool = True


@dataclass(frozen=True)
class _Contrasted:
    """The sentence pairs of a global batch that are compared: their rows, the keys (zero where
    another worker makes them), and whether the queue may be contrasted with.
    """

    query: Rows
    key: Rows
    keys_BD: torch.Tensor
    ready: bool


@dataclass(frozen=True)
class _Predicted:
    """The rows of a global batch whose words are masked: one per pair, or all first sentences and
    then all second ones.
    """

    rows: Rows
    masks: Masks


class PostPretraining(Objective):
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
        self.encoder, self.bitexts, self.options = encoder, bitexts, options
        self.moco = (
            Moco(encoder.model, encoder.hidden_size, options.moco, mix(seed, NEW_WEIGHTS))
            if options.moco
            else None
        )
        self.module = self.moco or encoder.model
        self.slow = encoder.with_model(self.moco.key) if self.moco else encoder
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P)
        self.pivots_P = on_device(numbers, encoder.device)
        self.rule = (
            MaskRule.of(encoder, options.mask_share) if options.mask_share is not None else None
        )
        self.contrasted: _Contrasted | None = None
        self.predicted: _Predicted | None = None

    def on(self, bitexts: Bitexts) -> Self:
        """Return the same objective over other sentence pairs; it shares the module, and so the
        queue. All keys of the queue are negatives for them.
        """
        other = copy.copy(self)
        other.bitexts = bitexts
        numbers = sentence_numbers(bitexts.sentences, bitexts.tgt_P) + len(self.pivots_P)
        other.pivots_P = on_device(numbers, self.encoder.device)
        return other

    def begin(self, step: Step) -> None:
        """The order of sentences and the masks of the global batch."""
        sentences, src, tgt = (
            self.bitexts.sentences,
            self.bitexts.src_P[step.rows],
            self.bitexts.tgt_P[step.rows],
        )
        turned = chance_of(step, MIXING).random(len(step.rows)) < 0.5
        first, second = np.where(turned, tgt, src), np.where(turned, src, tgt)
        if self.moco:
            keys_BD = self.moco.queue_KD.new_zeros(len(step.rows), self.moco.options.out)
            self.contrasted = _Contrasted(
                single_rows(sentences, first),
                single_rows(sentences, second),
                keys_BD,
                self.moco.is_ready(),
            )
        if self.rule:
            joint = self.options.joint
            rows = (
                joint_rows(sentences, first, second)
                if joint
                else single_rows(sentences, np.concatenate([first, second]))
            )
            self.predicted = _Predicted(
                rows,
                choose_masks(
                    rows, self.rule, chance_of(step, MASKING), within="batch" if joint else "row"
                ),
            )

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows of the global batch."""
        contrasted, predicted, parts = self.contrasted, self.predicted, []
        if contrasted:
            self.make_keys(contrasted, positions)
            if contrasted.ready:
                rows = contrasted.query.take(positions)
                parts.append((rows, rows.ids))
        n_queries = sum(len(rows) for rows, _ in parts)
        if predicted:
            chosen = (
                positions
                if self.options.joint
                else np.concatenate([positions, len(step.rows) + positions])
            )
            chosen = chosen[np.diff(predicted.masks.offsets)[chosen] > 0]
            rows, masks = predicted.rows.take(chosen), predicted.masks.take(chosen)
            parts.append((rows, masks.applied(rows)))
        total = torch.zeros((), device=self.encoder.device)
        if not sum(len(rows) for rows, _ in parts):
            return total
        states_FH, starts_S = read_rows(self.encoder, parts)
        if contrasted and contrasted.ready:
            total = total + self.contrast(
                contrasted, step, positions, states_FH[self.tensor(starts_S[:n_queries])]
            )
        if predicted:
            total = total + self.predict(states_FH, masks, starts_S[n_queries:])
        return total

    @torch.no_grad()
    def make_keys(self, batch: _Contrasted, positions: np.ndarray) -> None:
        """The keys of some rows of the global batch, by the slow encoder."""
        assert self.moco is not None
        rows = batch.key.take(positions)
        states_FH, starts_S = read_rows(self.slow, [(rows, rows.ids)])
        batch.keys_BD[self.tensor(positions)] = self.moco.embed(
            states_FH[self.tensor(starts_S)], slow=True
        ).to(batch.keys_BD)

    def contrast(
        self, batch: _Contrasted, step: Step, positions: np.ndarray, states_BH: torch.Tensor
    ) -> torch.Tensor:
        """L_MoCo's part."""
        assert self.moco is not None
        pivots_B = self.pivots_P[self.tensor(step.rows[positions])]
        return self.moco.losses(
            self.moco.embed(states_BH), batch.keys_BD[self.tensor(positions)], pivots_B
        ).sum() / len(step.rows)

    def predict(self, states_FH: torch.Tensor, masks: Masks, starts_S: np.ndarray) -> torch.Tensor:
        """L_TLM's part."""
        logits_MV = self.encoder.lm_logits(states_FH[self.tensor(masks.flat(starts_S))])
        return masked_lm_loss(logits_MV, self.tensor(masks.targets), max(masks.total, 1))

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """Return an index on the encoder's device."""
        return on_device(array, self.encoder.device)

    def end(self, step: Step) -> None:
        """The keys of all workers enter the queue, and the slow encoder follows."""
        if self.moco is None or self.contrasted is None:
            return
        keys_BD = self.contrasted.keys_BD
        if step.world_size > 1:
            add_up(keys_BD)
        self.moco.enqueue(keys_BD, self.pivots_P[self.tensor(step.rows)])
        self.moco.follow()


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
