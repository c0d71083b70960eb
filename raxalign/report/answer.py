"""The answer of a grid in one sentence, from its comparisons, and what became of its claims."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raxalign.analysis.cells import MEANS, Cell, compared_mean, mean_name
from raxalign.analysis.language_sample import FEW_LANGUAGES
from raxalign.measured import spoken
from raxalign.plan.plan import Plan
from raxalign.plan.values.claims import BEFORE, ClaimTest, JudgedClaim
from raxalign.plan.values.comparisons import LEFT, Compared, baseline_cells, comparisons
from raxalign.plan.values.predictions import MOST_EVALUATIONS
from raxalign.plan.values.results import rows
from raxalign.report.cells.choice import dev_of
from raxalign.report.cells.names import named
from raxalign.report.cells.numbers import NumberFormat, signed, unit_of
from raxalign.report.cells.results import Results, TableKey, table_of
from raxalign.store.ledger import Ledger

_MOST_TASKS = 3  # those after the main one; more of them are counted together


@dataclass(frozen=True)
class LanguageTally:
    """What the comparisons of one cell in one table say: in how many languages its values are
    better, worse, and compared at all. `whole` is the comparison of the mean over languages, or of
    the only language; `untested` says why nothing is tested, where that is so.
    """

    table: TableKey
    better: int
    worse: int
    languages: tuple[str, ...]
    whole: Compared | None
    at_chance: int
    untested: str

    @property
    def significant(self) -> int:
        """The languages in which the difference is significant."""
        return self.better + self.worse

    @property
    def where(self) -> str:
        """The task with its metric."""
        task, metric, split = self.table
        return f"{task} ({spoken(metric)}{'' if split == 'test' else ', dev set'})"

    @property
    def span(self) -> str:
        """The only language, or how many there are."""
        many = len(self.languages)
        if many == 1:
            return f"for {self.languages[0]}"
        sample = self.whole.over_languages if self.whole is not None else None
        # too few for a statement on languages like these, which are named instead
        few = sample is not None and sample.untested == FEW_LANGUAGES
        named = f" ({', '.join(self.languages)})" if few else ""
        return f"{many} languages{named}"


def answer(compared: Sequence[Compared], results: Results) -> str:
    """Return one sentence on what the grid shows, and on how little where it shows little.

    It is about the point that the development set chooses by the main task: the first task of the
    grid that is compared with a baseline over enough examples.
    """
    if not results.cells:
        return "No results yet."
    tables = compared_tables(compared, results)
    if not tables:
        return _uncompared(results, left=any(f.untested == LEFT for f in compared))
    system, how = leader(results, compared, tables[0])
    main, *others = (_tally(compared, results, system, table) for table in tables)
    assert main.whole is not None or main.languages, "the leader is compared in the main table"
    cells = {id(found.cell): found.cell for found in compared}.values()
    name = named(system, results.plan)
    if system.sentences and len({cell.sentences for cell in cells} - {None}) > 1:
        name += f" with {system.sentences:,} pairs"
    name += f" on {system.encoder}" if len({cell.encoder for cell in cells}) > 1 else ""
    name += f" ({how})" if how else ""
    clauses = _others([tally for tally in others if tally.languages])
    unseen = _tally(compared, results, system, tables[0], unseen=True)
    if unseen.languages and unseen.languages != main.languages:
        clauses.append(_on_unseen(unseen, results.unit(*tables[0][:2])))
    left = [f.name[1] for f in compared if f.cell is system and f.untested == LEFT]
    if alone := [lang for lang in dict.fromkeys(left) if lang in system.unseen]:
        clauses.append(f"it leaves what was not aligned as it is ({', '.join(alone)})")
    return "; ".join([_main(name, main, results.unit(*main.table[:2])), *clauses]) + "."


def stored_answer(plan: Plan, ledger: Ledger) -> str:
    """Return the answer of a ledger's results; nothing where there are none, or too many."""
    found = rows(plan, ledger)
    if not found or len({row["evaluation"] for row in found}) > MOST_EVALUATIONS:
        return ""
    results = Results.of(found, plan)
    return answer(comparisons(results.cells, plan, ledger), results)


def compared_tables(compared: Sequence[Compared], results: Results) -> list[TableKey]:
    """Return the table that stands for each task (`Results.leading`), where it has comparisons."""
    there: dict[TableKey, set[str]] = {}
    for found in compared:
        if found.baseline is not None and found.baseline is not found.cell:
            there.setdefault(table_of(found.name), set()).add(found.name[1])
    alone = {results.plan.pivot}  # of a task for other languages, which are left as they are
    return [
        table
        for table in results.leading_tables()
        if there.get(table) and not (there[table] == alone and results.transferred(table))
    ]


