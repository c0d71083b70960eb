"""Methods ranked by the comparisons of all pairs of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import Cell, mean_name
from raxalign.plan.values.comparisons import Compared
from raxalign.plan.values.scoreboard import table_of

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


@dataclass(frozen=True)
class Rank:
    """The rank of a method, from 1, by its value, and the `best` and the `worst` that it may have:
    with 95 % confidence, the true ranks of all methods lie within theirs at once.
    """

    rank: int
    best: int
    worst: int


def ranks(values: Sequence[float], apart: Collection[tuple[int, int]]) -> list[Rank]:
    """Return the rank of each method by its value, of which larger ones are better. A method may
    rank below all that differ from it for the better, and above all that differ for the worse
    (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for ranks"). Pairs that are `apart` differ
    significantly, corrected over all pairs.

    >>> ranks([0.9, 0.5, 0.4], {(0, 1), (0, 2)})
    [Rank(rank=1, best=1, worst=1), Rank(rank=2, best=2, worst=3), Rank(rank=3, best=2, worst=3)]
    """
    found = []
    for one, value in enumerate(values):
        others = [other for pair in apart if one in pair for other in pair if other != one]
        found.append(
            Rank(
                1 + sum(other > value for other in values),
                1 + sum(values[other] > value for other in others),
                len(values) - sum(values[other] < value for other in others),
            )
        )
    return found


def groups(values: Sequence[float], apart: Collection[tuple[int, int]]) -> list[list[int]]:
    """Return the largest groups of methods that follow each other by value, of which no two differ
    significantly: the bars of a critical-difference diagram (Demšar 2006), best method first.

    >>> groups([0.9, 0.5, 0.4], {(0, 1), (0, 2)})
    [[1, 2]]
    """
    order = sorted(range(len(values)), key=lambda one: -values[one])
    different = {frozenset(pair) for pair in apart}
    found: list[list[int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not any(
            frozenset((order[last + 1], one)) in different for one in order[first : last + 1]
        ):
            last += 1
        group = order[first : last + 1]
        if len(group) > 1 and not any(set(group) <= set(other) for other in found):
            found.append(group)
    return found
