"""The prediction of masked pieces (Devlin et al. 2019): which pieces of a global batch are masked
and by what, a function of seed and step alone, and the objective that predicts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.train.chance import Stream
from raxalign.train.devices import on_device
from raxalign.train.objective import HostSided, Step

MASKED, RANDOM = 0.8, 0.1
"""Shares of the chosen pieces that become the mask, and a random piece; the others stay."""
RowsT = TypeVar("RowsT")


@dataclass(frozen=True)
class MaskRule:
    """How pieces are masked: `share` of those that are not special; `mask` stands for them, or one
    of the `ordinary` pieces.

    ``allowed_V`` says which pieces of the vocabulary may be chosen: all but the special ones (so
    neither the unknown piece).
    """

    share: float
    mask: int
    ordinary: np.ndarray
    allowed_V: np.ndarray

    @classmethod
    def of(cls, encoder: TransformerEncoder, share: float) -> MaskRule:
        """The rule for an encoder's vocabulary. Raises `RaxalignError` where it has no mask."""
        tokenizer = encoder.tokenizer
        if tokenizer.mask_token_id is None:
            raise RaxalignError(
                "the encoder's tokenizer has no mask token, so nothing can be masked; use a masked"
                " language model"
            )
        allowed_V = np.ones(max(len(tokenizer), int(encoder.model.config.vocab_size)), bool)
        allowed_V[np.array(tokenizer.all_special_ids)] = False
        # Outputs beyond the vocabulary pad the layer to a round size; they are not pieces.
        ordinary = np.flatnonzero(allowed_V[: len(tokenizer)])
        return cls(share, int(tokenizer.mask_token_id), ordinary, allowed_V)

    def choose(
        self,
        rows: Rows,
        rng: np.random.Generator,
        *,
        within: Literal["batch", "row"] = "batch",
    ) -> Masks:
        """Mask a global batch: the share of all its pieces that may be masked (to the nearest
        number), one at least, wherever they stand; none where no piece may be.

        With `within` ``row`` each row has its own share (to one of the two nearest numbers, by
        chance, so that the share holds on average): sentences apart from each other are then masked
        equally.
        """
        n_rows = len(rows.offsets) - 1
        candidates = np.flatnonzero(self.allowed_V[rows.ids])
        row_C = np.repeat(np.arange(n_rows), np.diff(rows.offsets))[candidates]
        keys_C = rng.random(len(candidates))
        if within == "batch":
            quota = max(1, int(np.floor(self.share * len(candidates) + 0.5)))
            picked = candidates[np.sort(np.argsort(keys_C)[:quota])]
        else:
            counts_R = np.bincount(row_C, minlength=n_rows)
            quota_R = np.floor(self.share * counts_R + rng.random(n_rows)).astype(np.int64)
            if len(candidates) and not quota_R.any():
                quota_R[np.argmax(counts_R)] = 1
            order = np.lexsort((keys_C, row_C))
            rank = np.arange(len(order)) - np.repeat(np.cumsum(counts_R) - counts_R, counts_R)
            picked = np.sort(candidates[order[rank < np.repeat(quota_R, counts_R)]])
        return _corrupted(rows, picked, self, rng)


@dataclass(frozen=True)
class Masks:
    """The masked places of rows: those of row r are the entries ``offsets[r]`` to ``offsets[r +
    1]``, in the order of places.

    `places` are places in the row; `inputs` is what the encoder reads there, `targets` what stood
    there. `total` counts the masked places of the global batch, also in a part of it: it is the
    normaliser of the mean.
    """

    places: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray
    offsets: np.ndarray
    total: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray) -> Masks:
        """Those of some rows of the batch, in the order given."""
        index, _ = ranges(self.offsets, rows)
        offsets = offsets_of(np.diff(self.offsets)[rows])
        places, inputs, targets = self.places[index], self.inputs[index], self.targets[index]
        return Masks(places, inputs, targets, offsets, self.total)

    def flat(self, starts_R: np.ndarray) -> np.ndarray:
        """The masked places, where row r begins at `starts_R[r]` of a layout."""
        flat: np.ndarray = np.repeat(starts_R[: len(self)], np.diff(self.offsets)) + self.places
        return flat

    def applied(self, rows: Rows) -> Rows:
        """The same rows as the encoder reads them."""
        ids = rows.ids.copy()
        ids[self.flat(rows.offsets)] = self.inputs
        return replace(rows, ids=ids)


