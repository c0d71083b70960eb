"""Methods ranked by the comparisons of all pairs of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import Cell, mean_name
from raxalign.analysis.ranks import Rank, groups, ranks
from raxalign.plan.values.comparisons import Compared
from raxalign.report.cells.results import table_of

FEWEST = 3


@dataclass(frozen=True)
class Ranking:
    """The cells of one encoder and number of sentences, best first, with the `ranks` of their means
    over languages (or in the only language) in one table, and the `groups` of neighbours of which
    no two differ, as places in this order. Which differ is what verdicts say, corrected over the
    `family` of so many comparisons.
    """

    cells: tuple[Cell, ...]
    ranks: tuple[Rank, ...]
    groups: tuple[tuple[int, ...], ...]
    family: int


def rankings(entries: Sequence[Compared], shown: Sequence[Compared] = ()) -> Iterator[Ranking]:
    """Yield the ranking of each encoder and number of sentences of one table whose pairs were all
    compared; fewer than three cells are not ranked. Pairs whose comparisons are `shown` next to the
    ranks differ where these say so, others where the verdict over all pairs does.
    """
    said = {_pair(entry): entry for entry in shown if entry.baseline is not None}
    family = sum(entry.tested for entry in entries)
    together: dict[tuple[str, int | None], list[Compared]] = defaultdict(list)
    for entry in entries:
        if entry.name == mean_name(entry.cell, *table_of(entry.name)):
            together[entry.cell.encoder, entry.cell.sentences].append(entry)
    for pairs in together.values():
        cells, values = _valued(pairs)
        if len(cells) < FEWEST or len(pairs) < len(cells) * (len(cells) - 1) / 2:
            continue
        ordered = sorted(zip(cells, values, strict=True), key=lambda one: -one[1])
        cells, values = [cell for cell, _ in ordered], [value for _, value in ordered]
        places = {id(cell): place for place, cell in enumerate(cells)}
        different = [e for e in pairs if said.get(_pair(e), e).is_significant]
        apart = {(places[id(e.cell)], places[id(e.baseline)]) for e in different}
        yield Ranking(
            tuple(cells),
            tuple(ranks(values, apart)),
            tuple(map(tuple, groups(values, apart))),
            family,
        )


def _valued(pairs: Sequence[Compared]) -> tuple[list[Cell], list[float]]:
    """The cells of some comparisons, and their values, of which larger ones are better."""
    cells: dict[int, Cell] = {}
    values: dict[int, float] = {}
    for entry in pairs:
        for cell in (entry.baseline, entry.cell):
            if cell is not None:
                cells[id(cell)] = cell
                values[id(cell)] = entry.measured.sign * cell.values[entry.name].mean
    return list(cells.values()), list(values.values())


def _pair(entry: Compared) -> tuple[object, ...]:
    """Two cells in whichever order, and the name of the value."""
    return frozenset((id(entry.cell), id(entry.baseline))), entry.name
