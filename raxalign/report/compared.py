"""Comparisons with a baseline as rows for programs and tables for people, and what is remarked on
each and on earlier looks at it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from raxalign.analysis.cells import Cell
from raxalign.grid.plan import Plan
from raxalign.printing import TextTable, paragraph
from raxalign.values.comparisons import MINIMUM, ONE_BY_ONE, Compared, look_lines
from raxalign.values.numbers import UNDECLARED, NumberFormat
from raxalign.values.scoreboard import TableKey, why_uncompared


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

    FEWEST: ClassVar = 3
    """Cells below which none is ranked."""

    @classmethod
    def of(cls, entries: Sequence[Compared], shown: Sequence[Compared] = ()) -> Iterator[Ranking]:
        """Yield the ranking of each encoder and number of sentences of one table whose pairs were
        all compared; fewer than three cells, and means over different languages, are not ranked.
        Pairs whose comparisons are `shown` next to the ranks differ where these say so, others
        where the verdict over all pairs does.
        """
        said = {_pair(entry): entry for entry in shown if entry.baseline is not None}
        family = sum(entry.tested for entry in entries)
        together: dict[tuple[str, int | None], list[Compared]] = defaultdict(list)
        for entry in entries:
            if entry.name == entry.cell.compared_mean(*entry.table):
                together[entry.cell.encoder, entry.cell.sentences].append(entry)
        for pairs in together.values():
            cells, values = _valued(pairs)
            if any(entry.difference is None for entry in pairs):  # means over other languages
                continue
            if len(cells) < cls.FEWEST or len(pairs) < len(cells) * (len(cells) - 1) / 2:
                continue
            ordered = sorted(zip(cells, values, strict=True), key=lambda one: -one[1])
            cells, values = [cell for cell, _ in ordered], [value for _, value in ordered]
            places = {id(cell): place for place, cell in enumerate(cells)}
            different = [e for e in pairs if said.get(_pair(e), e).is_significant]
            apart = {(places[id(e.cell)], places[id(e.baseline)]) for e in different}
            yield cls(
                tuple(cells),
                tuple(ranks(values, apart)),
                tuple(map(tuple, groups(values, apart))),
                family,
            )


@dataclass(frozen=True)
class Rank:
    """The rank of a method, from 1, by its value, and the `best` and the `worst` that it may have:
    with 95 % confidence, the true ranks of all methods lie within theirs at once.
    """

    rank: int
    best: int
    worst: int


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


_HEADS = ("method", "sentences", "lang")
_COLUMNS = ("value", "difference", "p (Holm)", "runs", "examples", "verdict")
_OVER = "generalising to new languages"
_WORDS = frozenset({"method", "lang", "verdict"})
_LEGEND = (
    "Brackets give 95 % confidence intervals that treat both training runs and test examples as"
    " random. p after Holm's correction over all comparisons of a table; better and worse at 0.05."
    f" {ONE_BY_ONE} Runs: of the value / of the baseline. MDE, the {MINIMUM}: four of five such"
    " comparisons would find a true difference of this size. “=”: equal in each example of each"
    " run, and not tested."
)
_OVER_LEGEND = (
    f" “{_OVER.capitalize()}”: the interval and p of the mean difference where these languages are"
    " a sample, which is not corrected."
)


@dataclass(frozen=True)
class ComparisonTables:
    """Comparisons as rows for programs (`FIELDS`) and as tables for a terminal."""

    compared: Sequence[Compared]
    plan: Plan

    FIELDS: ClassVar = Compared.FIELDS

    @property
    def all_pairs(self) -> bool:
        """Whether cells are compared with several others each, and not with one baseline."""
        return all_pairs(self.compared)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row (`FIELDS`) per comparison; values that have no baseline, the baselines'
        own among them, have none.
        """
        return [entry.row(self.plan) for entry in self.compared if entry.baseline is not None]

    def fallen(self) -> list[str]:
        """Return a remark per cell and table on values that fall far below the baseline's."""
        tables: dict[tuple[str, ...], list[Compared]] = defaultdict(list)
        for entry in self.compared:
            task, _, metric, split = entry.name
            size = f" with {entry.cell.sentences:,} pairs" if entry.cell.sentences else ""
            cell = f"{self.plan.cell_name(entry.cell)}{size}"
            tables[f"{task} ({metric}, {split})", cell, entry.cell.encoder].append(entry)
        told = []
        for (table, cell, _), of_table in tables.items():
            unit = NumberFormat.of(of_table[0].measured, (entry.value.mean for entry in of_table))
            values = (
                f"{entry.name[1]} {unit.show(entry.value.mean)} against"
                f" {unit.show(entry.baseline_value.mean)}"
                for entry in of_table
                if entry.baseline_value is not None
            )
            told.append(f"{cell} falls far below its baseline in {table}: {', '.join(values)}")
        return told

    def text(self, *, width: int | None = None, over_languages: bool = False) -> str:
        """Return one table per task and metric, and what it is compared with, for a terminal: one
        line per cell and language. Without a `width` a table is as wide as it is; with
        `over_languages` a column has the interval of means for languages like these.
        """
        plan = self.plan
        tables: dict[TableKey, list[Compared]] = defaultdict(list)
        for entry in self.compared:
            tables[entry.table].append(entry)
        found: list[str] = []
        for (task, metric, split), entries in tables.items():
            head = f"{task}: {metric} ({split}){NumberFormat.heading(entries[0].measured)}"
            table = _table(entries, plan, over_languages=over_languages)
            found += [
                *paragraph(f"{head}{_against(entries, plan)}", width),
                *(line for text in look_lines(entries, plan) for line in paragraph(text, width)),
                *table.fitted(width),
                *(line for text in rank_lines(entries, plan) for line in paragraph(text, width)),
                "",
            ]
        legend = _LEGEND + (_OVER_LEGEND if over_languages else "")
        return "\n".join([*found, *paragraph(legend, width)]) + "\n"


