"""Result rows as Arrow tables with types of their own; options are columns (`method.steps`,
`encoder.layers`, `task.learning_rate`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from raxalign.lazy import pa
from raxalign.plan.names import encoder_options, filled, method_options, task_options
from raxalign.plan.plan import Plan


def with_options(table: pa.Table, rows: Sequence[Mapping[str, Any]], plan: Plan) -> pa.Table:
    """Return a table with one more column per option that a method, an encoder or a task of the
    plan has; it is null where a row has no such option.

    The columns and their types are those of the plan, so that an empty table has them too. An
    option with values of several types is a text, and so is a mapping (JSON). The rows that the
    table is of have `method`, `params`, `encoder` and `task`.
    """
    encoders, tasks = encoder_options(plan), task_options(plan)
    points = [point for every in method_options(plan).values() for point in every]
    kinds = {trial.method: trial.kind for trial in plan.trials}
    methods = [
        filled("methods", kinds.get(row["method"], row["method"]), row["params"]) for row in rows
    ]
    of_rows = {
        "method": (points, methods),
        "encoder": (encoders.values(), [encoders.get(row["encoder"], {}) for row in rows]),
        "task": (tasks.values(), [tasks.get(row["task"], {}) for row in rows]),
    }
    for prefix, (known, found) in of_rows.items():
        for name in dict.fromkeys(name for options in known for name in options):
            kind = _kind(options[name] for options in known if name in options)
            values = [options.get(name) for options in found]
            if kind == pa.string():
                values = [v if isinstance(v, str | None) else _json(v) for v in values]
            table = table.append_column(f"{prefix}.{name}", pa.array(values, kind))
    return table


def _kind(values: Iterable[object]) -> Any:
    """Return the type of a column that holds all the values."""
    types = {type(value) for value in values}
    if types == {bool}:
        return pa.bool_()
    if types <= {int, float}:
        return pa.int64() if types == {int} else pa.float64()
    return pa.string()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_TEXT = {
    *("trial", "method", "params", "encoder", "task", "task_params", "lang", "metric", "split"),
    *("better", "unit", "evaluation", "cell", "baseline", "verdict", "reason", "outdated"),
    "languages_reason",
}
_WHOLE = {"sentences", "seed", "runs", "examples", "baseline_runs"}
_TRUTH = {"paired", "at_chance", "falls_far"}


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pa.Table:
    """Return rows as an Arrow table; mappings become JSON texts. Types do not depend on the rows,
    so that an empty table has them too.
    """
    kinds = {
        "languages": pa.list_(pa.string()),
        **dict.fromkeys(_TEXT, pa.string()),
        **dict.fromkeys(_WHOLE, pa.int64()),
        **dict.fromkeys(_TRUTH, pa.bool_()),
    }
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in columns])

    def plain(value: object) -> object:
        return _json(value) if isinstance(value, Mapping) else value

    return pa.Table.from_pylist(
        [{name: plain(row[name]) for name in columns} for row in rows], schema=schema
    )
