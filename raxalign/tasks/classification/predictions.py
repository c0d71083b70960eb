"""The table of a classifier's predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.tasks.classification.examples import Examples
from raxalign.tasks.classification.scheme import LabelScheme, Split

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class HeldOut:
    """What is evaluated of one language and split; `seen` marks the examples that were trained
    on.
    """

    lang: str
    split: Split
    examples: Examples
    seen: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Predictions:
    """The probabilities (examples, labels) of one model at one epoch, by the `labels` that it tells
    apart; `toward` is the language that the pivot's transforms lead to (None: nowhere).
    """

    toward: str | None
    epoch: int
    probabilities: Probabilities

    def predicted(self) -> npt.NDArray[np.int64]:
        """Returns the number of the most probable label of each example."""
        return np.asarray(self.probabilities.argmax(1), dtype=np.int64)


def table_of(
    scheme: LabelScheme, labels: tuple[str, ...], held_out: HeldOut, found: Predictions
) -> pa.Table:
    """Makes one row per example: its label, the predicted one, and a column of probabilities per
    label.

    The column `scheme.unit` numbers what is resampled together: the groups of the data set, or else
    the first texts.
    """
    n, number = len(held_out.examples), dict[str, int]()
    rows = held_out.examples.rows
    columns = {
        "lang": pa.array([held_out.lang] * n, pa.string()),
        "split": pa.array([held_out.split] * n, pa.string()),
        "toward": pa.array([found.toward] * n, pa.string()),
        "epoch": pa.array([found.epoch] * n, pa.int64()),
        "id": pa.array(range(n), pa.int64()),
        scheme.unit: pa.array(
            [number.setdefault(row.group or row.first, len(number)) for row in rows], pa.int64()
        ),
        "label": pa.array([row.label for row in rows], pa.string()),
        "predicted": pa.array([labels[i] for i in found.predicted()], pa.string()),
    }
    if scheme.repeats:
        columns["seen"] = pa.array(held_out.seen.tolist(), pa.bool_())
    for i, label in enumerate(labels):
        # A label may be called like one of the other columns.
        name = f"probability of {label}" if label in columns else label
        columns[name] = pa.array(found.probabilities[:, i], pa.float32())
    return pa.table(columns)
