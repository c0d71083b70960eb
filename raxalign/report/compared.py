"""Comparisons with a baseline as rows for programs, as CSV, and as tables for people."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raxalign.plan.names import cell_name
from raxalign.plan.values.comparisons import ONE_BY_ONE, Compared
from raxalign.report.cells.numbers import UNDECLARED, Unit, heading_of, unit_of
from raxalign.report.terminal.fit import Texts, fitted, paragraph

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan

FIELDS = (
    *("cell", "method", "params", "encoder", "sentences", "task", "lang", "metric", "split"),
    *("better", "unit"),
    *("value", "low", "high", "runs", "examples"),
    *(
        "baseline",
        "baseline_value",
        "baseline_runs",
        "difference",
        "difference_low",
        "difference_high",
    ),
    *("p", "p_adjusted", "paired", "verdict", "reason", "at_chance"),
    *("falls_far", "outdated"),
)


def comparison_rows(compared: Sequence[Compared], plan: Plan) -> list[dict[str, Any]]:
    """Return one row (`FIELDS`) per comparison; values that have no baseline, the baselines' own
    among them, have none.

    `examples` are clusters that are taken for independent; `reason` says why there is no test.
    """
    return [_row(entry, plan) for entry in compared if entry.baseline is not None]


def _row(entry: Compared, plan: Plan) -> dict[str, Any]:
    cell, found, around, against = (
        entry.cell,
        entry.comparison,
        entry.interval,
        entry.baseline_value,
    )
    assert entry.baseline is not None
    assert against is not None
    return {
        "cell": cell_name(cell, plan),
        "method": cell.method,
        "params": dict(cell.params),
        "encoder": cell.encoder,
        "sentences": cell.sentences,
        **dict(zip(("task", "lang", "metric", "split"), entry.name, strict=True)),
        **{name: getattr(entry.measured, name) for name in ("better", "unit")},
        "value": entry.value.mean,
        "low": around and around.low,
        "high": around and around.high,
        "runs": entry.value.n,
        "examples": found.examples if found else around and around.examples,
        "baseline": cell_name(entry.baseline, plan),
        "baseline_value": against.mean,
        "baseline_runs": against.n,
        "difference": entry.difference,
        "difference_low": found and found.low,
        "difference_high": found and found.high,
        "p": found and found.p,
        "p_adjusted": entry.p_adjusted,
        "paired": found and found.paired,
        "verdict": entry.verdict,
        "reason": entry.untested,
        "at_chance": entry.at_chance,
        "falls_far": entry.falls_far,
        "outdated": entry.outdated,
    }


def comparisons_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV with a header; params as JSON, absent values empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(FIELDS)
    for row in rows:
        writer.writerow(
            [
                (
                    json.dumps(row[name], ensure_ascii=False)
                    if isinstance(row[name], dict)
                    else row[name]
                )
                for name in FIELDS
            ]
        )
    return text.getvalue()


def as_text(compared: Sequence[Compared], plan: Plan, *, width: int | None = None) -> str:
    """Return one table per task and metric for a terminal: one line per cell and language, the
    baselines too. `width` are the columns of the terminal; None leaves a table as wide as it is.
    """
    tables: dict[tuple[str, str, str], list[Compared]] = defaultdict(list)
    for entry in compared:
        tables[entry.name[0], entry.name[2], entry.name[3]].append(entry)
    several = len({entry.cell.encoder for entry in compared}) > 1
    found: list[str] = []
    for name, entries in tables.items():
        unit = unit_of(entries[0].measured, (entry.value.mean for entry in entries))
        lines = [
            _line(entry, plan, unit, several=several)
            for entry in sorted(entries, key=lambda entry: entry.name[1].startswith("avg"))
        ]
        found += [
            *paragraph(_heading(name, entries, plan), width),
            *fitted(Texts(_HEADS, _COLUMNS, tuple(lines), _WORDS), width),
            "",
        ]
    return "\n".join([*found, *paragraph(_LEGEND, width)]) + "\n"


def fallen_text(entries: Sequence[Compared], plan: Plan) -> list[str]:
    """Return a remark per cell and table on the values that fall far below those of the baseline,
    tested or not.
    """
    tables: dict[tuple[str, ...], list[Compared]] = defaultdict(list)
    for entry in entries:
        task, _, metric, split = entry.name
        size = f" with {entry.cell.sentences:,} pairs" if entry.cell.sentences else ""
        cell = f"{cell_name(entry.cell, plan)}{size}"
        tables[f"{task} ({metric}, {split})", cell, entry.cell.encoder].append(entry)
    return [
        f"{cell} falls far below its baseline in {table}: "
        + ", ".join(
            f"{entry.name[1]} {unit.show(entry.value.mean)} against"
            f" {unit.show(entry.baseline_value.mean)}"
            for entry in of_table
            if entry.baseline_value is not None
        )
        for (table, cell, _), of_table in tables.items()
        for unit in [unit_of(of_table[0].measured, (entry.value.mean for entry in of_table))]
    ]


def _heading(name: tuple[str, str, str], entries: Sequence[Compared], plan: Plan) -> str:
    """What a table is of, and against which baselines."""
    (task, metric, split), measured = name, entries[0].measured
    bases = (entry.baseline for entry in entries if entry.baseline is not None)
    against = list(dict.fromkeys(cell_name(base, plan) for base in bases))
    title = f"{task}: {metric} ({split}){heading_of(measured)}"
    if not measured.declared:
        return f"{title}: {UNDECLARED}"
    if measured.better == "neither":
        return f"{title}: neither higher nor lower is better, so nothing is compared"
    if not against:
        return f"{title}: no baseline, so nothing is compared"
    return f"{title}, against {' and '.join(against)}"


_HEADS = ("method", "sentences", "lang")
_COLUMNS = ("value", "difference", "p (Holm)", "runs", "examples", "verdict")
_WORDS = frozenset({"method", "lang", "verdict"})
_LEGEND = (
    "In brackets 95 % intervals: both the runs and the examples are chance. p after Holm's"
    f" correction over all comparisons of a table; better and worse at 0.05. {ONE_BY_ONE} Runs: of"
    " the value / of the baseline."
)


def _line(entry: Compared, plan: Plan, unit: Unit, *, several: bool) -> tuple[str, ...]:
    cell, found, around, against = (
        entry.cell,
        entry.comparison,
        entry.interval,
        entry.baseline_value,
    )
    name = cell_name(cell, plan) + (f" [{cell.encoder}]" if several else "")
    size = f"{cell.sentences:,}" if cell.sentences is not None else ""
    value = unit.show(entry.value.mean)
    value += f" {unit.show_interval(around.low, around.high)}" if around else ""
    difference = "" if entry.difference is None else unit.show_difference(entry.difference)
    if found is not None and found.low is not None and found.high is not None:
        bounds = (unit.show_difference(bound) for bound in (found.low, found.high))
        difference += f" [{', '.join(bounds)}]"
    runs, examples = f"{entry.value.n}", f"{around.examples:,}" if around else ""
    if against is not None:
        runs, examples = f"{runs} / {against.n}", f"{found.examples:,}" if found else ""
    known = (name, size, entry.name[1], value, difference if against is not None else "")
    return (*known, _p(entry) if against is not None else "", runs, examples, _verdict(entry))


def _p(entry: Compared) -> str:
    if entry.p_adjusted is None:
        return ""
    return f"{entry.p_adjusted:.4f}" if entry.p_adjusted >= 0.0001 else "<0.0001"


def _verdict(entry: Compared) -> str:
    facts = [
        entry.verdict or "",
        f"({entry.untested})" if entry.untested else "",
        "(at chance)" if entry.at_chance else "",
        "(falls far below)" if entry.falls_far else "",
        "(outdated readouts)" if entry.outdated else "",
    ]
    return " ".join(fact for fact in facts if fact)
