"""Result rows as Arrow tables with types of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

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
