"""The contract of a metric: the predictions of one language and split in, one number out.

A metric is computed from the predictions that every evaluation keeps. It is not part of any key, so
that adding one to a finished grid trains and evaluates nothing.

Intervals and p-values need to know what each example contributes. Choose the base class by the form
of the metric:

* `PerExample`: the mean of one value per example, as an accuracy is;
* `RatioOfSums`: a sum over examples divided by another one, as precision is;
* `Metric` alone: any other function of the predictions. The contributions of the examples are then
  found by leaving out some of them at a time (`jackknife`), which calls `of` up to 201 times. A
  metric that knows better overrides `sample`, as `macro_f1` does.

In the first two, a metric of searches in both directions is the mean over the directions, and one
of several models of the pivot the mean over the models, as the tasks' own metrics are.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

from raxalign.arrays import Ints
from raxalign.lazy import np, pa
from raxalign.measured import Measured, Unit
from raxalign.options.params import BaseParams, PlugIn
from raxalign.sample import Array, Sample, clusters_of, parts_of

BLOCKS = 200
"""The largest number of parts of the predictions that are left out in turn."""


class Metric(PlugIn):
    """A number that is formed of predictions. Subclasses are final, one per file.

    `reads` names the columns of the predictions that the metric needs. `better` says which values
    are better, `unit` how they are shown: a `share` from 0 to 1 in percent, a `count`, or a
    `number` as it is. `range` has the smallest and the largest value (None: those of the unit).
    """

    reads: ClassVar[frozenset[str]]
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    unit: ClassVar[Unit] = "number"
    range: ClassVar[tuple[float, float] | None] = None

    class Params(BaseParams):
        """The options of the metric."""

    def measured(self, name: str) -> Measured:
        """Return the declaration of the metric under the name that a grid gives it."""
        about = (inspect.getdoc(type(self)) or name).partition("\n\n")[0]
        return Measured(name, about, self.better, unit=self.unit, range=self.range)

    @abstractmethod
    def of(self, predictions: pa.Table) -> float:
        """Return the metric over the predictions of one language and split, a row per example."""

    def sample(self, predictions: pa.Table) -> Sample | None:
        """Return what each independent unit of the predictions contributes; its value is that of
        `of`. None where this cannot be found, so that the metric has no interval.
        """
        return jackknife(predictions, self.of)


class RatioOfSums(Metric):
    """A metric that is a sum over examples divided by another one."""

    @abstractmethod
    def sums(self, predictions: pa.Table) -> tuple[Array, Array]:
        """Return what each row adds above and below the line, each (rows,)."""

    def of(self, predictions: pa.Table) -> float:
        """Return the first sum divided by the second one."""
        return _ratio(parts_of(predictions), *map(np.asarray, self.sums(predictions)))

    def sample(self, predictions: pa.Table) -> Sample:
        """Return both sums by unit."""
        above, below = self.sums(predictions)
        units, links = clusters_of(predictions)
        parts = parts_of(predictions)
        return Sample.summed(
            units, parts, np.asarray(above, float), np.asarray(below, float), links
        )


class PerExample(RatioOfSums):
    """A metric that is the mean of one value per example."""

    @abstractmethod
    def values(self, predictions: pa.Table) -> Array:
        """Return the value of each row, (rows,)."""

    def sums(self, predictions: pa.Table) -> tuple[Array, Array]:
        """Return the values, and 1 for each row."""
        return np.asarray(self.values(predictions), np.float64), np.ones(len(predictions))


def jackknife(predictions: pa.Table, of: Callable[[pa.Table], float]) -> Sample | None:
    """Find what each unit contributes to a metric by leaving out blocks of units in turn; return
    None where the metric is not a finite number without one of the blocks.

    With more than `BLOCKS` units a block holds several ones. These count as one cluster in tests,
    and the blocks of two systems over the same units are the same. Right for metrics that change
    smoothly when a few examples are left out; not for a median (Efron & Tibshirani 1993, chapter
    11).
    """
    units, links = clusters_of(predictions)
    names, unit, rows = np.unique(units, return_inverse=True, return_counts=True)
    block = names % BLOCKS if len(names) > BLOCKS else np.arange(len(names))
    value, total = of(predictions), len(predictions)
    blocks, sizes = np.unique(block[unit], return_counts=True)
    if len(blocks) < 2:
        return Sample(names, np.full((1, len(names)), value) * rows, rows[None].astype(float))
    without = np.array([of(predictions.filter(block[unit] != left)) for left in blocks])
    if not np.isfinite(without).all():
        return None
    influence = (value - without) * (total - sizes) / total  # exact for a mean over rows
    influence -= influence.sum() * sizes / total
    share = rows / sizes[np.searchsorted(blocks, block)]
    gains = value * rows + total * influence[np.searchsorted(blocks, block)] * share
    if len(names) > BLOCKS:
        together = np.stack([names, -1 - block], axis=1)  # block numbers are not those of units
        links = together if links is None else np.concatenate([links, together])
    return Sample(names.astype(np.int64), gains[None], rows[None].astype(np.float64), links=links)


def _ratio(parts: Ints, above: Array, below: Array) -> float:
    """The mean over parts of a ratio of sums, without parts with nothing below the line."""
    gains, counts = np.bincount(parts, above), np.bincount(parts, below)
    there = counts > 0
    return float((gains[there] / counts[there]).mean()) if there.any() else 0.0
