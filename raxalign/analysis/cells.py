"""Cells: what a table shows, the mean of a metric over seeds and, in ``each`` grids, languages."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from raxalign.lazy import special
from raxalign.measured import Declared
from raxalign.options.axes import Axis

Name = tuple[str, str, str, str]
"""(task, lang, metric, split)"""


MEANS = {
    "avg": "mean",
    "avg_zero_shot": "mean, zero-shot",
    "avg_unseen": "mean, unseen",
    "avg_all": "mean, all",
}
"""The names of means over languages -> what tables call them."""


@dataclass(frozen=True)
class Value:
    """A mean over `n` runs; `sd` is their standard deviation (None for a single one)."""

    mean: float
    sd: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Value:
        """Return the mean and the standard deviation (with n - 1) of the values of several runs.

        >>> Value.of([1.0, 2.0, 3.0])
        Value(mean=2.0, sd=1.0, n=3)
        """
        mean = math.fsum(values) / len(values)
        if len(values) < 2:
            return cls(mean, None, len(values))
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return cls(mean, math.sqrt(variance), len(values))

    def ends(self, scale: float) -> tuple[float, float] | None:
        """Return the ends of the 95 % interval of the mean over runs (Student's t), multiplied by a
        scale; None for a single run. It is for values whose examples are not stored.

        >>> [round(end, 1) for end in Value(0.5, 0.1, 4).ends(100) or ()]
        [34.1, 65.9]
        """
        if self.sd is None:
            return None
        half = float(special.stdtrit(self.n - 1, 0.975)) * self.sd / math.sqrt(self.n)
        return scale * (self.mean - half), scale * (self.mean + half)


@dataclass(frozen=True)
class Cell:
    """One line of a table: everything of a trial but its seed (and, in an ``each`` grid, its
    language), and its values.

    `values` maps (task, lang, metric, split) to a value; `lang` ``avg`` is the mean over the
    languages that were evaluated. `by_seed` has the values that each is the mean of (seed None: one
    that all seeds share), and `evaluations` where in the ledger they come from: several a seed for
    the pivot of an ``each`` grid. `unseen` are the languages that no method has aligned. `homes`
    are the languages that tasks were trained on, where that is not the pivot.
    """

    method: str
    params: Mapping[str, Any]
    encoder: str
    sentences: int | None
    trials: tuple[str, ...]
    values: Mapping[Name, Value]
    by_seed: Mapping[Name, Mapping[Any, float]] = field(default_factory=dict, repr=False)
    evaluations: Mapping[Name, Mapping[Any, tuple[str, ...]]] = field(
        default_factory=dict, repr=False
    )
    unseen: frozenset[str] = frozenset()
    homes: Mapping[str, str] = field(default_factory=dict)

    ALL_TARGETS: ClassVar = "avg_all"
    """The mean over all languages but the pivot, aligned or not, by which sets of languages
    compare.
    """
    SUGGESTED: ClassVar = "suggested"
    """What rows of a trial that a search suggested have under ``searched``."""
    CONFIRMED: ClassVar = "confirmed"
    """Likewise of a trial that runs a chosen point again with a fresh seed."""

    @classmethod
    def grouped(
        cls, rows: Iterable[Mapping[str, Any]], pivot: str, measured: Declared
    ) -> list[Cell]:
        """Group result rows into cells, in the order of their first rows.

        Means over languages are formed anew over all trials of a cell. Trials that a search
        suggested are left out: those that confirm the chosen ones are cells.

        Args:
            rows: The result rows.
            pivot: The pivot, which is not part of zero-shot means.
            measured: What is declared of metrics: counts and standard errors have no means.
        """
        groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        last: tuple[Any, str] = (None, "")  # rows come trial by trial, and a name is dear
        for row in rows:
            if row.get("searched") == Cell.SUGGESTED:
                continue
            facts = (row["method"], row["params"], row["encoder"], row["sentences"])
            if facts != last[0]:
                last = (facts, cls.key_of(*facts))
            groups[last[1]].append(row)
        return [_cell(group, pivot, measured) for group in groups.values()]

    @classmethod
    def of_trial(
        cls, rows: Iterable[Mapping[str, Any]], pivot: str, measured: Declared
    ) -> Cell | None:
        """Return the cell of the rows of one trial by itself, also of one that a search suggested,
        which `grouped` leaves out; None where it has no rows.
        """
        own = list(rows)
        return _cell(own, pivot, measured) if own else None

    @staticmethod
    def key_of(method: str, params: Mapping[str, Any], encoder: str, sentences: int | None) -> str:
        """Return what the rows of one cell, and its trials, have in common, as text."""
        return json.dumps([method, params, encoder, sentences], sort_keys=True)

    @property
    def key(self) -> str:
        """What its rows and its trials have in common."""
        return self.key_of(self.method, self.params, self.encoder, self.sentences)

    @property
    def set(self) -> str:
        """The name of the set of languages that was aligned; empty in a grid without sets."""
        return str(self.params.get(Axis.LANGUAGES, ""))

    def languages_of(self, name: Name, pivot: str) -> list[str]:
        """Return the language of a value, or those that a mean over languages is formed over: those
        of its task, metric and split, for `avg_zero_shot` without the one that the task was trained
        on; unseen ones have a mean of their own.
        """
        task, mean, metric, split = name
        if mean not in MEANS:
            return [mean]
        pivot = self.homes.get(task, pivot)
        found = [
            lang
            for t, lang, m, s in self.by_seed
            if (t, m, s) == (task, metric, split) and lang not in MEANS
        ]
        if mean == Cell.ALL_TARGETS:
            return [lang for lang in found if lang not in (pivot, f"{pivot}-{pivot}")]
        found = [lang for lang in found if (lang in self.unseen) == (mean == "avg_unseen")]
        return [lang for lang in found if mean != "avg_zero_shot" or lang != pivot]

    def runs_of(self, name: Name) -> int:
        """Return the number of training runs behind a value; 0 where every seed has the same."""
        return 0 if None in self.by_seed.get(name, ()) else self.values[name].n

    def names_of(self, table: tuple[str, str, str]) -> list[Name]:
        """Return the names of the values that the cell has in a table (task, metric, split)."""
        return [name for name in self.values if (name[0], name[2], name[3]) == table]

    def mean_name(self, task: str, metric: str, split: str) -> Name | None:
        """Return the name of the mean over languages: the zero-shot one where there is one, that of
        all, that of unseen ones where no other is there, or the only language there is.
        """
        for lang in ("avg_zero_shot", "avg", "avg_unseen"):
            if (task, lang, metric, split) in self.values:
                return (task, lang, metric, split)
        only = self.names_of((task, metric, split))
        return only[0] if len(only) == 1 else None

    def compared_mean(self, task: str, metric: str, split: str) -> Name | None:
        """Return the name of the mean by which cells are chosen among others: over all languages
        where the grid has several sets of them, whose other means are over different ones.
        """
        every = (task, Cell.ALL_TARGETS, metric, split)
        return every if every in self.values else self.mean_name(task, metric, split)

    @staticmethod
    def shared(named: Iterable[tuple[Cell, Name | None]], pivot: str) -> frozenset[str] | None:
        """Return the languages that all of some values, most of them means over languages, are
        over; None where they are over the same. Cells without a value are left out.
        """
        several = {
            frozenset(cell.languages_of(name, pivot))
            for cell, name in named
            if name is not None and name in cell.values
        }
        return frozenset.intersection(*several) if len(several) > 1 else None

    def mean(self, task: str, metric: str, split: str) -> Value | None:
        """Return the mean over languages by which cells are chosen."""
        name = self.compared_mean(task, metric, split)
        return self.values[name] if name is not None else None


def _cell(group: list[Mapping[str, Any]], pivot: str, measured: Declared) -> Cell:
    first = group[0]
    found: dict[Name, dict[Any, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in group:
        name = row["task"], row["lang"], row["metric"], row["split"]
        found[name][row["seed"]][row["evaluation"]] = row["value"]
    by_seed = {name: _apart(seeds) for name, seeds in found.items()}
    unseen = frozenset(row["lang"] for row in group if row.get("unseen"))
    asked = {row["task"]: row.get("task_params") or {} for row in group}
    homes = {task: str(own["train_on"]) for task, own in asked.items() if "train_on" in own}
    _average(
        by_seed,
        lambda task: homes.get(task, pivot),
        measured,
        unseen,
        several=Axis.LANGUAGES in first["params"],
    )
    return Cell(
        method=first["method"],
        params=first["params"],
        encoder=first["encoder"],
        sentences=first["sentences"],
        trials=tuple(dict.fromkeys(row["trial"] for row in group)),
        values={name: Value.of(list(seeds.values())) for name, seeds in by_seed.items() if seeds},
        by_seed={name: seeds for name, seeds in by_seed.items() if seeds},
        evaluations={
            name: {seed: tuple(keys) for seed, keys in seeds.items()}
            for name, seeds in found.items()
        },
        unseen=unseen,
        homes=homes,
    )


def _apart(seeds: Mapping[Any, Mapping[str, float]]) -> dict[Any, float]:
    """Seed -> value. In an ``each`` grid the pivot is scored by the model of every language: its
    value is the mean over them. Evaluations without chance, which all seeds share, count once.
    """
    means = {seed: math.fsum(values.values()) / len(values) for seed, values in seeds.items()}
    if len(seeds) > 1 and len({frozenset(values) for values in seeds.values()}) == 1:
        return {None: next(iter(means.values()))}
    return means


def _average(
    by_seed: dict[Name, dict[Any, float]],
    home: Callable[[str], str],
    measured: Declared,
    unseen: frozenset[str],
    *,
    several: bool,
) -> None:
    """Set the means over languages, seed by seed: ``avg`` over all, ``avg_zero_shot`` without the
    `home` of a task, the language that it was trained on, where that was evaluated too, and
    ``avg_unseen`` over those that neither counts. Where the grid has `several` sets of languages,
    ``avg_all`` is over all of them without the home.
    """
    families: dict[tuple[str, str, str], dict[str, dict[Any, float]]] = defaultdict(dict)
    for (task, lang, metric, split), seeds in by_seed.items():
        counted = measured(task, metric).role in ("count", "error")
        if not lang.startswith("avg") and not counted:
            families[task, metric, split][lang] = seeds
    for (task, metric, split), every in families.items():
        pivot = home(task)
        others = [seeds for lang, seeds in every.items() if lang in unseen]
        if others:
            by_seed[task, "avg_unseen", metric, split] = _means(others)
        targets = [
            seeds for lang, seeds in every.items() if lang not in (pivot, f"{pivot}-{pivot}")
        ]
        if several and len(targets) > 1:
            by_seed[task, Cell.ALL_TARGETS, metric, split] = _means(targets)
        langs = {lang: seeds for lang, seeds in every.items() if lang not in unseen}
        if len(langs) > 1:
            by_seed[task, "avg", metric, split] = _means(list(langs.values()))
        if pivot in langs and len(langs) > 1:
            transferred = [seeds for lang, seeds in langs.items() if lang != pivot]
            by_seed[task, "avg_zero_shot", metric, split] = _means(transferred)


def _means(languages: list[dict[Any, float]]) -> dict[Any, float]:
    """The mean over languages for each seed that all of them have."""
    shared = set.intersection(*(set(seeds) for seeds in languages))
    return {
        seed: math.fsum(seeds[seed] for seeds in languages) / len(languages)
        for seed in sorted(shared, key=str)
    }
