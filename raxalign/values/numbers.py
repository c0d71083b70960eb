"""Numbers as a table shows them, by their unit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from raxalign.measured import Measured

UNDECLARED = (
    "nothing declares this metric (the task's plug-in is not here, or its `metrics` does not name"
    " it): its values are shown as they are, and not compared"
)
_UNITS: dict[str | None, tuple[float, int]] = {
    **dict.fromkeys(("accuracy_percent", "percent"), (100, 1)),
    "f1_percent": (100, 1),
    "em_and_f1_percent": (100, 1),
    "bleu": (100, 2),
    "accuracy_fraction": (1, 2),
    "rate": (1, 3),
    "correlation": (1, 2),
    "points": (100, 1),
    "weight": (1, 1),
    **dict.fromkeys(("layer", "sentences", "sentence_pairs", "tokens"), (1, 0)),
}
"""What a stored value is multiplied by, and its decimals; other units are whole numbers."""


@dataclass(frozen=True)
class NumberFormat:
    """How values are shown: multiplied by `scale`, with `decimals`; `sign` stands in headings."""

    MINUS: ClassVar = "−"
    scale: float = 1.0
    decimals: int = 4
    sign: str = ""

    def show(self, value: float) -> str:
        """Return a stored value."""
        return self.number(value * self.scale, self.decimals)

    def show_interval(self, low: float | None, high: float | None) -> str:
        """Return an interval in brackets, or nothing."""
        return "" if low is None or high is None else f"[{self.show(low)}, {self.show(high)}]"

    def show_difference(self, difference: float) -> str:
        """Return a difference, with its sign."""
        return self.signed(difference * self.scale, self.decimals)

    def rounded(self, value: float, interval: tuple[float, float] | None) -> float:
        """Return a stored value with the digits that its interval carries: the two first ones of
        half its width; without one those that are shown.

        >>> NumberFormat(100, 1).rounded(0.341562, (0.3289, 0.3542)), NumberFormat(100, 1).rounded(
        ...     0.341562, None
        ... )
        (0.342, 0.342)
        """
        half = (interval[1] - interval[0]) / 2 if interval else 0.0
        shown = self.decimals + round(math.log10(self.scale))
        return round(value, 1 - math.floor(math.log10(half)) if half > 0 else shown)

    @classmethod
    def published(cls, name: str | None, figures: Iterable[float] = ()) -> NumberFormat:
        """Return the unit of a published table, with at least the decimals that it prints."""
        scale, decimals = _UNITS.get(name, (1.0, 0))
        texts = [f"{figure!r}" for figure in figures]
        printed = [len(text.partition(".")[2].rstrip("0")) for text in texts if "e" not in text]
        if decimals or name is None:
            decimals = max([decimals, *printed])
        return cls(scale, decimals, "%" if scale == 100 else "")

    @classmethod
    def of(cls, measured: Measured, values: Iterable[float]) -> NumberFormat:
        """Return how the values of a metric are shown: shares in percent, counts without decimals,
        and numbers with three decimals, with more where all of them are small and with one above
        100.

        >>> NumberFormat.of(Measured("distance", "Mean distance."), [1.0, 0.25]).show(1.0)
        '1.000'
        >>> NumberFormat.of(Measured("rank", "Mean rank."), [2198.18]).show(2198.18)
        '2,198.2'
        """
        if measured.unit == "share":
            return cls(100, 1, "%")
        if measured.unit == "count":
            return cls(1, 0)
        most = max(map(abs, values), default=0.0)
        if most >= 100:
            return cls(1, 1)
        return cls(1, 3 if most >= 0.1 or not most else 2 - math.floor(math.log10(most)))

    @staticmethod
    def heading(measured: Measured) -> str:
        """Return what follows the name of a metric at the head of a table: that it is in percent,
        and a direction that readers may not expect.

        >>> wrong = Measured("error_rate", "Share of what is wrong.", "lower", unit="share")
        >>> NumberFormat.heading(wrong)
        ', %, lower is better'
        """
        percent = ", %" if measured.unit == "share" else ""
        return percent + (", lower is better" if measured.better == "lower" else "")

    @staticmethod
    def number(value: float, decimals: int) -> str:
        """Return a number with thousands apart and a real minus; what rounds to nothing has no
        sign.

        >>> NumberFormat.number(-1234.56, 1), NumberFormat.number(-0.04, 1)
        ('−1,234.6', '0.0')
        """
        text = f"{abs(value):,.{decimals}f}"
        return NumberFormat.MINUS + text if value < 0 and float(text.replace(",", "")) else text

    @staticmethod
    def signed(value: float, decimals: int) -> str:
        """Return a difference: always with its sign.

        >>> [NumberFormat.signed(value, 1) for value in (0.26, -0.26, 0.0)]
        ['+0.3', '−0.3', '±0.0']
        """
        text = NumberFormat.number(value, decimals)
        if text.startswith(NumberFormat.MINUS):
            return text
        return ("+" if float(text.replace(",", "")) else "±") + text
