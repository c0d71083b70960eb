"""What the curves of several sections share: their number, labels, and the baseline's level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from raxalign.analysis.cells import Value
from raxalign.analysis.metrics import spoken
from raxalign.report.cells.choice import baseline, value_of
from raxalign.report.cells.results import Results
from raxalign.report.figures.panels import Curve

MOST_CURVES = 8
BAND = (
    "Error bars: one standard deviation over runs to each side. Dashed level: the original encoder."
)
_OVER = {
    "contextual_accuracy": "contextual accuracy, pairs unseen in training",
    "contextual_accuracy_all": "contextual accuracy, all pairs",
    "noncontextual_accuracy": "non-contextual accuracy, pairs unseen in training",
    "noncontextual_accuracy_all": "non-contextual accuracy, all pairs",
}


def in_percent(metric: str) -> str:
    """Return the label of an axis of percentages, which says over which pairs they are."""
    return f"{_OVER.get(metric, spoken(metric))} (%)"


def counted(numbers: Iterable[int], what: str) -> str:
    """Return the sizes behind the points of a panel: ``n = 3 to 4 languages``."""
    found = list(numbers)
    low, high = min(found), max(found)
    return f"n = {low} {what}" if low == high else f"n = {low} to {high} {what}"


def halves(values: Sequence[Value]) -> list[float | None]:
    """Return the half widths of the bands around values, in percent; None for single runs."""
    return [value.sd and 100 * value.sd for value in values]


def levels(results: Results, task: str, metric: str) -> list[Curve]:
    """Return the baseline as a horizontal line; nothing where the grid has no value of it."""
    base = baseline(results, task, metric)
    value = value_of(base, task, metric, results.split(task)) if base is not None else None
    if base is None or value is None:
        return []
    return [Curve(base.method, (), [100 * value.mean], level=True, colour=7)]
