"""Comparisons with a baseline as rows for programs, and as tables for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raxalign.plan.names import cell_name
from raxalign.plan.values.comparisons import ONE_BY_ONE, Compared
from raxalign.report.cells.numbers import UNDECLARED, NumberFormat, heading_of, unit_of
from raxalign.report.cells.results import TableKey, table_of
from raxalign.report.terminal.fit import TextTable, fitted, paragraph

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

FIELDS = (
    *("cell", "method", "params", "encoder", "sentences", "task", "lang", "metric", "split"),
    *("better", "unit", "value", "low", "high", "runs", "examples"),
    *("baseline", "baseline_value", "baseline_runs"),
    *("difference", "difference_low", "difference_high", "p", "p_adjusted", "paired"),
    *("verdict", "reason", "at_chance", "falls_far", "outdated"),
)
_HEADS = ("method", "sentences", "lang")
_COLUMNS = ("value", "difference", "p (Holm)", "runs", "examples", "verdict")
_WORDS = frozenset({"method", "lang", "verdict"})
_LEGEND = (
    "In brackets 95 % intervals: both the runs and the examples are chance. p after Holm's"
    f" correction over all comparisons of a table; better and worse at 0.05. {ONE_BY_ONE} Runs: of"
    " the value / of the baseline."
)


def comparison_rows(compared: Sequence[Compared], plan: Plan) -> list[dict[str, Any]]:
    """Return one row (`FIELDS`) per comparison; values that have no baseline, the baselines' own
    among them, have none.

    `examples` are clusters that are taken for independent; `reason` says why there is no test.
    """
    rows = []
    for entry in compared:
        cell, base, found, around = entry.cell, entry.baseline, entry.comparison, entry.interval
        if base is None or entry.baseline_value is None:
            continue
        examples = found or around
        row = {
            "cell": cell_name(cell, plan),
            **{name: getattr(cell, name) for name in ("method", "params", "encoder", "sentences")},
            **dict(zip(("task", "lang", "metric", "split"), entry.name, strict=True)),
            "better": entry.measured.better,
            "unit": entry.measured.unit,
            "value": entry.value.mean,
            "low": around and around.low,
            "high": around and around.high,
            "runs": entry.value.n,
            "examples": examples and examples.examples,
            "baseline": cell_name(base, plan),
            "baseline_value": entry.baseline_value.mean,
            "baseline_runs": entry.baseline_value.n,
            "difference": entry.difference,
            "difference_low": found and found.low,
            "difference_high": found and found.high,
            "p": found and found.p,
            "p_adjusted": entry.p_adjusted,
            "paired": found and found.paired,
            "verdict": entry.verdict,
            "reason": entry.untested,
            **{name: getattr(entry, name) for name in ("at_chance", "falls_far", "outdated")},
        }
        rows.append({**row, "params": dict(cell.params)})
    return rows


def as_text(compared: Sequence[Compared], plan: Plan, *, width: int | None = None) -> str:
    """Return one table per task and metric, and what it is compared with, for a terminal: one line
    per cell and language. `width` are its columns; None leaves a table as wide as it is.
    """
    tables: dict[TableKey, list[Compared]] = defaultdict(list)
    for entry in compared:
        tables[table_of(entry.name)].append(entry)
    several = len({entry.cell.encoder for entry in compared}) > 1
    found: list[str] = []
    for (task, metric, split), entries in tables.items():
        measured = entries[0].measured
        unit = unit_of(measured, (entry.value.mean for entry in entries))
        bases = dict.fromkeys(cell_name(e.baseline, plan) for e in entries if e.baseline)
        what = f", against {' and '.join(bases)}"
        if not measured.declared:
            what = f": {UNDECLARED}"
        elif measured.better == "neither":
            what = ": neither higher nor lower is better, so nothing is compared"
        elif not bases:
            what = ": no baseline, so nothing is compared"
        means_last = sorted(entries, key=lambda entry: entry.name[1].startswith("avg"))
        lines = tuple(_line(entry, plan, unit, several=several) for entry in means_last)
        found += [
            *paragraph(f"{task}: {metric} ({split}){heading_of(measured)}{what}", width),
            *fitted(TextTable(_HEADS, _COLUMNS, lines, _WORDS), width),
            "",
        ]
    return "\n".join([*found, *paragraph(_LEGEND, width)]) + "\n"


def fallen_text(entries: Sequence[Compared], plan: Plan) -> list[str]:
    """Return a remark per cell and table on the values that fall far below the baseline's."""
    tables: dict[tuple[str, ...], list[Compared]] = defaultdict(list)
    for entry in entries:
        task, _, metric, split = entry.name
        size = f" with {entry.cell.sentences:,} pairs" if entry.cell.sentences else ""
        cell = f"{cell_name(entry.cell, plan)}{size}"
        tables[f"{task} ({metric}, {split})", cell, entry.cell.encoder].append(entry)
    told = []
    for (table, cell, _), of_table in tables.items():
        unit = unit_of(of_table[0].measured, (entry.value.mean for entry in of_table))
        values = (
            f"{entry.name[1]} {unit.show(entry.value.mean)} against"
            f" {unit.show(entry.baseline_value.mean)}"
            for entry in of_table
            if entry.baseline_value is not None
        )
        told.append(f"{cell} falls far below its baseline in {table}: {', '.join(values)}")
    return told


def _line(entry: Compared, plan: Plan, unit: NumberFormat, *, several: bool) -> tuple[str, ...]:
    cell, found, around = entry.cell, entry.comparison, entry.interval
    name = cell_name(cell, plan) + (f" [{cell.encoder}]" if several else "")
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
            p = f"{entry.p_adjusted:.4f}" if entry.p_adjusted >= 0.0001 else "<0.0001"
    facts = [
        entry.verdict or "",
        f"({entry.untested})" if entry.untested else "",
        "(at chance)" if entry.at_chance else "",
        "(falls far below)" if entry.falls_far else "",
        "(outdated readouts)" if entry.outdated else "",
    ]
    verdict = " ".join(fact for fact in facts if fact)
    return (name, size, entry.name[1], value, difference, p, runs, examples, verdict)
