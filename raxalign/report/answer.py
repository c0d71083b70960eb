"""The answer of a grid in one sentence, made from its comparisons: what beats the baseline in which
task, in how many languages, and by how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS, Cell, mean_name
from raxalign.analysis.metrics import spoken
from raxalign.plan.values.comparisons import Compared, baseline_cells, comparisons
from raxalign.plan.values.results import rows
from raxalign.report.cells.choice import dev_of
from raxalign.report.cells.names import named
from raxalign.report.cells.numbers import Unit, signed
from raxalign.report.cells.results import Results

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

Entry = tuple[str, str, str]
"""(task, metric, split)"""
_MOST_TASKS = 3  # those after the main one; more of them are counted together
_MOST_EVALUATIONS = 1_000  # whose predictions are read within seconds


@dataclass(frozen=True)
class Tally:
    """What the comparisons of one cell in one table say: in how many languages its values are
    better, worse, and compared at all. `whole` is the comparison of the mean over languages, or of
    the only language.
    """

    entry: Entry
    better: int
    worse: int
    languages: tuple[str, ...]
    whole: Compared | None
    at_chance: int = 0
    untested: str = ""

    @property
    def significant(self) -> int:
        """The languages in which the difference is significant."""
        return self.better + self.worse


def answer(compared: Sequence[Compared], results: Results) -> str:
    """Return one sentence on what the grid shows, and on how little where it shows little.

    It is about the point that the development set chooses by the main task: the first task of the
    grid that is compared with a baseline over enough examples.
    """
    if not results.cells:
        return "No results yet."
    tables = compared_tables(compared, results)
    if not tables:
        return _uncompared(results)
    system, how = leader(results, compared, tables[0])
    tallies = [_tally(compared, results, system, entry) for entry in tables]
    main = tallies[0]
    assert main.whole is not None or main.languages, "the leader is compared in the main table"
    name = _system(results, system, compared) + (f" ({how})" if how else "")
    rest = [tally for tally in tallies[1:] if tally.languages]
    clauses = [_main(name, main, results.unit(*main.entry[:2])), *_others(rest)]
    return "; ".join(clauses) + "."


def stored_answer(plan: Plan, ledger: Ledger) -> str:
    """Return the answer of the results in a ledger; nothing where there are none, or more than are
    read within seconds.
    """
    found = rows(plan, ledger)
    if not found or len({row["evaluation"] for row in found}) > _MOST_EVALUATIONS:
        return ""
    results = Results.of(found, plan)
    return answer(comparisons(results.cells, plan, ledger), results)


def compared_tables(compared: Sequence[Compared], results: Results) -> list[Entry]:
    """Return the table that stands for each task (`Results.leading`), where it has comparisons."""
    there = {
        (entry.name[0], *entry.name[2:])
        for entry in compared
        if entry.baseline is not None and entry.baseline is not entry.cell
    }
    leading = (results.leading(task) for task in results.tasks)
    return [entry for entry in leading if entry is not None and entry in there]


def leader(results: Results, compared: Sequence[Compared], entry: Entry) -> tuple[Cell, str]:
    """Return the cell with the best mean on dev among those that a table compares, and how it was
    chosen in words (empty where there was no choice).
    """
    task, metric, split = entry
    cells = list(
        {
            id(found.cell): found.cell
            for found in compared
            if found.baseline is not None and (found.name[0], *found.name[2:]) == entry
        }.values()
    )
    if len(cells) == 1:
        return cells[0], ""
    best = max(cells, key=lambda cell: dev_of(results, cell, task, metric))
    if dev_of(results, best, task, metric) > -math.inf:
        how = f"the best of {len(cells)} on dev"
        return best, how + (", chosen by the tested runs" if _has_chance(best, entry) else "")
    measured = [cell for cell in cells if mean_name(cell, *entry)] or cells
    good = {id(found.cell): _gain(found) for found in compared if _is_whole(found, entry)}
    best = max(measured, key=lambda cell: good.get(id(cell), -math.inf))
    return best, f"the best of {len(cells)} on {split} itself, which is optimistic"


def _has_chance(cell: Cell, entry: Entry) -> bool:
    """Whether the values of a cell depend on the seeds of its runs, which dev and test share."""
    name = mean_name(cell, *entry)
    return name is not None and any(seed is not None for seed in cell.by_seed.get(name, ()))


def _gain(found: Compared) -> float:
    """The difference to the baseline, turned so that more is better."""
    return (found.difference or 0.0) * found.measured.sign


def _is_whole(found: Compared, entry: Entry) -> bool:
    """Whether a comparison is that of the mean over languages in a table."""
    return found.name == mean_name(found.cell, *entry)


def _tally(compared: Sequence[Compared], results: Results, system: Cell, entry: Entry) -> Tally:
    of_cell = [
        found
        for found in compared
        if found.cell is system
        and found.baseline is not None
        and (found.name[0], *found.name[2:]) == entry
    ]
    single = [found for found in of_cell if found.name[1] not in MEANS]
    transferred = [found for found in single if found.name[1] != results.plan.pivot] or single
    whole = next((found for found in of_cell if _is_whole(found, entry)), None)
    untested = [] if any(_tested(found) for found in transferred) else transferred
    return Tally(
        entry,
        sum(found.verdict == "better" for found in transferred),
        sum(found.verdict == "worse" for found in transferred),
        tuple(found.name[1] for found in transferred),
        whole,
        sum(found.at_chance for found in transferred),
        next((found.untested for found in untested), ""),
    )


def _tested(found: Compared) -> bool:
    return found.comparison is not None and found.comparison.p is not None


def _system(results: Results, cell: Cell, compared: Sequence[Compared]) -> str:
    """The name of a cell, with its size and encoder where the grid has several."""
    others = {id(found.cell): found.cell for found in compared}.values()
    name = named(cell, results.plan)
    sizes = {other.sentences for other in others if other.sentences is not None}
    name += f" with {cell.sentences:,} pairs" if cell.sentences and len(sizes) > 1 else ""
    return name + (f" on {cell.encoder}" if len({o.encoder for o in others}) > 1 else "")


def _where(entry: Entry) -> str:
    task, metric, split = entry
    return f"{task} ({spoken(metric)}{'' if split == 'test' else ', dev set'})"


def _main(name: str, tally: Tally, unit: Unit) -> str:
    """The clause on the main task."""
    found = tally.whole
    many = len(tally.languages)
    base = found.baseline.method if found is not None and found.baseline else "the baseline"
    where = _where(tally.entry)
    if tally.untested:
        return _untested(name, base, where, tally, unit)
    among = f"in {tally.better or tally.worse} of {many} languages"
    if many == 1:
        among = f"for {tally.languages[0]}"
    if tally.better and tally.worse:
        clause = (
            f"{name} is better than {base} in {where} in {tally.better} of {many} languages and"
            f" worse in {tally.worse}"
        )
    elif tally.significant:
        verb = "beats" if tally.better else "is worse than"
        clause = f"{name} {verb} {base} in {where} {among}"
    else:
        span = f"for {tally.languages[0]}" if many == 1 else f"in any of {many} languages"
        clause = f"There is no significant difference between {name} and {base} in {where} {span}"
    return clause + _by(tally, unit)


def _by(tally: Tally, unit: Unit) -> str:
    """By how much: the difference of the mean over languages with its interval."""
    found = tally.whole
    compared = found.comparison if found is not None else None
    if compared is None or compared.low is None or compared.high is None:
        return ""
    assert found is not None
    average = " on average" if len(tally.languages) > 1 else ""
    points = " points" if unit.sign else ""
    difference, low, high = compared.difference, compared.low, compared.high
    one_way = bool(tally.better) != bool(tally.worse)
    if one_way and found.verdict == ("better" if tally.better else "worse"):
        if difference < 0:
            difference, low, high = -difference, -high, -low
        shown = unit.show(difference), unit.show(low), unit.show(high)
        return f", by {shown[0]}{points}{average} (95 %: {shown[1]} to {shown[2]})"
    bounds = [signed(value * unit.scale, unit.decimals) for value in (low, high)]
    text = f"{unit.show_difference(difference)}{points} (95 %: {bounds[0]} to {bounds[1]})"
    if found.verdict == "not after correction":
        return f"; the difference{average} is {text}, not significant after correction"
    if bool(tally.significant) == found.is_significant:
        return f"; the difference{average} is {text}"
    chance = ", which is significant" if not tally.significant else ", which may be chance"
    return f"; the difference{average} is {text}{chance}"


def _untested(name: str, base: str, where: str, tally: Tally, unit: Unit) -> str:
    """The clause on a main task of which nothing is tested."""
    found = tally.whole
    why = f"not tested ({tally.untested})"
    if found is None or found.difference is None:
        return f"{name} is compared with {base} in {where}, but {why}"
    side = "above" if found.difference > 0 else "below" if found.difference else "apart from"
    points = " points" if unit.sign else ""
    many = len(tally.languages)
    span = f"on average over {many} languages" if many > 1 else f"for {tally.languages[0]}"
    by = unit.show(abs(found.difference))
    return f"{name} is {by}{points} {side} {base} in {where} {span}, which is {why}"


def _others(tallies: Sequence[Tally]) -> list[str]:
    """The clauses on the other tasks; many of them are counted together."""
    if len(tallies) <= _MOST_TASKS:
        return [_other(tally) for tally in tallies]
    better, worse, every = (
        sum(numbers)
        for numbers in zip(
            *((tally.better, tally.worse, len(tally.languages)) for tally in tallies), strict=True
        )
    )
    if not better and not worse:
        return [f"in the other {len(tallies)} tasks 0 of {every} differences are significant"]
    return [
        f"in the other {len(tallies)} tasks it is better in {better} and worse in {worse} of"
        f" {every} comparisons, and the others are not significant"
    ]


def _other(tally: Tally) -> str:
    where, many = _where(tally.entry), len(tally.languages)
    chance = f" (at chance in {tally.at_chance})" if tally.at_chance else ""
    if tally.untested:
        return f"in {where} nothing is tested ({tally.untested}){chance}"
    if not tally.significant:
        whole = tally.whole
        mean = f", but the mean is {whole.verdict}" if whole and whole.is_significant else ""
        return f"in {where} 0 of {many} differences are significant{mean}{chance}"
    parts = [
        f"{verdict} in {count}"
        for verdict, count in (("better", tally.better), ("worse", tally.worse))
        if count
    ]
    return f"in {where} it is {' and '.join(parts)} of {many}{chance}"


def _uncompared(results: Results) -> str:
    """What is said where nothing is compared, and why."""
    if not any(results.leading(task) for task in results.tasks):
        return "Every result is over too few pairs for a conclusion."
    bases = baseline_cells(results.cells, results.plan)
    methods = {trial.method for trial in results.plan.trials}
    if len(bases) == len(results.cells) and methods > {base.method for base in bases}:
        why = f"so far only the baseline {bases[0].method} has results"
    elif len(bases) == len(results.cells):
        why = f"the grid has no method besides its baseline {bases[0].method}"
    elif not bases:
        why = "the grid has no baseline (a method of kind none)"
    else:
        why = "no task of the grid has values of a method and of its baseline that compete"
    return f"Nothing is compared: {why}."
