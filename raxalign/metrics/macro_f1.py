"""Macro-averaged F1 of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from raxalign.errors import DataError
from raxalign.metrics.base import Metric
from raxalign.sample import Array, Sample, clusters_of, parts_of, summed

if TYPE_CHECKING:
    import pyarrow as pa


class MacroF1(Metric):
    """The mean over labels of the F1 of each, which counts a rare label as much as a frequent one.

    The labels are those that are right somewhere or were predicted somewhere. For taggers every
    word is an example, and the words of a sentence are one unit to tests.
    """

    VERSION = 1
    reads = frozenset({"label", "predicted"})

    class Params(Metric.Params):
        """The labels that count."""

        leave_out: str | None = Field(
            None, description="Label whose F1 is not part of the mean, as `O` of entity tags."
        )

    params: Params

    def of(self, predictions: pa.Table) -> float:
        """The mean over labels of 2 TP / (2 TP + FP + FN), 0 to 1."""
        return self.sample(predictions).value

    def sample(self, predictions: pa.Table) -> Sample:
        """A part per label: a right prediction gains 2, and each occurrence of the label, right or
        predicted, counts 1.
        """
        units, links = clusters_of(predictions)
        parts = parts_of(predictions).astype(str)
        row, gold = _labels(predictions, "label")
        other, guess = _labels(predictions, "predicted")
        if not np.array_equal(row, other):
            raise DataError("predictions", "a row has more or fewer labels than predictions")
        rows, labels = np.concatenate([row, row]), np.concatenate([gold, guess])
        gains = np.concatenate([2.0 * (gold == guess), np.zeros(len(guess))])
        if self.params.leave_out is not None:
            kept = labels != self.params.leave_out
            rows, labels, gains = rows[kept], labels[kept], gains[kept]
        part = np.char.add(np.char.add(parts[rows], "\t"), labels)
        return summed(units[rows], part, gains, np.ones(len(rows)), links)


def _labels(predictions: pa.Table, name: str) -> tuple[Array, Array]:
    """The row of each label of a column, and the labels; a row may hold a list of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = predictions[name].combine_chunks()
    rows = np.arange(len(values))
    if pa.types.is_list(values.type):
        rows, values = pc.list_parent_indices(values).to_numpy(), pc.list_flatten(values)
    return rows, values.to_numpy(zero_copy_only=False).astype(str)
