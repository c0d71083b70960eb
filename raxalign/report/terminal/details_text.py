"""The details of one trial, stage or evaluation as text for a terminal."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raxalign.measured import Measured
from raxalign.plan.estimates.cost import duration, volume
from raxalign.plan.names import plain
from raxalign.report.cells.numbers import heading_of, number, unit_of
from raxalign.report.terminal.fit import Texts, fitted, paragraph

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 40  # of a drawn curve
_HEADED = ("sort", "key", "grid", "state")
_PARTS = ("params", "inputs", "digests", "locations", "files", "made", "notes", "untouched")
_OWN = ("scores", "stages", "predictions", "curves", "evaluations", "trials", "mlflow")
_SOME = 5  # keys of trials that are listed
_KEY = 12  # characters of a key in a table
_LEGEND = (
    "In brackets 95 % intervals over the examples, with this training as it is; over several seeds:"
    " `raxalign results --compare`."
)


def as_text(facts: Mapping[str, Any], width: int | None) -> str:
    """Return the details that `details` collected, with tables as wide as the terminal."""
    kind = f" {facts['kind']}" if facts["sort"] == "stage" else ""
    grid = f" of the grid {facts['grid']}" if facts.get("grid") else ""
    state = f": {facts['state']}" if facts.get("state") else ""
    lines = paragraph(f"{facts['sort']}{kind} {facts['key']}{grid}{state}", width)
    for name, value in facts.items():
        if name in (*_HEADED, *_PARTS, *_OWN) or value is None:
            continue
        lines += paragraph(f"{name}: {_fact(name, value)}", width)
    if facts.get("trials"):
        keys = facts["trials"]
        more = f" and {len(keys) - _SOME} more" if len(keys) > _SOME else ""
        lines.append(f"trials: {', '.join(key[:_KEY] for key in keys[:_SOME])}{more}")
    for name in _PARTS:
        if facts.get(name):
            lines += ["", f"{name}:", *_nested(facts[name], width)]
    for section in (_scores, _stages, _evaluations, _curves, _predictions, _mlflow):
        lines += section(facts, width)
    return "\n".join(lines)


def sparkline(values: Sequence[float]) -> str:
    """Return values as a row of bars, at most 40 of them; each of more values stands for the mean
    of a stretch.

    >>> sparkline([0, 1, 2, 3])
    '▁▃▅█'
    """
    count = min(len(values), _POINTS)
    edges = [round(place * len(values) / count) for place in range(count + 1)] if count else []
    means = [sum(values[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = (high - low) or 1.0
    return "".join(_BARS[int((value - low) / span * (len(_BARS) - 1))] for value in means)


def _fact(name: str, value: Any) -> str:
    if name == "bytes":
        return volume(value)
    if name == "seconds":
        return duration(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return plain(value) if isinstance(value, Mapping) else str(value)


def _nested(value: Any, width: int | None, indent: str = "  ") -> Iterator[str]:
    """Yield nested mappings as indented lines; what else is nested is JSON."""
    for name, part in value.items():
        if isinstance(part, Mapping) and part:
            yield f"{indent}{name}:"
            yield from _nested(part, width, indent + "  ")
        else:
            shown = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
            yield f"{indent}{name}: {shown}"


def _scores(facts: Mapping[str, Any], width: int | None) -> list[str]:
    tables: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for score in facts.get("scores", ()):
        if score.get("role") == "score":
            tables[score["task"], score["metric"], score["split"]].append(score)
    lines = []
    for (task, metric, split), scores in tables.items():
        measured = Measured(metric, "", scores[0]["better"], unit=scores[0]["unit"])
        unit = unit_of(measured, (score["value"] for score in scores))
        for score in scores:
            around = unit.show_interval(score["low"], score["high"])
            over = f"{score['examples']:,}" if score["examples"] else ""
            name = f"{task}: {metric} ({split}){heading_of(measured)}"
            lines.append((name, score["lang"], unit.show(score["value"]), around, over))
    if not lines:
        return []
    table = Texts(
        ("scores",),
        ("language", "value", "interval", "examples"),
        tuple(lines),
        frozenset({"language"}),
    )
    return ["", *fitted(table, width), *paragraph(_LEGEND, width)]


def _stages(facts: Mapping[str, Any], width: int | None) -> list[str]:
    if not facts.get("stages"):
        return []
    lines = tuple(
        (
            f"{stage['kind']} {stage['maker']}",
            stage["key"][:_KEY],
            stage["state"],
            "" if stage["bytes"] is None else volume(stage["bytes"]),
            "" if stage["seconds"] is None else duration(stage["seconds"]),
        )
        for stage in facts["stages"]
    )
    columns = ("key", "state", "size", "time")
    return ["", *fitted(Texts(("made from",), columns, lines, frozenset(columns[:2])), width)]


def _evaluations(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    found = facts.get("evaluations")
    return (
        ["", "evaluations:", *(f"  {task}: {key}" for task, key in found.items())] if found else []
    )


def _curves(facts: Mapping[str, Any], width: int | None) -> list[str]:
    lines = []
    for name, points in facts.get("curves", {}).items():
        values = [value for _, value in points]
        shown = (f"{value:.4g}" for value in (values[0], min(values), max(values), values[-1]))
        lines.append((name, *shown, number(points[-1][0], 0), sparkline(values)))
    columns = ("first", "lowest", "highest", "last", "step", "curve")
    table = Texts(("training",), columns, tuple(lines), frozenset({"curve"}))
    return ["", *fitted(table, width)] if lines else []


def _predictions(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    lines = []
    for task, rows in facts.get("predictions", {}).items():
        lines += ["", f"predictions of {task} (the first of each language and split):"]
        for row in rows:
            values = (
                f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}"
                for name, value in row.items()
                if value is not None
            )
            lines.append("  " + " ".join(values))
    return lines


def _mlflow(facts: Mapping[str, Any], width: int | None) -> list[str]:  # noqa: ARG001
    run = facts.get("mlflow")
    if not run:
        return []
    return [
        "",
        f"MLflow: run {run['run_id']} ({run['status']}) of experiment {run['experiment_id']} in"
        f" {run['uri']}",
    ]
