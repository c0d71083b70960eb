"""Predictions as samples over independent units: what a system did in one run.

A predictions table has one row per example, with columns `lang` and `split`. A task chooses a form
for each of its metrics:

* `of_ratio`, counts per sentence: a ratio of sums of columns, as F1, precision, recall and
  alignment error rate are;
* `of_labels`: the share of rows whose `predicted` is their `label`;
* `of_label_f1`: the mean over labels of their F1;
* `of_influence`: any other smooth function of sums, by its derivative;
* `of_column`: the mean of a column over the rows;
* forms of its own, put together by `summed`.

A unit is named by the first of `UNITS` that is a column. A group of examples (a premise, a context)
has the number of its first example, so that the same group has the same number in every language of
a parallel set, even if languages number their groups differently. All its examples are linked to
it, so that groups of two languages that share any example (as in MLQA, by the question's id) are
one cluster in a test over both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from raxalign.arrays import Bools, Floats, Ints
from raxalign.lazy import np, pa, pc

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Ratios = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Metric -> the columns that are summed above and below the line."""

# Groups of several examples, which `id` names.
_GROUPS = ("context_id", "context", "paragraph", "premise_id", "premise", "group")
UNITS = ("unit", *_GROUPS, "sentence", "row", "id")


@dataclass(frozen=True)
class Sample:
    """What a system did in one run: `gains` and `counts` (parts, units), and the `units` (their
    number) in ascending order.

    The metric is the mean over parts of sum(gains) / sum(counts), in percent or as a fraction as
    the gains are. Where `wanted` (parts, units) is given, it is multiplied by BLEU's brevity
    penalty of sum(counts) against sum(wanted). A part without counts is left out.

    `links` (links, 2) are pairs of units that are not independent of each other; a link may pass
    through numbers that are not units here. Samples over the same units may be linked differently:
    samples that are compared are clustered by the links of both.
    """

    units: Ints
    gains: Floats
    counts: Floats
    wanted: Floats | None = None
    links: Ints | None = None

    @property
    def value(self) -> float:
        """The metric over all units."""
        ratios, penalties, _ = self._parts()
        return float((ratios * penalties).mean()) if len(ratios) else 0.0

    def influence(self) -> Floats:
        """Return the derivative of the metric by each unit's weight (units,), which sums to 0."""
        ratios, penalties, there = self._parts()
        if not len(ratios):
            return np.zeros(len(self.units))
        counts, totals = self.counts[there], self.counts[there].sum(1, keepdims=True)
        parts = penalties[:, None] * (self.gains[there] - ratios[:, None] * counts) / totals
        if self.wanted is not None:
            wanted = self.wanted[there]
            sums = wanted.sum(1, keepdims=True)
            slopes = np.where(sums > totals, (ratios * penalties)[:, None], 0.0)
            parts = parts + slopes * (counts * sums / totals - wanted) / totals
        return np.asarray(parts.mean(0), dtype=np.float64)

    def _parts(self) -> tuple[Floats, Floats, Bools]:
        """Ratios and brevity penalties of the parts that count something, and which those are."""
        totals = self.counts.sum(1)
        there = totals > 0
        ratios = self.gains.sum(1)[there] / totals[there]
        if self.wanted is None:
            return ratios, np.ones_like(ratios), there
        return ratios, np.exp(np.minimum(0.0, 1 - self.wanted.sum(1)[there] / totals[there])), there

    @classmethod
    def of_ratio(
        cls, rows: pa.Table, metric: str, ratios: Ratios, *, of_nothing: float = 0.0
    ) -> Sample | None:
        """Return the sample of a ratio of sums, or None for a metric that is not in `ratios` and
        for rows that lack one of its columns.

        Args:
            rows: the predictions of one language and split.
            metric: the metric.
            ratios: the columns of each metric.
            of_nothing: what the metric is by convention where nothing is below the line.
        """
        if metric not in ratios or not {name for side in ratios[metric] for name in side} <= set(
            rows.column_names
        ):
            return None
        above, below = (
            np.stack([column(rows, name) for name in side]).sum(0).astype(np.float64)
            for side in ratios[metric]
        )
        found = cls.summed(units_of(rows), _models(rows), above, below)
        # a part without counts has a value, and counts as one
        empty = found.counts.sum(1, keepdims=True) == 0
        gains, counts = np.where(empty, of_nothing, found.gains), np.where(empty, 1.0, found.counts)
        return replace(found, gains=gains, counts=counts)

    @classmethod
    def of_labels(cls, rows: pa.Table, _: str) -> Sample:
        """Return the sample of the share of rows whose `predicted` is their `label`."""
        right = (
            pc.equal(rows["label"], rows["predicted"])
            .to_numpy(zero_copy_only=False)
            .astype(np.float64)
        )
        return _grouped(rows, right, np.ones(len(rows)))

    @classmethod
    def of_label_f1(cls, rows: pa.Table, _: str) -> Sample:
        """Return the sample of the mean over models of the mean over labels of 2 right / (given +
        predicted), with a part per model and label.
        """
        gold, predicted = (np.asarray(rows[name].to_pylist()) for name in ("label", "predicted"))
        models, units = np.asarray(_models(rows), dtype=str), units_of(rows)
        labels = {m: len({*gold[models == m], *predicted[models == m]}) for m in np.unique(models)}
        # models may tell of different numbers of labels, and each model counts the same
        weights = np.array([sum(labels.values()) / len(labels) / labels[m] for m in models])
        parts = np.concatenate(
            [np.char.add(np.char.add(models, "\n"), of) for of in (gold, predicted)]
        )
        gains = np.concatenate([2.0 * (gold == predicted) * weights, np.zeros(len(rows))])
        both = np.concatenate([units, units])
        return cls.summed(both, parts, gains, np.ones(len(both)), _links(rows, units))

    @classmethod
    def of_influence(cls, units: Ints, value: float, influence: Floats) -> Sample:
        """Return the sample of a metric that is not a ratio of sums, from its value and its
        derivative by each unit's weight.

        Args:
            units: the units (units,) in ascending order.
            value: the metric over all units.
            influence: the derivative (units,), which sums to 0.
        """
        gains = value + len(units) * influence
        return cls(units, gains[None], np.ones((1, len(units))))

    @classmethod
    def of_column(cls, rows: pa.Table, name: str) -> Sample:
        """Return the sample of the mean of a column."""
        return _grouped(rows, column(rows, name).astype(np.float64), np.ones(len(rows)))

    @classmethod
    def summed(
        cls, units: Array, parts: Array, gains: Array, counts: Array, links: Array | None = None
    ) -> Sample:
        """Sum gains and counts by part and unit.

        Args:
            units: the unit of each row (N,).
            parts: the part of each row (N,).
            gains: what each row gains (N,).
            counts: what each row counts (N,).
            links: pairs of units that are not independent.
        """
        names, unit = np.unique(units, return_inverse=True)
        kinds, part = np.unique(parts, return_inverse=True)
        cells, shape = part * len(names) + unit, (len(kinds), len(names))
        above, below = (
            np.bincount(cells, values, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for values in (gains, counts)
        )
        return cls(names.astype(np.int64), above, below, links=links)


def _grouped(table: pa.Table, gains: Array, counts: Array) -> Sample:
    """Sum over the units of a table, with one part per model."""
    units = units_of(table)
    return Sample.summed(units, _models(table), gains, counts, _links(table, units))


def clusters_of(table: pa.Table) -> tuple[Array, Array | None]:
    """Return the unit of each row (rows,), and the links (links, 2) between units and examples;
    None where each unit is independent of all others.

    Rows with a `query` in two directions, and its `gold` answer, are linked as searches for the
    same entry of a dictionary.
    """
    if {"direction", "query"} <= set(table.column_names):
        return _entries(table)
    units = units_of(table)
    return units, _links(table, units)


def parts_of(table: pa.Table) -> Ints:
    """Return the number of each row's part (rows,): model and direction, which a mean is over."""
    parts = np.zeros(len(table), dtype=np.int64)
    for name in ("toward", "direction"):
        if name in table.column_names:
            codes, n = codes_of(table, name)
            parts = parts * n + codes
    return parts


def codes_of(table: pa.Table, name: str) -> tuple[Ints, int]:
    """Return a number for each value of a column (rows,), from 0 on in the order of appearance, and
    how many there are; an empty value is one, too.
    """
    values = table[name].combine_chunks().dictionary_encode("encode")
    return values.indices.to_numpy().astype(np.int64), len(values.dictionary)


def _entries(table: pa.Table) -> tuple[Array, Array | None]:
    """A unit per query of a direction, linked to its gold answer as a query of the other one.

    The best of several answers differs between systems, so that what belongs together is known only
    where samples are compared.
    """
    ahead, back = "to_pivot", "from_pivot"
    directions = column(table, "direction")
    units = _asked(directions, column(table, "query"))
    if "gold" not in table.column_names:
        return units, None
    golds = _asked(np.where(directions == ahead, back, ahead), column(table, "gold"))
    return units, np.stack([units, golds], axis=1)


def _asked(directions: Array, words: Array) -> Array:
    """The numbers of words as queries of directions: words of two languages are never the same."""
    return numbered(np.char.add(np.char.add(directions.astype(str), "/"), words.astype(str)))


def units_of(table: pa.Table) -> Array:
    """Return a number for each row's unit, the same in every table."""
    name = next((entry for entry in UNITS if entry in table.column_names), None)
    if name is None:
        return np.arange(len(table))
    values = _numbers(table, name)
    if name not in _GROUPS or "id" not in table.column_names:
        return values
    examples = _numbers(table, "id")
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    least = examples[first]
    np.minimum.at(least, group, examples)
    return np.asarray(least[group])


def _links(table: pa.Table, units: Array) -> Array | None:
    """Return links from the examples of a group to its number, or None where each is alone."""
    if "id" not in table.column_names or not {*_GROUPS} & {*table.column_names}:
        return None
    examples = _numbers(table, "id")
    links = np.unique(np.stack([units, examples], axis=1)[units != examples], axis=0)
    return links if len(links) else None


def _numbers(table: pa.Table, name: str) -> Array:
    values = column(table, name)
    return values if np.issubdtype(values.dtype, np.integer) else numbered(values.astype(str))


def numbered(values: Array) -> Array:
    """Return a number for each text: the first 63 bits of its hash."""
    texts, places = np.unique(values, return_inverse=True)
    hashes = [
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
        for text in texts
    ]
    return np.array(hashes, dtype=np.int64)[places]


def _models(table: pa.Table) -> Array:
    """Return the part of each row: the pivot may be scored by one model per language. A value is
    then the mean over models.
    """
    if "toward" not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    return np.array([str(name or "") for name in table["toward"].to_pylist()])


def of_layers(rows: pa.Table, label: str = "") -> pa.Table:
    """Return the rows of one of the layers that a task lists (empty: of the last one, which is that
    of metrics without the name of a layer); all rows where it lists none.
    """
    if "layers" not in rows.column_names or not len(rows):
        return rows
    return rows.filter(pc.equal(rows["layers"], label or rows["layers"].unique()[-1]))


def column(table: pa.Table, name: str) -> Array:
    """Return the values of a column."""
    return np.asarray(table[name].to_numpy(zero_copy_only=False))
