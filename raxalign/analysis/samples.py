"""Stored predictions as samples over independent units, for whatever metric can be taken apart into them.

A predictions table has a row an example, with columns `lang` and `split`. What else it has tells how its metrics are formed:

* word pairs (`correct`, `direction`, `identical`, `unseen`, `first`, `first_unseen`, `id`): the accuracies of retrieval, non-contextual ones by
  `correct_first`; a part is a direction;
* counts a sentence (`n_right`, `n_gold`, `n_predicted`, `n_tokens`, `n_tokens_right`): F1, precision, recall and accuracy as ratios of sums;
* counts of links a sentence (`n_right_sure`, `n_wrong` beside `n_right`, of possible links, `n_gold`, `n_predicted`): precision, recall and
  alignment error rate; F1 where all gold links are sure;
* `rank` and `direction`: mean reciprocal rank and precision at k; a unit is a query of a direction, linked to its `gold` translation, which is
  a query of the other one: both ask for the same entry of the dictionary, and what links hold together is one unit to the tests;
* `correct` and `direction`: `accuracy`, the mean of both directions;
* `label` and `predicted`: `accuracy`; a unit is a premise where the table has a column of that name, else an example;
* counts of pieces of a sentence at every point of a sweep (`shift_samples`): convert rate and BLEU-1;
* a column called as the metric itself (`f1`, `exact_match`): its mean over rows.

A unit is named by the first of `UNITS` that is a column. A group of examples (a premise, a context) has the number of its first example, so that the
same group has the same number in every language of a parallel set, however languages number theirs; all its examples are linked to it, so that
groups of two languages that share any example (as in MLQA, by the question's id) are one cluster to a test over both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from raxalign.analysis import shift_samples
from raxalign.analysis.runs import Sample

if TYPE_CHECKING:
    import pyarrow as pa

UNITS = ("unit", "context_id", "context", "paragraph", "premise_id", "premise", "sentence", "row", "id")
_GROUPS = {"context_id", "context", "paragraph", "premise_id", "premise"}  # of several examples, which `id` names
_PAIRS = {"correct", "direction", "identical", "unseen", "first", "first_unseen", "id"}
_DIRECTIONS = ("to_pivot", "from_pivot")
_RATIOS = {  # metric -> columns that are summed above and below the line
    "f1": (("n_right", "n_right"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right",), ("n_gold",)),
    "accuracy": (("n_tokens_right",), ("n_tokens",)),
}
_LINK_RATIOS = {
    "f1": (("n_right", "n_right_sure"), ("n_gold", "n_predicted")),
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right_sure",), ("n_gold",)),
    "alignment_error_rate": (("n_wrong",), ("n_gold", "n_predicted")),
}
_WORD_METRICS = ("contextual_accuracy", "noncontextual_accuracy")

Array = npt.NDArray[Any]


def sample(table: pa.Table, lang: str, metric: str, split: str) -> Sample | None:
    """What the predictions say about one metric of a language and split; None where it cannot be taken apart into units."""
    return samples(table, [(lang, metric, split)])[lang, metric, split]


def samples(table: pa.Table, wanted: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], Sample | None]:
    """The samples of several (lang, metric, split); each language's rows are looked up once."""
    import pyarrow.compute as pc

    found: dict[tuple[str, str, str], Sample | None] = dict.fromkeys(wanted)
    if not {"lang", "split"} <= set(table.column_names):
        return found
    if set(table.column_names) >= shift_samples.COLUMNS:
        return {name: shift_samples.shift_sample(table, *name) for name in found}
    for lang, split in dict.fromkeys((lang, split) for lang, _, split in found):
        part = table.filter(pc.and_(pc.equal(table["lang"], lang), pc.equal(table["split"], split)))
        if len(part):
            found |= {(a, metric, c): _sample(part, metric) for a, metric, c in found if (a, c) == (lang, split)}
    return found


def _sample(part: pa.Table, metric: str) -> Sample | None:
    """One metric of the rows of one language and split."""
    import pyarrow.compute as pc

    if set(part.column_names) >= _PAIRS and metric.startswith(_WORD_METRICS):
        return _word_pairs(part, metric)
    ratios = _LINK_RATIOS if "n_right_sure" in part.column_names else _RATIOS
    if metric in ratios and {column for side in ratios[metric] for column in side} <= set(part.column_names):
        above, below = (np.stack([_column(part, column) for column in side]).sum(0).astype(np.float64) for side in ratios[metric])
        return _summed(_units(part), _models(part), above, below)
    if "direction" in part.column_names:
        return _directed(part, metric)
    if metric in part.column_names:
        return _grouped(part, _column(part, metric).astype(np.float64), np.ones(len(part)))
    if metric == "accuracy" and {"label", "predicted"} <= set(part.column_names):
        right = pc.equal(part["label"], part["predicted"]).to_numpy(zero_copy_only=False).astype(np.float64)
        return _grouped(part, right, np.ones(len(part)))
    return None


