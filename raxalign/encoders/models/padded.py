"""Rows of pieces as a padded batch: in the memory of the host, and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from raxalign.encoders.models.pieces import PieceRow
from raxalign.encoders.models.vectors import Batch
from raxalign.train.devices import on_device


@dataclass(frozen=True)
class Padded:
    """A batch in the memory of the host, with the fields of `Batch`, all int64."""

    ids_BT: np.ndarray
    mask_BT: np.ndarray
    segments_BT: np.ndarray
    words_BT: np.ndarray
    lasts_BT: np.ndarray
    langs_BT: np.ndarray
    languages: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[PieceRow], filler: int, segment_types: int) -> Padded:
        """Lays rows out, which may be of different languages.

        Args:
            rows: the pieces.
            filler: the piece that stands for padding.
            segment_types: the number of token types of the encoder.
        """
        width = max((len(row) for row in rows), default=0)
        languages = tuple(dict.fromkeys(lang for row in rows for lang in row.languages))
        number = {lang: i for i, lang in enumerate(languages)}
        lengths_B = np.array([len(row) for row in rows], dtype=np.int64)
        firsts_B = np.array([row.first for row in rows], dtype=np.int64)
        steps_T = np.arange(width)
        mask_BT = steps_T[None, :] < lengths_B[:, None]
        second_BT = (steps_T[None, :] >= firsts_B[:, None]) & mask_BT
        ids_BT = np.full((len(rows), width), filler, dtype=np.int64)
        words_BT, lasts_BT = np.full((2, len(rows), width), -1, dtype=np.int64)
        if rows:
            ids_BT[mask_BT] = np.concatenate([row.ids for row in rows])
            words_BT[mask_BT] = np.concatenate([row.words for row in rows])
            lasts_BT[mask_BT] = np.concatenate([row.lasts for row in rows])
        langs_B2 = np.array(
            [(number[row.languages[0]], number[row.languages[-1]]) for row in rows], dtype=np.int64
        ).reshape(-1, 2)
        langs_BT = np.where(mask_BT, np.where(second_BT, langs_B2[:, 1:], langs_B2[:, :1]), -1)
        segments_BT = second_BT if segment_types > 1 else np.zeros_like(second_BT)
        mask, segments = (part.astype(np.int64) for part in (mask_BT, segments_BT))
        return cls(ids_BT, mask, segments, words_BT, lasts_BT, langs_BT, languages)

    def on(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        ids, mask, segments, words, lasts, langs = (
            on_device(part, device)
            for part in (
                self.ids_BT,
                self.mask_BT,
                self.segments_BT,
                self.words_BT,
                self.lasts_BT,
                self.langs_BT,
            )
        )
        return Batch(ids, mask, segments, words, lasts, langs, self.languages)
