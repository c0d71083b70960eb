"""The differences of two storages or grids, for a person and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from raxalign.plan.names import trial_name
from raxalign.plan.values.results import metric_name
from raxalign.printing import counted
from raxalign.report.cells.numbers import signed
from raxalign.report.terminal.differences import NEAR, Differences, Place, Side
from raxalign.report.terminal.fit import paragraph

_MOST = 10  # lines of one sort


def as_json(found: Differences) -> str:
    """Return the differences for programs."""
    data = {
        "trials": found.trials,
        "only_first": found.only[0],
        "only_second": found.only[1],
        "causes": dict(found.causes),
        "equal": found.same,
        "near": found.near,
        "apart": [
            {"of": place, "first": first, "second": second} for place, first, second in found.apart
        ],
        "values_only_first": found.values_only[0],
        "values_only_second": found.values_only[1],
    }
    return json.dumps(data, ensure_ascii=False, indent=1)


def as_text(found: Differences, first: Side, second: Side, width: int | None) -> str:
    """Return the differences in words, with the largest ones of the values.

    Args:
        found: What `differences` returned for the two sides.
        first: The first side.
        second: The second side.
        width: The columns of the terminal (None: lines are not wrapped).
    """
    if not found.any and not found.near:
        return (
            f"equal: {counted(found.trials, 'trial')} with the same keys, and"
            f" {counted(found.same, 'value')}"
        )
    one, other = found.only
    lines = [
        f"plan: {counted(found.trials, 'trial')} in both, {len(one)} only in {first.name},"
        f" {len(other)} only in {second.name}"
    ]
    for side, places in ((first, one), (second, other)):
        lines += _some(f"  only in {side.name}: {_trial(side, place)}" for place in places)
    if found.causes:
        lines.append("what differs between the trials that both have (first or second):")
        lines += _some(
            f"  {why} ({counted(count, 'trial')})" for why, count in found.causes.most_common()
        )
    lines.append(
        f"values: {found.same} equal, {found.near} within {NEAR:g}, {len(found.apart)} further"
        " apart"
    )
    lines += _some(
        f"  {_value(first, place)}: {a:.6g} and {b:.6g} ({signed(b - a, 6)})"
        for place, a, b in found.apart
    )
    for side, places in zip((first, second), found.values_only, strict=True):
        lines += [f"{counted(len(places), 'value')} only in {side.name}"] if places else []
    return "\n".join(part for line in lines for part in paragraph(line, width))


def _some(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    more = [f"  and {len(every) - _MOST} more"] if len(every) > _MOST else []
    return [*every[:_MOST], *more]


def _trial(side: Side, place: Place) -> str:
    found = side.trials.get(place)
    if found is None:  # names of grids did not count
        found = next(trial for known, trial in side.trials.items() if known[1:7] == place[1:7])
    trial, plan = found
    size = f" sentences {trial.sentences:,}" if trial.sentences is not None else ""
    return trial_name(trial, plan) + size


def _value(side: Side, place: Sequence[str]) -> str:
    task, lang, metric, split = place[7:]
    return f"{metric_name(task, lang, metric, split)} of {_trial(side, tuple(place[:7]))}"
