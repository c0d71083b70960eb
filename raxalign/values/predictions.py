"""The runs behind a cell's values, from stored predictions; for means over languages too. How an
evaluation depends on chance is seen from the plan, and never from results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.significance import Runs
from raxalign.grid.metrics import by_language
from raxalign.grid.plan import Plan
from raxalign.lazy import pa, pc
from raxalign.measured import Measured
from raxalign.sample import Sample, of_layers
from raxalign.store.ledger import Ledger

if TYPE_CHECKING:
    from raxalign.analysis.significance import Interval

MOST_EVALUATIONS = 1_000
"""So many are read within seconds."""


@dataclass
class Predictions:
    """Reads the predictions of cells from a ledger (None: there are none)."""

    plan: Plan
    ledger: Ledger | None
    _known: dict[str, bool] = field(default_factory=dict)

    def has_chance(self, key: str) -> bool:
        """Check whether another seed would give another result of a stage. The encoder that a grid
        starts from and the word types seen in training do not count as chance: all runs share them.
        """
        if key not in self._known:
            stage = self.plan.stages[key]
            self._known[key] = stage.kind not in {"encoder", "seen"} and (
                "seed" in stage.params or any(map(self.has_chance, stage.inputs.values()))
            )
        return self._known[key]

    def runs(self, cell: Cell, names: Iterable[Name]) -> dict[Name, Runs]:
        """Return the runs of those values whose predictions are stored and can be taken apart. Each
        evaluation is read once.

        A value that its predictions do not give is left out. Raises `DamagedArtifact` for damaged
        predictions, which are set aside, so that the grid makes them again.
        """
        names = list(names)
        if self.ledger is None:
            return {}
        single = dict.fromkeys(
            part for name in names for part in _parts(cell, name, self.plan.pivot)
        )
        samples = self._samples(cell, single)
        found = {
            name: runs for name in single if (runs := self._single(cell, name, samples)) is not None
        }
        means = {name: self._mean(cell, name, found) for name in names if name[1] in MEANS}
        every: dict[Name, Runs | None] = {**found, **means}
        return {name: runs for name in names if (runs := every.get(name)) is not None}

    def alone(self, cell: Cell, names: Iterable[Name]) -> dict[Name, Interval | None]:
        """Return the 95 % intervals of a cell's values over examples, with its runs as they are."""
        from raxalign.analysis.significance import Interval

        found = self.runs(cell, names)
        return {name: Interval.of(runs, examples_alone=True) for name, runs in found.items()}

    def pairs_up(self, first: Cell, second: Cell, name: Name) -> bool:
        """Check whether two cells share their task's training, seed by seed, so that their runs are
        compared in pairs.
        """
        trained = []
        for part in _parts(first, name, self.plan.pivot):
            a, b = first.evaluations.get(part, {}), second.evaluations.get(part, {})
            shared = a.keys() & b.keys()
            trained += [(self._trained(a[seed]), self._trained(b[seed])) for seed in shared]
        return bool(trained) and all(a == b and None not in a for a, b in trained)

    def _trained(self, keys: Iterable[str]) -> frozenset[str | None]:
        return frozenset(self.plan.stages[key].inputs.get("trained") for key in keys)

    def _samples(self, cell: Cell, names: Iterable[Name]) -> dict[tuple[str, Name], Sample | None]:
        wanted: dict[str, set[Name]] = defaultdict(set)
        for name in names:
            for keys in cell.evaluations.get(name, {}).values():
                for key in keys:
                    wanted[key].add(name)
        found: dict[tuple[str, Name], Sample | None] = {}
        for key, asked in wanted.items():
            table = self.ledger.predictions(key) if self.ledger is not None else None
            if table is not None:
                found |= {(key, name): sample for name, sample in self._read(table, asked).items()}
        return found

    def _read(self, table: pa.Table, asked: Iterable[Name]) -> dict[Name, Sample | None]:
        """The samples of values of one evaluation, by its task or by the metric that was added."""
        added = {name: self.plan.added(name[0], name[2]) for name in sorted(asked)}
        task = self.plan.task(next(iter(added))[0])
        own = [name for name, metrics in added.items() if not metrics]
        reported = task.metrics if task is not None else ()
        samples = samples_of(reported, table, [name[1:] for name in own])
        found: dict[Name, Sample | None] = {name: samples.get(name[1:]) for name in own}
        if len(own) < len(added):
            rows = {(lang, split): part for lang, split, part in by_language(table)}
            for (name, lang, metric, split), metrics in added.items():
                if metrics and (lang, split) in rows:
                    found[name, lang, metric, split] = metrics[0].sample(rows[lang, split])
        return found

    def _single(
        self, cell: Cell, name: Name, samples: dict[tuple[str, Name], Sample | None]
    ) -> Runs | None:
        evaluations, chosen, chance = cell.evaluations.get(name, {}), {}, False
        for seed in cell.by_seed.get(name, {}):
            keys = evaluations[seed] if seed in evaluations else next(iter(evaluations.values()))
            several = [sample for key in keys if (sample := samples.get((key, name))) is not None]
            if len(several) < len(keys):
                return None
            chosen[seed] = several
            chance = chance or any(map(self.has_chance, keys))
        if not chosen:
            return None
        measured = self.plan.measured(name[0], name[2])
        return _as_told(cell, name, Runs.of(chosen, chance=chance, measured=measured))

    def _mean(self, cell: Cell, name: Name, found: dict[Name, Runs]) -> Runs | None:
        parts = [found.get(part) for part in _parts(cell, name, self.plan.pivot)]
        there = [part for part in parts if part is not None]
        return (
            _as_told(cell, name, Runs.mean_of(there))
            if there and len(there) == len(parts)
            else None
        )


