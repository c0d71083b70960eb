"""The scores of a classifier, and what its predictions are as samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from raxalign import lazy
from raxalign.measured import share
from raxalign.sample import Sample, of_label_f1, of_labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
else:
    np = lazy.load("numpy")

Ints: TypeAlias = "npt.NDArray[np.int64]"
MEASURED = (
    share("accuracy", "Share of the examples whose label is right."),
    share("macro_f1", "Mean over labels of the harmonic mean of precision and recall."),
)
"""What classifiers report; the second one where it is the main metric."""


def accuracy(gold: Ints, predicted: Ints) -> float:
    """Returns the share of predictions that are right."""
    return float((predicted == gold).mean())


def macro_f1(gold: Ints, predicted: Ints) -> float:
    """Returns the mean of 2 right / (given + predicted) over the labels that are given or
    predicted.

    >>> macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    values = []
    for label in np.union1d(gold, predicted):
        given, found = gold == label, predicted == label
        values.append(2 * float((given & found).sum()) / float(given.sum() + found.sum()))
    return float(np.mean(values))


METRICS: Mapping[str, Callable[[Ints, Ints], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
}
"""Scores by name: of the numbers of the right and of the predicted labels."""


def sample_of(rows: pa.Table, metric: str) -> Sample | None:
    """Returns the sample of a metric over the predictions of one language and split."""
    if metric == "accuracy":
        return of_labels(rows)
    return of_label_f1(rows) if metric == "macro_f1" else None
