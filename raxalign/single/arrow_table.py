"""Result rows as Arrow tables with types of their own.

Options as columns of a table: `method.steps`, `encoder.layers`, `task.learning_rate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raxalign.plan.names import encoder_options, filled, method_options, task_options

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.plan.plan import Plan


def with_options(table: pa.Table, rows: Sequence[Mapping[str, Any]], plan: Plan) -> pa.Table:
    """Return a table with one more column per option that a method, an encoder or a task of the
    plan has; it is null where a row has no such option.

    The columns and their types are those of the plan, so that an empty table has them too. An
    option with values of several types is a text, and so is a mapping (JSON).

    Args:
        table: the table of the rows.
        rows: rows with `method`, `params`, `encoder` and `task`.
        plan: their plan.
    """
    import pyarrow as pa

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
            values = [_as(kind, options.get(name)) for options in found]
            table = table.append_column(f"{prefix}.{name}", pa.array(values, kind))
    return table


def _kind(values: Iterable[object]) -> Any:
    """The type of a column that holds all the values."""
    import pyarrow as pa

    types = {type(value) for value in values}
    if types == {bool}:
        return pa.bool_()
    if types <= {int, float}:
        return pa.int64() if types == {int} else pa.float64()
    return pa.string()


def _as(kind: Any, value: object) -> object:
    """A value in a column of a type."""
    text = str(kind) == "string" and value is not None and not isinstance(value, str)
    return json.dumps(value, ensure_ascii=False) if text else value


_TEXT = (
    "trial",
    "method",
    "params",
    "encoder",
    "task",
    "task_params",
    "lang",
    "metric",
    "split",
    "better",
    "unit",
    "evaluation",
    "cell",
    "baseline",
    "verdict",
    "reason",
    "outdated",
    "languages_reason",
)
_WHOLE = ("sentences", "seed", "runs", "examples", "baseline_runs")
_TRUTH = ("paired", "at_chance", "falls_far")


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pa.Table:
    """Return rows as an Arrow table; mappings become JSON texts. Types do not depend on the rows,
    so that an empty table has them too.
    """
    import pyarrow as pa

    def kind(name: str) -> Any:
        if name == "languages":
            return pa.list_(pa.string())
        return (
            pa.string()
            if name in _TEXT
            else pa.int64()
            if name in _WHOLE
            else pa.bool_()
            if name in _TRUTH
            else pa.float64()
        )

    def plain(value: object) -> object:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else value

    schema = pa.schema([(name, kind(name)) for name in columns])
    return pa.table(
        {name: pa.array([plain(row[name]) for row in rows], kind(name)) for name in columns},
        schema=schema,
    )
