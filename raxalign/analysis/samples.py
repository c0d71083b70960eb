"""Stored predictions as samples over independent units, for whatever metric can be taken apart into them.

A predictions table has a row an example, with columns `lang` and `split`. What else it has tells how its metrics are formed:

* word pairs (`correct`, `direction`, `identical`, `unseen`, `first`, `first_unseen`, `id`): the accuracies of retrieval; a unit is a sentence
  pair, a part is a direction;
* `label` and `predicted`: `accuracy`; a unit is a premise where the table has a column of that name, else an example;
* a column called as the metric itself (`f1`, `exact_match`): its mean; with `<metric>_count` beside it, the ratio of the two sums, so that an
  entity F1 has twice the entities found right and those given and there; a unit is named by the first of `UNITS` that is a column.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from raxalign.analysis.significance import Sample

if TYPE_CHECKING:
    import pyarrow as pa

UNITS = ("unit", "context_id", "context", "paragraph", "premise_id", "premise", "sentence", "row", "id")
_PAIRS = {"correct", "direction", "identical", "unseen", "first", "first_unseen", "id"}
_DIRECTIONS = ("to_pivot", "from_pivot")
_WORD_METRICS = ("contextual_accuracy", "noncontextual_accuracy")

Array = npt.NDArray[Any]


def sample(table: pa.Table, lang: str, metric: str, split: str) -> Sample | None:
    """What the predictions say about one metric of a language and split; None where it cannot be taken apart into units."""
    import pyarrow.compute as pc

    if not {"lang", "split"} <= set(table.column_names):
        return None
    part = table.filter(pc.and_(pc.equal(table["lang"], lang), pc.equal(table["split"], split)))
    if not len(part):
        return None
    if set(part.column_names) >= _PAIRS and metric.startswith(_WORD_METRICS):
        return _word_pairs(part, metric)
    if metric in part.column_names:
        gains = _column(part, metric).astype(np.float64)
        counts = _column(part, f"{metric}_count").astype(np.float64) if f"{metric}_count" in part.column_names else np.ones(len(part))
        return _summed(_units(part), _models(part), gains, counts)
    if metric == "accuracy" and {"label", "predicted"} <= set(part.column_names):
        right = pc.equal(part["label"], part["predicted"]).to_numpy(zero_copy_only=False).astype(np.float64)
        return _summed(_units(part), _models(part), right, np.ones(len(part)))
    return None


def _word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Retrieval's accuracies from its flags, as its task forms them."""
    direction = next((entry for entry in _DIRECTIONS if metric.endswith(f"_{entry}")), None)
    name = metric.removesuffix(f"_{direction}") if direction else metric
    with_seen = name.endswith("_all")
    if name.removesuffix("_all") not in _WORD_METRICS:
        return None
    flags = {column: _column(table, column).astype(bool) for column in ("correct", "identical", "unseen", "first", "first_unseen")}
    if name.startswith("contextual"):
        chosen = ~flags["identical"] if with_seen else ~flags["identical"] & flags["unseen"]
    else:
        chosen = flags["first"] if with_seen else flags["first_unseen"]
    directions = _column(table, "direction")
    if direction:
        chosen &= directions == direction
    if not chosen.any():
        return None
    return _summed(_column(table, "id")[chosen], directions[chosen], flags["correct"][chosen].astype(np.float64), np.ones(int(chosen.sum())))


def _summed(units: Array, parts: Array, gains: Array, counts: Array) -> Sample:
    """Sums of gains and counts by part and unit."""
    names, unit = np.unique(units, return_inverse=True)
    kinds, part = np.unique(parts, return_inverse=True)
    cells, shape = part * len(names) + unit, (len(kinds), len(names))
    sums = [np.bincount(cells, values, shape[0] * shape[1]).reshape(shape).astype(np.float64) for values in (gains, counts)]
    return Sample(names.astype(np.int64), *sums)


def _units(table: pa.Table) -> Array:
    """A number for each row's unit; texts become the first 63 bits of their hash, the same in every table."""
    name = next((entry for entry in UNITS if entry in table.column_names), None)
    if name is None:
        return np.arange(len(table))
    values = _column(table, name)
    if np.issubdtype(values.dtype, np.integer):
        return values
    texts, places = np.unique(values.astype(str), return_inverse=True)
    hashes = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 for text in texts]
    return np.array(hashes, dtype=np.int64)[places]


def _models(table: pa.Table) -> Array:
    """The part of each row: the pivot may be scored by a model a language, and its value is then the mean over models."""
    if "toward" not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    return np.array([entry or "" for entry in table["toward"].to_pylist()])


def _column(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].to_numpy(zero_copy_only=False))
