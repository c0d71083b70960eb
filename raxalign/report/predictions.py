"""Stored predictions that analyses are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import MEANS, Cell
from raxalign.lazy import pa, pc
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.sample import of_layers
from raxalign.store.ledger import Ledger

MOST_METHODS = 6
MOST_LANGUAGES = 5


@dataclass(frozen=True)
class CellPredictions:
    """The predictions of one cell's first seed on test, by language pair."""

    cell: Cell
    tables: Mapping[str, pa.Table]


def shown_cells(results: Scoreboard, kind: str) -> tuple[str, list[Cell]]:
    """Return the grid's name of its first task of a kind, and the cells that its analyses show: at
    most `MOST_METHODS`, one per method. It is an empty name and no cells where the grid has no such
    task or no values of it.
    """
    task = results.of_kind(kind)
    metric = None if task is None else results.main_metric(task)
    if task is None or metric is None:
        return "", []
    return task, results.best_on_dev(MOST_METHODS, task, metric)


class StoredPredictions:
    """The stored predictions of one report; without a ledger there are none."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._kept: dict[str, pa.Table | None] = {}

    def of(
        self, cell: Cell, task: str, columns: set[str], *, keep: bool = False
    ) -> CellPredictions:
        """Read the predictions of a cell on a task that have the columns; with `keep` once."""
        keys: dict[str, list[str]] = {}  # of evaluations -> the language pairs that they have
        for (own, lang, _, split), seeds in cell.evaluations.items():
            known = any(lang in langs for langs in keys.values())
            if (own, split) == (task, "test") and lang not in MEANS and seeds and not known:
                keys.setdefault(seeds[min(seeds, key=str)][0], []).append(lang)
        tables: dict[str, pa.Table] = {}
        for key, langs in keys.items():
            table = self._kept.get(key)
            if table is None and self._ledger is not None:
                table = self._ledger.predictions(key)
            if keep:
                self._kept[key] = table
            if table is not None and columns | {"lang", "split"} <= set(table.column_names):
                table = of_layers(table)
                test = pc.equal(table["split"], "test")
                for lang in langs:
                    tables[lang] = table.filter(pc.and_(pc.equal(table["lang"], lang), test))
        shown = sorted(tables)[:MOST_LANGUAGES]
        return CellPredictions(cell, {lang: tables[lang] for lang in shown if len(tables[lang])})

    def of_all(self, cells: Sequence[Cell], task: str, columns: set[str]) -> list[CellPredictions]:
        """Read the predictions of those cells that have some; what is read is kept."""
        found = [self.of(cell, task, columns, keep=True) for cell in cells]
        return [entry for entry in found if entry.tables]

    def first(self, keys: Iterable[str]) -> pa.Table | None:
        """Return the predictions of the first of some evaluations that is stored and has any."""
        if self._ledger is None:
            return None
        found = (self._ledger.predictions(key) for key in keys if self._ledger.has(key))
        return next((table for table in found if table is not None), None)
