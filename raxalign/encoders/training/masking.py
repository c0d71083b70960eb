"""Which pieces of a global batch are masked, and by what (Devlin et al. 2019): a function of seed
and step alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from raxalign.arrays import offsets_of, ranges
from raxalign.errors import RaxalignError
from raxalign.train.chance import USES, mix
from raxalign.train.objective import Step

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder

MASKED, RANDOM = 0.8, 0.1
"""Shares of the chosen pieces that become the mask, and a random piece; the others stay."""


class FlatRows(Protocol):
    """Rows of pieces, one after the other: the pieces of row r, special ones included, are
    ``ids[offsets[r]:offsets[r + 1]]``.
    """

    @property
    def ids(self) -> np.ndarray:
        """The pieces of all rows."""

    @property
    def offsets(self) -> np.ndarray:
        """Where each row begins, and where the last one ends."""


def chance_of(step: Step, use: int) -> np.random.Generator:
    """The random generator of the global batch for one `use` (`MASKING` or `MIXING` of
    `train.chance`): the same on every worker.
    """
    return np.random.Generator(np.random.PCG64(mix(step.seed, step.number, USES, use)))


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
        return cls(
            share,
            int(tokenizer.mask_token_id),
            np.flatnonzero(allowed_V[: len(tokenizer)]),
            allowed_V,
        )


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
        return Masks(
            self.places[index],
            self.inputs[index],
            self.targets[index],
            offsets_of(np.diff(self.offsets)[rows]),
            self.total,
        )

    def flat(self, starts_R: np.ndarray) -> np.ndarray:
        """The masked places, where row r begins at `starts_R[r]` (``rows.offsets``, or
        `Packed.starts_S`).
        """
        flat: np.ndarray = np.repeat(starts_R[: len(self)], np.diff(self.offsets)) + self.places
        return flat

    def applied(self, rows: FlatRows) -> np.ndarray:
        """The pieces of these rows (of the same batch, or the same part of it) as the encoder reads
        them, in the layout of ``rows.ids``.
        """
        ids = rows.ids.copy()
        ids[self.flat(rows.offsets)] = self.inputs
        return ids


def choose_masks(
    rows: FlatRows,
    rule: MaskRule,
    rng: np.random.Generator,
    *,
    within: Literal["batch", "row"] = "batch",
) -> Masks:
    """Mask a global batch: the share of all its pieces that may be masked (to the nearest number),
    one at least, wherever they stand.

    With `within` ``row`` each row has its own share (to one of the two nearest numbers, by chance,
    so that the share holds on average; at least one in the batch): sentences that are masked apart
    from each other are then masked equally. A batch without a piece that may be masked has no
    masks.
    """
    n_rows = len(rows.offsets) - 1
    candidates = np.flatnonzero(rule.allowed_V[rows.ids])
    row_C = np.repeat(np.arange(n_rows), np.diff(rows.offsets))[candidates]
    keys_C = rng.random(len(candidates))
    if within == "batch":
        quota = max(1, int(np.floor(rule.share * len(candidates) + 0.5)))
        picked = candidates[np.sort(np.argsort(keys_C)[:quota])]
    else:
        counts_R = np.bincount(row_C, minlength=n_rows)
        quota_R = np.floor(rule.share * counts_R + rng.random(n_rows)).astype(np.int64)
        if len(candidates) and not quota_R.any():
            quota_R[np.argmax(counts_R)] = 1
        order = np.lexsort((keys_C, row_C))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts_R) - counts_R, counts_R)
        picked = np.sort(candidates[order[rank < np.repeat(quota_R, counts_R)]])
    return _corrupted(rows, picked, rule, rng)


def _corrupted(
    rows: FlatRows, picked: np.ndarray, rule: MaskRule, rng: np.random.Generator
) -> Masks:
    """Masks at these flat places: 80 % the mask, 10 % random pieces, 10 % as they are."""
    owners = np.searchsorted(rows.offsets, picked, side="right") - 1
    targets = rows.ids[picked].astype(np.int64)
    fate = rng.random(len(picked))
    strange = rule.ordinary[rng.integers(len(rule.ordinary), size=len(picked))]
    inputs = np.where(fate < MASKED, rule.mask, np.where(fate < MASKED + RANDOM, strange, targets))
    return Masks(
        picked - rows.offsets[owners],
        inputs,
        targets,
        offsets_of(np.bincount(owners, minlength=len(rows.offsets) - 1)),
        len(picked),
    )
