"""Reading the stored predictions that analyses are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS, Cell
from raxalign.report.cells.choice import best_on_dev
from raxalign.report.cells.results import Results

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.store.ledger import Ledger

MOST_METHODS = 6
MOST_LANGUAGES = 5


@dataclass(frozen=True)
class Asked:
    """The predictions of one cell's first seed on test, by language pair."""

    cell: Cell
    tables: Mapping[str, pa.Table]


def shown_cells(results: Results, kind: str) -> tuple[str, list[Cell]]:
    """Return the grid's task of a kind and the cells that its analyses show.

    Returns:
        The grid's name of its first task of the kind, and at most `MOST_METHODS` cells, one per
        method; an empty name and no cells where the grid has no such task or no values of it.
    """
    task = results.of_kind(kind)
    metric = None if task is None else results.main_metric(task)
    if task is None or metric is None:
        return "", []
    return task, best_on_dev(results, MOST_METHODS, task, metric)


class Predictions:
    """The stored predictions of one report; without a ledger there are none."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._read: dict[str, pa.Table | None] = {}

    def of(self, cell: Cell, task: str, columns: set[str]) -> Asked:
        """Read the predictions of a cell on a task, as far as they are there and have the
        columns.
        """
        return _asked(self._table, cell, task, columns)

    def of_all(self, cells: Sequence[Cell], task: str, columns: set[str]) -> list[Asked]:
        """Read the predictions of those cells that have some; what is read is kept, since several
        sections show the same cells.
        """
        found = [_asked(self._kept, cell, task, columns) for cell in cells]
        return [entry for entry in found if entry.tables]

    def _table(self, key: str) -> pa.Table | None:
        if key in self._read:
            return self._read[key]
        return self._ledger.predictions(key) if self._ledger is not None else None

    def _kept(self, key: str) -> pa.Table | None:
        self._read[key] = self._table(key)
        return self._read[key]


def _asked(
    read: Callable[[str], pa.Table | None], cell: Cell, task: str, columns: set[str]
) -> Asked:
    import pyarrow.compute as pc

    keys: dict[str, str] = {}
    for name, seeds in cell.evaluations.items():
        if name[0] == task and name[3] == "test" and name[1] not in MEANS and seeds:
            keys.setdefault(name[1], seeds[min(seeds, key=str)][0])
    tables: dict[str, pa.Table] = {}
    for key in dict.fromkeys(keys.values()):
        table = read(key)
        if table is not None and columns | {"lang", "split"} <= set(table.column_names):
            for lang in [lang for lang, other in keys.items() if other == key]:
                tables[lang] = table.filter(
                    pc.and_(pc.equal(table["lang"], lang), pc.equal(table["split"], "test"))
                )
    return Asked(
        cell, {lang: tables[lang] for lang in sorted(tables)[:MOST_LANGUAGES] if len(tables[lang])}
    )


def languages(asked: Sequence[Asked]) -> str:
    """Return the language pairs of the predictions, as captions name them."""
    return ", ".join(dict.fromkeys(lang for entry in asked for lang in entry.tables))