def _against(entries: Sequence[Compared], plan: Plan) -> str:
    """What a table is compared with, as the end of its heading."""
    measured = entries[0].measured
    bases = plan.base_names([(e.cell, e.baseline) for e in entries if e.baseline])
    if not measured.declared:
        return f": {UNDECLARED}"
    if measured.better == "neither":
        return ": neither higher nor lower is better, so nothing is compared"
    if not bases:
        cells = list({id(entry.cell): entry.cell for entry in entries}.values())
        why = why_uncompared(plan, cells) or "no method has a value next to one of its baseline"
        return f", nothing is compared: {why}"
    return ", all pairs" if all_pairs(entries) else f", against {' and '.join(bases)}"


def _table(entries: Sequence[Compared], plan: Plan, *, over_languages: bool) -> TextTable:
    """The table of one metric, means last."""
    unit = NumberFormat.of(entries[0].measured, (entry.value.mean for entry in entries))
    several = len({entry.cell.encoder for entry in entries}) > 1
    pairs = all_pairs(entries)
    lines: list[tuple[str, ...]] = []
    for entry in sorted(entries, key=lambda entry: entry.name[1].startswith("avg")):
        *line, verdict = _line(entry, plan, unit, several=several, pairs=pairs)
        more = [_for_languages(entry, unit)] if over_languages else []
        lines.append((*line, *more, verdict))
    columns = (*_COLUMNS[:-1], *([_OVER] if over_languages else []), _COLUMNS[-1])
    return TextTable(_HEADS, columns, tuple(lines), _WORDS | {_OVER})


def all_pairs(compared: Sequence[Compared]) -> bool:
    """Return whether cells are compared with several others each, and not with one baseline."""
    return len({(id(entry.cell), entry.name) for entry in compared}) < len(compared)


def rank_lines(entries: Sequence[Compared], plan: Plan) -> Iterator[str]:
    """Yield the ranks of the cells of one table whose pairs were all compared, with intervals."""
    for found in Ranking.of(entries):
        told = zip(found.ranks, found.cells, strict=True)
        names = (f"{plan.cell_name(cell)} {_rank(rank)}" for rank, cell in told)
        first = found.cells[0]
        size = f", {first.sentences:,} pairs" if first.sentences else ""
        over = f"95 % confidence over all {found.family:,} comparisons of the table"
        yield f"ranks in these languages ({over}; {first.encoder}{size}): {', '.join(names)}"


def _rank(rank: Rank) -> str:
    sure = rank.best == rank.worst
    return f"{rank.rank}" if sure else f"{rank.rank} [{rank.best} to {rank.worst}]"


def _line(
    entry: Compared, plan: Plan, unit: NumberFormat, *, several: bool, pairs: bool
) -> tuple[str, ...]:
    cell, found, around = entry.cell, entry.comparison, entry.interval
    name = plan.cell_name(cell) + (f" [{cell.encoder}]" if several else "")
    if pairs and entry.baseline is not None:
        name += f" against {plan.cell_name(entry.baseline)}"
    size = f"{cell.sentences:,}" if cell.sentences is not None else ""
    value = unit.show(entry.value.mean)
    value += f" {unit.show_interval(around.low, around.high)}" if around else ""
    runs, examples = f"{entry.value.n}", f"{around.examples:,}" if around else ""
    difference = p = ""
    if entry.baseline_value is not None:
        runs, examples = (
            f"{runs} / {entry.baseline_value.n}",
            f"{found.examples:,}" if found else "",
        )
        difference = "" if entry.difference is None else unit.show_difference(entry.difference)
        if found is not None and found.low is not None and found.high is not None:
            bounds = (unit.show_difference(bound) for bound in (found.low, found.high))
            difference += f" [{', '.join(bounds)}]"
        if entry.p_adjusted is not None:
            p = _p(entry.p_adjusted)
    facts = [
        entry.says,
        f"({entry.untested})" if entry.untested and entry.verdict != "=" else "",
        "(at chance)" if entry.at_chance else "",
        "(falls far below)" if entry.falls_far else "",
        "(stale maps)" if entry.outdated else "",
    ]
    verdict = " ".join(fact for fact in facts if fact)
    return (name, size, entry.name[1], value, difference, p, runs, examples, verdict)


def _for_languages(entry: Compared, unit: NumberFormat) -> str:
    """The interval and p of a mean where its languages are a sample, or why there is none."""
    sample = entry.over_languages
    if sample is None:
        return ""
    if sample.low is None or sample.high is None or sample.p is None:
        return f"({sample.untested})"
    bounds = ", ".join(unit.show_difference(bound) for bound in (sample.low, sample.high))
    return f"[{bounds}], p {_p(sample.p)}"


def _p(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "<0.0001"