def _as_told(cell: Cell, name: Name, runs: Runs) -> Runs | None:
    """Return the runs where their values are those of the table."""
    values = cell.by_seed.get(name, {})
    same = values.keys() == set(runs.seeds) and all(
        abs(values[seed] - value) < 1e-6
        for seed, value in zip(runs.seeds, runs.values, strict=True)
    )
    return runs if same else None


def _parts(cell: Cell, name: Name, pivot: str) -> list[Name]:
    """Return the names that a mean over languages is formed over; any other name is its own."""
    task, lang, metric, split = name
    return (
        [(task, part, metric, split) for part in cell.languages_of(name, pivot)]
        if lang in MEANS
        else [name]
    )


def samples_of(
    metrics: Sequence[Measured], predictions: pa.Table, wanted: Iterable[tuple[str, str, str]]
) -> dict[tuple[str, str, str], Sample | None]:
    """Return the samples of several (lang, metric, split) of an evaluation's predictions, as its
    task declares them: those at one of several layers by the rows of these. None where a metric has
    none, or there are no rows.
    """
    layered = "layers" in predictions.column_names

    @cache
    def of_lang(label: str, lang: str) -> pa.Table:
        return _where(of_layers(predictions, label), "lang", lang)

    found: dict[tuple[str, str, str], Sample | None] = {}
    for lang, metric, split in wanted:
        found[lang, metric, split] = None
        declared = Measured.find(metrics, metric)
        if declared is None or declared.sample is None:
            continue
        label, name = Measured.at_layers(metric) if layered else ("", metric)
        of_splits = of_lang(label, lang)
        rows = _where(of_splits, "split", split)
        if len(rows) and declared.on_dev and split != "dev":
            rows = pa.concat_tables([_where(of_splits, "split", "dev"), rows])
        found[lang, metric, split] = declared.sample(rows, name) if len(rows) else None
    return found


def _where(table: pa.Table, column: str, value: object) -> pa.Table:
    return table.filter(pc.equal(table[column], value))