def leader(results: Results, compared: Sequence[Compared], table: TableKey) -> tuple[Cell, str]:
    """Return the compared cell with the best mean on dev, and how it was chosen, in words."""
    task, metric, split = table
    own = [f for f in compared if f.baseline is not None and table_of(f.name) == table]
    cells = list({id(found.cell): found.cell for found in own}.values())
    if len(cells) == 1:
        return cells[0], ""
    best = max(cells, key=lambda cell: dev_of(results, cell, task, metric))
    if dev_of(results, best, task, metric) > -math.inf:
        name = mean_name(best, *table)
        # dev and test share the seeds of the runs that both are values of
        chance = name is not None and any(s is not None for s in best.by_seed.get(name, ()))
        how = f"the best of {len(cells)} on dev"
        return best, how + (", chosen by the tested runs" if chance else "")
    measured = [cell for cell in cells if mean_name(cell, *table)] or cells
    gains = {
        id(found.cell): (found.difference or 0.0) * found.measured.sign
        for found in compared
        if found.name == compared_mean(found.cell, *table)
    }
    best = max(measured, key=lambda cell: gains.get(id(cell), -math.inf))
    return best, f"the best of {len(cells)} on {split} itself, which is optimistic"


def _tally(
    compared: Sequence[Compared],
    results: Results,
    system: Cell,
    table: TableKey,
    *,
    unseen: bool = False,
) -> LanguageTally:
    of_cell = [
        found
        for found in compared
        if found.cell is system and found.baseline is not None and table_of(found.name) == table
    ]
    single = [found for found in of_cell if found.name[1] not in MEANS]
    others = [found for found in single if found.name[1] != results.plan.pivot] or single
    asked = [found for found in others if (found.name[1] in system.unseen) == unseen]
    transferred = asked if asked or unseen else others  # a task may be for unseen ones alone
    mean = (table[0], "avg_unseen", *table[1:]) if unseen else mean_name(system, *table)
    tests = [found.comparison for found in transferred if found.comparison is not None]
    untested = [] if any(test.p is not None for test in tests) else transferred
    return LanguageTally(
        table,
        sum(found.verdict == "better" for found in transferred),
        sum(found.verdict == "worse" for found in transferred),
        tuple(found.name[1] for found in transferred),
        next((found for found in of_cell if found.name == mean), None),
        sum(found.at_chance for found in transferred),
        next((found.untested for found in untested), ""),
    )


def _main(name: str, tally: LanguageTally, unit: NumberFormat) -> str:
    """The clause on the main task."""
    found, many = tally.whole, len(tally.languages)
    base = found.baseline.method if found is not None and found.baseline else "the baseline"
    if tally.untested:
        why = f"not tested ({tally.untested})"
        difference = None if found is None else found.difference
        if difference is None:
            return f"{name} is compared with {base} in {tally.where}, but {why}"
        side = "above" if difference > 0 else "below" if difference else "apart from"
        by = f"{unit.show(abs(difference))}{' points' if unit.sign else ''}"
        span = tally.span if many == 1 else f"on average over {tally.span}"
        return f"{name} is {by} {side} {base} in {tally.where} {span}, which is {why}"
    if tally.better and tally.worse:
        clause = (
            f"{name} is better than {base} in {tally.where} in {tally.better} of {many} languages"
            f" and worse in {tally.worse}"
        )
    elif tally.significant:
        verb = "beats" if tally.better else "is worse than"
        among = tally.span if many == 1 else f"in {tally.significant} of {tally.span}"
        clause = f"{name} {verb} {base} in {tally.where} {among}"
    else:
        span = tally.span if many == 1 else f"in any of {tally.span}"
        clause = (
            f"There is no significant difference between {name} and {base} in {tally.where} {span}"
        )
    return clause + _by(tally, unit)


def _on_unseen(tally: LanguageTally, unit: NumberFormat) -> str:
    """The clause on the languages that no method has aligned, in the main task."""
    many, named = len(tally.languages), ", ".join(tally.languages)
    where = f"{many} languages that were" if many > 1 else "a language that was"
    start = f"in {where} not aligned ({named}) "
    if tally.untested:
        return f"{start}nothing is tested ({tally.untested})"
    counts = (("better", tally.better), ("worse", tally.worse))
    parts = [f"{verdict} in {count}" for verdict, count in counts if count]
    return f"{start}it is {' and '.join(parts) or 'not significantly different'}{_by(tally, unit)}"


def _by(tally: LanguageTally, unit: NumberFormat) -> str:
    """By how much: the difference of the mean over languages with its interval."""
    found = tally.whole
    test = found.comparison if found is not None else None
    if found is None or test is None or test.low is None or test.high is None:
        return ""
    average = " on average" if len(tally.languages) > 1 else ""
    points = " points" if unit.sign else ""
    difference, low, high = test.difference, test.low, test.high
    one_way = bool(tally.better) != bool(tally.worse)
    if one_way and found.verdict == ("better" if tally.better else "worse"):
        if difference < 0:
            difference, low, high = -difference, -high, -low
        shown = unit.show(difference), unit.show(low), unit.show(high)
        like = _for_languages_like_these(found, unit, flipped=test.difference < 0)
        return f", by {shown[0]}{points}{average} (95 %: {shown[1]} to {shown[2]}{like})"
    bounds = [signed(value * unit.scale, unit.decimals) for value in (low, high)]
    like = _for_languages_like_these(found, unit, flipped=None)
    text = f"{unit.show_difference(difference)}{points} (95 %: {bounds[0]} to {bounds[1]}{like})"
    chance = ""
    if found.verdict == "no difference":
        chance = f", {found.says}"
    elif found.verdict == "not after correction":
        chance = ", not significant after correction"
    elif bool(tally.significant) != found.is_significant:
        chance = ", which may be chance" if tally.significant else ", which is significant"
    return f"; the difference{average} is {text}{chance}"


