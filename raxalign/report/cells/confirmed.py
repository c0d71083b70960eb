"""What a grid's development sets chose, run again with fresh seeds.

Where dev and test are scored by the same training runs, a point that is the best of many on dev is
too good on test as well. Runs with other seeds have no part in the choice.
"""

from __future__ import annotations

from dataclasses import replace

from raxalign.errors import RaxalignError
from raxalign.plan.load import Opened, reopened
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.plan.values.results import rows
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.search.study import fresh_seeds


def confirmed(opened: Opened, seeds: int) -> Opened:
    """Return a finished grid as one of what it chose: for each task, encoder and number of
    sentences the point of each method with the best mean on dev, and the baseline, with as many
    fresh seeds. It is named `<name>-confirmed`.

    Raises `RaxalignError` where it is not finished, or its searches confirm their points.
    """
    grid, ledger = opened.grid, opened.storage.ledger
    methods = tuple(spec for spec in grid.methods if spec.searched is None)
    if len(methods) < len(grid.methods):
        raise RaxalignError(
            f"{grid.path}: --confirm is for grids without a search: a search runs its best points"
            " again by itself (`search.confirm`)"
        )
    results = Scoreboard.of(rows(opened.plan, ledger), opened.plan, ledger)
    if told := results.lacking.short:
        first = f"nothing can be chosen yet: run `raxalign grid {grid.path.name}` first"
        raise RaxalignError(f"{grid.path}: {first}. {told}")
    chosen = list(baseline_cells(results.cells, results.plan))
    for task in results.tasks:
        chosen += [points[0] for points in results.points_of_methods(task)]
    kept = len(grid.seeds) - 1
    fresh = fresh_seeds(grid.seeds, kept + seeds)[kept:]
    again = replace(grid, name=f"{grid.name}-confirmed", seeds=fresh)
    return reopened(replace(opened, grid=again, cells=frozenset(cell.key for cell in chosen)))
