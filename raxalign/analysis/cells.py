"""Cells: what a table shows, the mean of a metric over seeds with its interval, and over the languages of an ``each`` grid."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Name = tuple[str, str, str, str]
"""(task, lang, metric, split)"""


@dataclass(frozen=True)
class Value:
    """A mean over `n` seeds; `half_width` is that of the 95 % t interval over seeds (None for a single one)."""

    mean: float
    half_width: float | None
    n: int


@dataclass(frozen=True)
class Cell:
    """One line of a table: everything of a trial but its seed (and, in an ``each`` grid, its language), and its values.

    `values` maps (task, lang, metric, split) to a value; `lang` ``avg`` is the mean over the languages that were evaluated. `by_seed` has the
    values that each is the mean of (seed None: one that all seeds share), and `evaluations` where in the ledger they come from: several a seed
    for the pivot of an ``each`` grid.
    """

    method: str
    params: Mapping[str, Any]
    encoder: str
    sentences: int | None
    trials: tuple[str, ...]
    values: Mapping[Name, Value]
    by_seed: Mapping[Name, Mapping[Any, float]] = field(default_factory=dict, repr=False)
    evaluations: Mapping[Name, Mapping[Any, tuple[str, ...]]] = field(default_factory=dict, repr=False)


def interval(values: list[float]) -> Value:
    """Mean and half width of the 95 % t interval.

    >>> round(interval([1.0, 2.0, 3.0]).half_width, 3)
    2.484
    """
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Value(mean, None, len(values))
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Value(mean, _quantile(len(values) - 1) * math.sqrt(variance / len(values)), len(values))


@cache
def _quantile(freedom: int) -> float:
    from scipy.special import stdtrit  # scipy.stats would start torch where that is a lazy stub

    return float(stdtrit(freedom, 0.975))


def cells(rows: Iterable[Mapping[str, Any]], pivot: str) -> list[Cell]:
    """Group result rows into cells, in the order of their first rows; means over languages are formed anew over all trials of a cell."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    last: tuple[Any, str] = (None, "")  # rows come trial by trial, and a name is dear
    for row in rows:
        facts = (row["method"], row["params"], row["encoder"], row["sentences"])
        if facts != last[0]:
            last = (facts, json.dumps(facts, sort_keys=True))
        groups[last[1]].append(row)
    return [_cell(group, pivot) for group in groups.values()]


def _cell(group: list[Mapping[str, Any]], pivot: str) -> Cell:
    first = group[0]
    found: dict[Name, dict[Any, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in group:
        found[row["task"], row["lang"], row["metric"], row["split"]][row["seed"]][row["evaluation"]] = row["value"]
    by_seed = {name: _apart(seeds) for name, seeds in found.items()}
    _average(by_seed, pivot)
    return Cell(
        method=first["method"],
        params=first["params"],
        encoder=first["encoder"],
        sentences=first["sentences"],
        trials=tuple(dict.fromkeys(row["trial"] for row in group)),
        values={name: interval(list(seeds.values())) for name, seeds in by_seed.items() if seeds},
        by_seed={name: seeds for name, seeds in by_seed.items() if seeds},
        evaluations={name: {seed: tuple(keys) for seed, keys in seeds.items()} for name, seeds in found.items()},
    )


def _apart(seeds: Mapping[Any, Mapping[str, float]]) -> dict[Any, float]:
    """Seed -> value. In an ``each`` grid the pivot is scored by the model of every language: its value is the mean over them. Evaluations
    without chance, which all seeds share, count once.
    """
    means = {seed: math.fsum(values.values()) / len(values) for seed, values in seeds.items()}
    if len(seeds) > 1 and len({frozenset(values) for values in seeds.values()}) == 1:
        return {None: next(iter(means.values()))}
    return means


def _average(by_seed: dict[tuple[str, str, str, str], dict[Any, float]], pivot: str) -> None:
    """Set the means over languages, seed by seed: ``avg`` over all, ``avg_zero_shot`` without the pivot where that was evaluated too."""
    families: dict[tuple[str, str, str], dict[str, dict[Any, float]]] = defaultdict(dict)
    for (task, lang, metric, split), seeds in by_seed.items():
        if not lang.startswith("avg") and not metric.endswith(("_pairs", "_stderr")):
            families[task, metric, split][lang] = seeds
    for (task, metric, split), langs in families.items():
        if len(langs) > 1:
            by_seed[task, "avg", metric, split] = _means(list(langs.values()))
        if pivot in langs and len(langs) > 1:
            others = [seeds for lang, seeds in langs.items() if lang != pivot]
            by_seed[task, "avg_zero_shot", metric, split] = _means(others)


def _means(languages: list[dict[Any, float]]) -> dict[Any, float]:
    """The mean over languages for each seed that all of them have."""
    shared = set.intersection(*(set(seeds) for seeds in languages))
    return {seed: math.fsum(seeds[seed] for seeds in languages) / len(languages) for seed in sorted(shared, key=str)}
