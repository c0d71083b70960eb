"""Macro-averaged F1 of labels."""

from __future__ import annotations

from raxalign.arrays import Floats, Ints
from raxalign.errors import DataError
from raxalign.lazy import np, pa, pc
from raxalign.metrics.base import Metric
from raxalign.sample import Sample, clusters_of, parts_of


class MacroF1(Metric):
    """The mean over labels of the F1 of each, which counts a rare label as much as a frequent one.

    The labels are those that occur, as a right one or as a predicted one. For taggers every word is
    an example, and tests resample whole sentences.

    Relations: Choose it next to a task's accuracy, or F1 over all entities, where labels differ
    much in number.

    Example:
        tasks:
          pos: {data: hub, metrics: [macro_f1]}
          ner: {data: hub, metrics: {types_f1: {kind: macro_f1, leave_out: O}}}
    """

    VERSION = 1
    reads = frozenset({"label", "predicted"})
    unit = "share"

    class Params(Metric.Params):
        """Labels that are part of the mean."""

        leave_out: str | None = None
        """Label whose F1 is not part of the mean, as `O` of entity tags."""

    params: Params

    def of(self, predictions: pa.Table) -> float:
        """Return the mean over labels of 2 TP / (2 TP + FP + FN), 0 to 1."""
        _, parts, gains = self._occurrences(predictions)
        counts = np.bincount(parts)
        shares = np.bincount(parts, gains)[counts > 0] / counts[counts > 0]
        return float(shares.mean()) if len(shares) else 0.0

    def sample(self, predictions: pa.Table) -> Sample:
        """Return a part per label: a right prediction gains 2, and each occurrence of the label,
        right or predicted, counts 1.
        """
        rows, parts, gains = self._occurrences(predictions)
        units, links = clusters_of(predictions)
        return Sample.summed(units[rows], parts, gains, np.ones(len(rows)), links)

    def _occurrences(self, predictions: pa.Table) -> tuple[Ints, Ints, Floats]:
        """Every occurrence of a label, right ones and then predicted ones: its row, its part (a
        label of a model), and what it gains.
        """
        row, gold = _labels(predictions, "label")
        other, guess = _labels(predictions, "predicted")
        if not np.array_equal(row, other):
            raise DataError("predictions", "a row has more or fewer labels than predictions")
        both = pa.concat_arrays([gold, guess]).dictionary_encode()
        codes, n = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
        rows = np.concatenate([row, row])
        gains = np.concatenate([2.0 * (codes[: len(row)] == codes[len(row) :]), np.zeros(len(row))])
        parts = parts_of(predictions)[rows] * n + codes
        left_out = both.dictionary.index(self.params.leave_out).as_py()
        kept = codes != left_out
        return rows[kept], parts[kept], gains[kept]


def _labels(predictions: pa.Table, name: str) -> tuple[Ints, pa.StringArray]:
    """The row of each label of a column, and the labels; a row may hold a list of them."""
    values = predictions[name].combine_chunks()
    if not pa.types.is_list(values.type):
        return np.arange(len(values)), values.cast(pa.string())
    return pc.list_parent_indices(values).to_numpy(), pc.list_flatten(values).cast(pa.string())
