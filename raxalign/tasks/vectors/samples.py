"""Samples of tasks that search both ways between two languages: each direction is a part.

* `word_pairs` (`correct`, `direction`, `identical`, `unseen`, `first`, `first_unseen`, `id`): the
  accuracies of retrieval, non-contextual ones by `correct_first`;
* `directed` with `rank`: mean reciprocal rank and precision at k. A unit is a query of a direction,
  linked to its `gold` translation, which is a query of the other one: both ask for the same entry
  of the dictionary, and linked units are one unit in a test;
* `directed` with `correct`: `accuracy`, the mean of both directions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.sample import Sample, clusters_of, column, summed, units_of
from raxalign.tasks.vectors.accuracy import direction_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
else:
    np = lazy.load("numpy")

_WORD_METRICS = ("contextual_accuracy", "noncontextual_accuracy")


def word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of an accuracy of retrieval, from the flags of its predictions."""
    name, direction = direction_of(metric)
    with_seen = name.endswith("_all")
    if name.removesuffix("_all") not in _WORD_METRICS:
        return None
    correct, names = (
        ("correct", ("identical", "unseen"))
        if name.startswith("contextual")
        else ("correct_first", ("first", "first_unseen"))
    )
    if correct not in table.column_names:
        return None
    flags = {flag: column(table, flag).astype(bool) for flag in (correct, *names)}
    if correct == "correct":
        chosen = ~flags["identical"] if with_seen else ~flags["identical"] & flags["unseen"]
    else:
        chosen = flags["first"] if with_seen else flags["first_unseen"]
    directions = column(table, "direction")
    if direction:
        chosen &= directions == direction
    if not chosen.any():
        return None
    return summed(
        units_of(table)[chosen],
        directions[chosen],
        flags[correct][chosen].astype(np.float64),
        np.ones(int(chosen.sum())),
    )


def directed(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a metric that is the mean of both directions, or that of one."""
    name, direction = direction_of(metric)
    directions = column(table, "direction")
    chosen = directions == direction if direction else np.ones(len(table), dtype=bool)
    if "rank" in table.column_names and "query" in table.column_names:
        rank, cut = (
            column(table, "rank").astype(np.float64),
            re.fullmatch(r"precision_at_(\d+)", name),
        )
        if name != "mrr" and cut is None:
            return None
        gains = 1.0 / rank if cut is None else (rank <= int(cut[1])).astype(np.float64)
        units, links = clusters_of(table)
    elif name == "accuracy" and "correct" in table.column_names:
        gains, units, links = column(table, "correct").astype(np.float64), units_of(table), None
    else:
        return None
    return summed(
        units[chosen], directions[chosen], gains[chosen], np.ones(int(chosen.sum())), links
    )
