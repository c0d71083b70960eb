"""Answers as spans: a start and an end logit per piece (Devlin et al. 2019, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import evaluating
from raxalign.tasks.answers.windows import Window, Windows
from raxalign.tasks.transfer.model import FineTuned, RowLayout, lay_out, states_of
from raxalign.train.devices import on_device
from raxalign.train.group import shared

_Span = tuple[float, int, int]
"""(score, first, last): a span of pieces of a context."""


@dataclass(frozen=True)
class SpanRows:
    """Rows as the encoder reads them, the places of their pieces, and which there are."""

    layout: RowLayout
    places_BT: np.ndarray
    there_BT: np.ndarray


class SpanModel(FineTuned):
    """Transforms apply by the language of each piece: the question's or the context's."""

    def lay_out(self, rows: Sequence[PieceRow]) -> SpanRows:
        """Rows as the model reads them. The device has no part in it."""
        found = lay_out(self.aligned, rows)
        places_T = np.arange(int(found.lengths_S.max(initial=0)))
        there_BT = places_T < found.lengths_S[:, None]
        return SpanRows(found, found.starts_S[:, None] + np.where(there_BT, places_T, 0), there_BT)

    def logits(self, rows: SpanRows) -> torch.Tensor:
        """Logits (rows, pieces, 2) of starts and ends, -inf at padding, with gradient."""
        logits_F2: torch.Tensor = self.head(self.dropout(states_of(self.aligned, rows.layout)))
        places_BT, there_BT = (
            on_device(part, logits_F2.device) for part in (rows.places_BT, rows.there_BT)
        )
        return logits_F2[places_BT].masked_fill(~there_BT[..., None], -torch.inf)

    def loss(self, rows: SpanRows, targets: np.ndarray) -> torch.Tensor:
        """Return the loss of windows, whose answers have these first and last positions."""
        logits = self.logits(rows)
        return span_loss(logits, on_device(targets, logits.device))

    @torch.no_grad()
    def answers(self, windows: Windows, longest: int) -> list[str]:
        """The best span over all windows of each question, as the context's own characters."""

        def of_batch(chosen: np.ndarray) -> list[_Span | None]:
            part = [windows.windows[i] for i in chosen]
            logits_BT2 = self([window.row for window in part]).float().cpu().numpy()
            return [_best_of(*pair, longest) for pair in zip(part, logits_BT2, strict=True)]

        best: list[_Span | None] = [None] * len(windows.questions)
        lengths = [len(window.row) for window in windows.windows]
        batches = token_batches(lengths, self.encoder.batch_tokens)
        with evaluating(self):
            for chosen, spans in shared(batches, of_batch):
                for i, span in zip(chosen, spans, strict=True):
                    question = int(windows.windows.cuts_S5[i, 0])
                    known = best[question]
                    # of equals the first in the context
                    if span and (known is None or (span[0], -span[1]) > (known[0], -known[1])):
                        best[question] = span
        return [windows.text(number, *span[1:]) if span else "" for number, span in enumerate(best)]


def _best_of(window: Window, logits_T2: np.ndarray, longest: int) -> _Span | None:
    """The best span of a window by the logits (T, 2); None without a piece of the context."""
    if window.size == 0:
        return None
    inside = logits_T2[window.begin : window.begin + window.size]
    score, first, last = best_span(inside[:, 0], inside[:, 1], longest)
    return score, window.first + first, window.first + last


def best_span(starts: np.ndarray, ends: np.ndarray, longest: int) -> tuple[float, int, int]:
    """(score, first, last): the span of 1 to `longest` pieces with the largest sum of its start's
    and its end's logit, over all spans.

    Of equals the first one, then the shortest. `starts` and `ends` are (n,), n at least 1.

    >>> best_span(np.array([0.0, 5.0, 1.0]), np.array([4.0, 0.0, 3.0]), 2)
    (8.0, 1, 2)
    >>> best_span(np.array([3.0, 2.0, 0.0]), np.array([0.0, 0.0, 4.0]), 2)
    (6.0, 1, 2)
    """
    padded = np.concatenate([ends, np.full(longest - 1, -np.inf, dtype=ends.dtype)])
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)
    first, more = divmod(int(sums.argmax()), longest)
    return float(sums[first, more]), first, first + more


def span_loss(logits_BT2: torch.Tensor, targets_B2: torch.Tensor) -> torch.Tensor:
    """The sum over rows of the mean of the cross-entropies of start and end over their pieces."""
    # The pieces are the classes, both logits the positions.
    return nn.functional.cross_entropy(logits_BT2, targets_B2, reduction="sum") / 2