def _for_languages_like_these(found: Compared, unit: NumberFormat, *, flipped: bool | None) -> str:
    """The interval of a mean difference where its languages are a sample; `flipped` says whether
    the difference is shown without its minus (None: all numbers are shown with their signs).
    """
    sample = found.over_languages
    if sample is None or sample.low is None or sample.high is None:
        return ""
    low, high = (-sample.high, -sample.low) if flipped else (sample.low, sample.high)
    signs = flipped is None or low < 0
    shown = unit.show_difference if signs else unit.show
    return f"; for languages like these {shown(low)} to {shown(high)}"


def _others(tallies: Sequence[LanguageTally]) -> list[str]:
    """The clauses on the other tasks; many of them are counted together."""
    better, worse = sum(t.better for t in tallies), sum(t.worse for t in tallies)
    if len(tallies) > _MOST_TASKS:
        every, tasks = sum(len(t.languages) for t in tallies), f"in the other {len(tallies)} tasks"
        if not better and not worse:
            return [f"{tasks} 0 of {every} differences are significant"]
        return [
            f"{tasks} it is better in {better} and worse in {worse} of {every} comparisons, and the"
            " others are not significant"
        ]
    clauses = []
    for tally in tallies:
        chance = f" (at chance in {tally.at_chance})" if tally.at_chance else ""
        counts = (("better", tally.better), ("worse", tally.worse))
        parts = [f"{verdict} in {count}" for verdict, count in counts if count]
        clause = f"it is {' and '.join(parts)} of {len(tally.languages)}"
        if tally.untested:
            clause = f"nothing is tested ({tally.untested})"
        elif not parts:
            whole = tally.whole
            mean = f", but the mean is {whole.verdict}" if whole and whole.is_significant else ""
            clause = f"0 of {len(tally.languages)} differences are significant{mean}"
        clauses.append(f"in {tally.where} {clause}{chance}")
    return clauses


def _uncompared(results: Results, *, left: bool) -> str:
    """What is said where nothing is compared, and why; `left` is whether methods leave some of the
    languages as they are.
    """
    if not results.leading_tables():
        return "Every result is over too few pairs for a conclusion."
    bases = baseline_cells(results.cells, results.plan)
    methods = {trial.method for trial in results.plan.trials}
    if len(bases) == len(results.cells) and methods > {base.method for base in bases}:
        why = f"so far only the baseline {bases[0].method} has results"
    elif len(bases) == len(results.cells):
        why = f"the grid has no method besides its baseline {bases[0].method}"
    elif not bases:
        why = "the grid has no baseline (a method of kind none)"
    elif left:
        why = "no method changes anything of the languages that the tasks are for"
    else:
        why = "no task of the grid has values of a method and of its baseline that compete"
    return f"Nothing is compared: {why}."


def claim_lines(judged: Sequence[JudgedClaim]) -> Iterator[str]:
    """Yield one line per claim."""
    for found in judged:
        tests = "; ".join(_claim_test(test, found) for test in found.tests)
        marked = "" if found.written == BEFORE else f" [{found.written}]"
        yield f"{found.says}: {found.claim.text}{f' ({tests})' if tests else ''}{marked}"


def _claim_test(test: ClaimTest, found: JudgedClaim) -> str:
    """Return the difference of one test with its interval, and which of several tests it is."""
    entry = test.entry
    unit = unit_of(entry.measured, [entry.value.mean])
    where = [entry.cell.encoder, f"{entry.cell.sentences:,} pairs" if entry.cell.sentences else ""]
    several = f"{', '.join(filter(None, where))}: " if len(found.tests) > 1 else ""
    if entry.difference is None or test.low is None or test.high is None:
        sample = entry.over_languages
        why = sample.untested if found.claim.over_languages and sample else entry.untested
        return f"{several}not tested: {why}"
    ends = f"{unit.show_difference(test.low)} to {unit.show_difference(test.high)}"
    p = "" if test.p is None else f", p {test.p:.4f}" if test.p >= 0.0001 else ", p <0.0001"
    seen, sample = "", entry.over_languages
    smallest = sample.detectable if found.claim.over_languages and sample else entry.detectable
    if found.verdict == "cannot tell" and smallest:
        seen = f", could see ≥ {unit.show(smallest)}"
    return f"{several}{unit.show_difference(entry.difference)}, 95 %: {ends}{p}{seen}"
