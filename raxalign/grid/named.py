"""What a grid file names under its axes, for a shell that completes a half-typed command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raxalign.grid.yaml_file import Faults
from raxalign.options.axes import Axis


def named(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the tasks under `task`, and under the names that ``--only`` takes the
    values of the axes and of the methods' params that have several.

    Raises `GridError` for a file that is not one.
    """
    grid = Faults().read(path)[0].plain()
    languages, methods = grid.get("languages"), grid.get("methods")
    groups = list(languages.values()) if isinstance(languages, Mapping) else [languages]
    sets = languages.get("sets") if isinstance(languages, Mapping) else None
    groups += sets.values() if isinstance(sets, Mapping) else []
    found = {
        "task": _texts(grid.get("tasks")),
        Axis.METHOD.value: _texts(methods),
        Axis.LANGUAGE: tuple(
            dict.fromkeys(lang for group in groups if group is not sets for lang in _texts(group))
        ),
        **({Axis.LANGUAGES.value: _texts(sets)} if isinstance(sets, Mapping) else {}),
        Axis.SENTENCES.value: _texts(grid.get("sentences")),
        Axis.SEED.value: _texts(grid.get("seeds")),
        Axis.ENCODER.value: _texts(grid.get("encoder")),
    }
    for params in methods.values() if isinstance(methods, Mapping) else ():
        for name, values in params.items() if isinstance(params, Mapping) else ():
            if isinstance(values, list):
                found[name] = tuple(dict.fromkeys([*found.get(name, ()), *_texts(values)]))
    return found


def _texts(value: Any) -> tuple[str, ...]:
    """Return values as a command line has them: the keys of a mapping, what a list has, or one."""
    entries = value if isinstance(value, list | Mapping) else [value]
    return tuple(
        str(entry).lower() if isinstance(entry, bool) else str(entry)
        for entry in entries
        if isinstance(entry, bool | int | float | str)
    )
