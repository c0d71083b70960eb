"""What the losses of a training show: that it diverged, came to nothing, or was hardly begun."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from raxalign.errors import TrainingDiverged

FACTOR = 20.0
"""A loss above this many times the first one has exploded."""

STEEP = 0.1
"""A training is still learning where its last fifth brought more than this share of its whole fall.
A loss that falls with the logarithm of the steps brings 9 % there, a straight line 22 %.
"""


@dataclass(frozen=True)
class Course:
    """A training as its losses are judged: its `name` for messages, its `total` number of steps,
    and the option `learning_rate`, which the schedule turns into the rate of each step.

    `start` is the first step (0-based) whose loss has all the parts that the later ones have. A
    first loss below `unit` counts as that much: a contrast with few negatives begins near 0, and a
    regulariser at 0, so that the unit of a regularised loss is the regulariser's weight where that
    is more than 1.
    """

    name: str
    total: int
    learning_rate: float
    start: int = 0
    unit: float = 1.0

    def explodes(self, losses: Sequence[float]) -> bool:
        """Return whether the training has diverged although its loss is a number: its last losses,
        5 % of all steps and 3 at least, are all above `FACTOR` times the first one. A cross-entropy
        is never there by chance: an even guess among 10^8 classes costs 18.
        """
        reference = losses[self.start] if self.start < len(losses) else losses[0]
        bound, window = FACTOR * max(reference, self.unit), max(3, self.total // 20)
        return losses[-1] > bound and len(losses) > window and min(losses[-window:]) > bound

    def check(self, losses: Sequence[float], rate: float, fault: str = "") -> None:
        """Raise `TrainingDiverged`, with the step, the loss and the learning rate, where the last
        loss is not finite, the losses explode, or something else is not finite.

        Args:
            losses: The loss of every step so far.
            rate: The learning rate of the last step.
            fault: What else is not finite, in words; empty where nothing is.
        """
        last = losses[-1]
        exploded = self.explodes(losses)
        if math.isfinite(last) and not fault and not exploded:
            return
        before = f" ({losses[0]:.4g} at the start)" if len(losses) > 1 else ""
        also = f", {fault}" if fault else ""
        at_peak = math.isclose(rate, self.learning_rate, rel_tol=1e-3)
        scheduled = "" if at_peak else f", {rate:.3g} at this step"
        raise TrainingDiverged(
            f"{self.name}: training diverged at step {len(losses)} of {self.total}: loss"
            f" {last:.6g}{before}{also}, learning_rate {self.learning_rate:g}{scheduled}. Choose a"
            " smaller `learning_rate`, or a longer `warmup`"
        )

    def not_lowered(self, losses: Sequence[float]) -> tuple[float, float] | None:
        """Return (loss at the start, loss at the end) where the training did not lower its loss;
        None where it did.

        The end is the mean over the last tenth of the steps from `start` on. It is compared with
        the mean over the first tenth, and with the very first loss (that of the weights that the
        training began with), which it may pass by three standard deviations of the last tenth.
        """
        kept = list(losses[self.start :])
        if len(kept) < 2:
            return None
        tenth = max(1, len(kept) // 10)
        begin, end = fmean(kept[:tenth]), fmean(kept[-tenth:])
        if end > kept[0] + 3 * pstdev(kept[-tenth:]):
            return kept[0], end
        return (begin, end) if end >= begin else None

    def still_falling(self, losses: Sequence[float]) -> tuple[float, float, float] | None:
        """Return (loss at the start, loss at the end, how much of that fall the last fifth of the
        steps brought) where the training ended while its loss still fell steeply (`STEEP`); None
        elsewhere.

        Start and end are means over the first tenth and the last fifth of the steps from `start`
        on. The last fifth has to be lower than the one before it by more than chance: by two
        standard errors of the difference of their means.
        """
        kept = list(losses[self.start :])
        fifth = len(kept) // 5
        if fifth < 4:
            return None
        before, last = kept[-2 * fifth : -fifth], kept[-fifth:]
        begin, end = fmean(kept[: max(1, len(kept) // 10)]), fmean(last)
        fall, late = begin - end, fmean(before) - end
        error = math.hypot(pstdev(before), pstdev(last)) / math.sqrt(fifth)
        return (begin, end, late) if late > max(STEEP * fall, 2 * error) and fall > 0 else None