def _directed(table: pa.Table, metric: str) -> Sample | None:
    """Metrics that are the mean of both directions, or that of one."""
    direction = next((entry for entry in _DIRECTIONS if metric.endswith(f"_{entry}")), None)
    name = metric.removesuffix(f"_{direction}") if direction else metric
    directions = _column(table, "direction")
    chosen = directions == direction if direction else np.ones(len(table), dtype=bool)
    if "rank" in table.column_names and "query" in table.column_names:
        rank, cut = _column(table, "rank").astype(np.float64), re.fullmatch(r"precision_at_(\d+)", name)
        if name != "mrr" and cut is None:
            return None
        gains = 1.0 / rank if cut is None else (rank <= int(cut[1])).astype(np.float64)
        units, links = _asked(table, directions, "query"), None
        if "gold" in table.column_names:
            # The best of several translations differs between methods: what hangs together is known only where samples are compared.
            links = np.stack([units, _asked(table, np.where(directions == _DIRECTIONS[0], _DIRECTIONS[1], _DIRECTIONS[0]), "gold")], axis=1)
    elif name == "accuracy" and "correct" in table.column_names:
        gains, units, links = _column(table, "correct").astype(np.float64), _units(table), None
    else:
        return None
    return _summed(units[chosen], directions[chosen], gains[chosen], np.ones(int(chosen.sum())), links)


def _asked(table: pa.Table, directions: Array, column: str) -> Array:
    """The numbers of words as queries of directions: the words of two languages are never the same."""
    return _numbered(np.char.add(np.char.add(directions.astype(str), "/"), _column(table, column).astype(str)))


def _word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Retrieval's accuracies from its flags, as its task forms them."""
    direction = next((entry for entry in _DIRECTIONS if metric.endswith(f"_{entry}")), None)
    name = metric.removesuffix(f"_{direction}") if direction else metric
    with_seen = name.endswith("_all")
    if name.removesuffix("_all") not in _WORD_METRICS:
        return None
    correct, names = ("correct", ("identical", "unseen")) if name.startswith("contextual") else ("correct_first", ("first", "first_unseen"))
    if correct not in table.column_names:
        return None
    flags = {column: _column(table, column).astype(bool) for column in (correct, *names)}
    if correct == "correct":
        chosen = ~flags["identical"] if with_seen else ~flags["identical"] & flags["unseen"]
    else:
        chosen = flags["first"] if with_seen else flags["first_unseen"]
    directions = _column(table, "direction")
    if direction:
        chosen &= directions == direction
    if not chosen.any():
        return None
    return _summed(_units(table)[chosen], directions[chosen], flags[correct][chosen].astype(np.float64), np.ones(int(chosen.sum())))


def _summed(units: Array, parts: Array, gains: Array, counts: Array, links: Array | None = None) -> Sample:
    """Sums of gains and counts by part and unit."""
    names, unit = np.unique(units, return_inverse=True)
    kinds, part = np.unique(parts, return_inverse=True)
    cells, shape = part * len(names) + unit, (len(kinds), len(names))
    above, below = (np.bincount(cells, values, shape[0] * shape[1]).reshape(shape).astype(np.float64) for values in (gains, counts))
    return Sample(names.astype(np.int64), above, below, links=links)


def _grouped(table: pa.Table, gains: Array, counts: Array) -> Sample:
    """Sums over the units of a table, a part for each model."""
    units = _units(table)
    return _summed(units, _models(table), gains, counts, _links(table, units))


def _units(table: pa.Table) -> Array:
    """A number for each row's unit, the same in every table."""
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
    """What links the examples of a group to its number; None where each stands for itself."""
    if "id" not in table.column_names or not _GROUPS & set(table.column_names):
        return None
    examples = _numbers(table, "id")
    links = np.unique(np.stack([units, examples], axis=1)[units != examples], axis=0)
    return links if len(links) else None


def _numbers(table: pa.Table, name: str) -> Array:
    values = _column(table, name)
    return values if np.issubdtype(values.dtype, np.integer) else _numbered(values.astype(str))


def _numbered(values: Array) -> Array:
    """A number for each text: the first 63 bits of its hash."""
    texts, places = np.unique(values, return_inverse=True)
    hashes = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1 for text in texts]
    return np.array(hashes, dtype=np.int64)[places]


def _models(table: pa.Table) -> Array:
    """The part of each row: the pivot may be scored by a model a language, and its value is then the mean over models."""
    if "toward" not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    return np.array([entry or "" for entry in table["toward"].to_pylist()])


def _column(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].to_numpy(zero_copy_only=False))
