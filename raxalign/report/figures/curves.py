"""What the curves of several sections share: their number, and the labels of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from raxalign.analysis.cells import Value
from raxalign.lazy import special
from raxalign.measured import spoken
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.report.figures.panels import Ends

MOST_CURVES = 8
_OVER = {
    "contextual_accuracy": "contextual accuracy, pairs unseen in training",
    "contextual_accuracy_all": "contextual accuracy, all pairs",
    "noncontextual_accuracy": "non-contextual accuracy, pairs unseen in training",
    "noncontextual_accuracy_all": "non-contextual accuracy, all pairs",
}


def axis_of(results: Scoreboard, task: str, metric: str) -> str:
    """Return the label of an axis of a metric, with a direction that readers may not expect."""
    lower = results.plan.measured(task, metric).better == "lower"
    percent = " (%)" if results.unit(task, metric).sign else ""
    return f"{_OVER.get(metric, spoken(metric))}{', lower is better' if lower else ''}{percent}"


def counted(numbers: Iterable[int], what: str) -> str:
    """Return the sizes behind the points of a panel: ``n = 3 to 4 languages``."""
    found = sorted(numbers)
    more = f" to {found[-1]}" if found[0] != found[-1] else ""
    return f"n = {found[0]}{more} {what}"


def over_runs_alone(value: Value, scale: float) -> Ends:
    """Return the ends of the 95 % interval of a mean over runs (Student's t), multiplied by a
    scale; None for a single run. It is for values whose examples are not stored.

    >>> [round(end, 1) for end in over_runs_alone(Value(0.5, 0.1, 4), 100) or ()]
    [34.1, 65.9]
    """
    if value.sd is None:
        return None
    half = float(special.stdtrit(value.n - 1, 0.975)) * value.sd / math.sqrt(value.n)
    return scale * (value.mean - half), scale * (value.mean + half)