def _corrupted(rows: Rows, picked: np.ndarray, rule: MaskRule, rng: np.random.Generator) -> Masks:
    """Masks at these flat places: 80 % the mask, 10 % random pieces, 10 % as they are."""
    owners = np.searchsorted(rows.offsets, picked, side="right") - 1
    targets = rows.ids[picked].astype(np.int64)
    fate = rng.random(len(picked))
    strange = rule.ordinary[rng.integers(len(rule.ordinary), size=len(picked))]
    inputs = np.where(fate < MASKED, rule.mask, np.where(fate < MASKED + RANDOM, strange, targets))
    offsets = offsets_of(np.bincount(owners, minlength=len(rows.offsets) - 1))
    return Masks(picked - rows.offsets[owners], inputs, targets, offsets, len(picked))


def masked_lm_loss(logits_MV: torch.Tensor, targets_M: torch.Tensor, total: int) -> torch.Tensor:
    """The part of M places with logits (M, V) and pieces (M,) in the mean of -log p(x_m | the row
    with masks) over the `total` of the global batch (Devlin et al. 2019, §3.1), a scalar.
    """
    return torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum") / total


@dataclass(frozen=True)
class Masked:
    """The rows of a global batch, and their masked places."""

    rows: Rows
    masks: Masks


@dataclass(frozen=True)
class PredictedPieces:
    """Rows as the encoder reads them, and which places (M,) of its states are predicted."""

    packed: Packed
    places_M: np.ndarray
    targets_M: np.ndarray
    total: int


class MaskedLM(HostSided[Masked, PredictedPieces | None], Generic[RowsT]):
    """The mean cross-entropy over the masked places of the global batch, whose rows are those of
    `batch_of(rows, step)`, row r of it from ``step.rows[r]``.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        rows: RowsT,
        batch_of: Callable[[RowsT, Step], Rows],
        mask_share: float,
    ) -> None:
        encoder.can_pack()  # found out here, and not by the thread that prepares steps
        self.module = encoder.model
        self.encoder, self.rule = encoder, MaskRule.of(encoder, mask_share)
        self.rows, self.batch_of = rows, batch_of

    def lay_out(self, rows: Rows, masks: Masks) -> Packed:
        """Some rows as the encoder reads them, with their masks; the device has no part in it."""
        found: Packed = self.encoder.lay_out([masks.applied(rows)])
        return found

    def host_batch(self, step: Step) -> Masked:
        """The rows of the global batch and its masks."""
        rows = self.batch_of(self.rows, step)
        return Masked(rows, self.rule.choose(rows, step.generator(Stream.MASKING)))

    def host_part(self, _: Step, batch: Masked, positions: np.ndarray) -> PredictedPieces | None:
        """Some rows; rows without a masked place are not read. None where no row has one."""
        masked = positions[np.diff(batch.masks.offsets)[positions] > 0]
        if not len(masked):
            return None
        masks = batch.masks.take(masked)
        packed = self.lay_out(batch.rows.take(masked), masks)
        return PredictedPieces(packed, masks.flat(packed.starts_S), masks.targets, masks.total)

    def device_loss(self, _: Step, part: PredictedPieces | None) -> torch.Tensor:
        """The contribution of some rows, a scalar. Only the masked places reach the masked-LM head:
        with a large vocabulary it costs more than the blocks.
        """
        if part is None:
            return torch.zeros((), device=self.encoder.device)
        logits_MV = self.encoder.logits_at(part.packed, part.places_M)
        targets_M = on_device(part.targets_M, logits_MV.device)
        return masked_lm_loss(logits_MV, targets_M, part.total)
