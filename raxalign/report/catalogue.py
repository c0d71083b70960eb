"""The plug-ins of a kind as text, made from the catalogue: what `raxalign list` prints and docs/ shows."""

from __future__ import annotations

from typing import Any, get_args

from raxalign.catalog import catalog
from raxalign.config.params import path_fields
from raxalign.errors import RaxalignError

FOLDERS = ("methods", "tasks", "corpora", "encoders", "aligners")


def describe(folder: str) -> str:
    """Every plug-in with its first sentence and its options with their defaults."""
    if folder not in FOLDERS:
        raise RaxalignError(f"list {folder}: there are {', '.join(FOLDERS)}")
    return "\n\n".join(_describe(kind, plugin) for kind, plugin in catalog(folder).items())


def _describe(kind: str, plugin: Any) -> str:
    summary = (plugin.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    lines = [f"{kind}: {' '.join(summary.split())}"]
    paths = path_fields(plugin.Params)
    for name, field in plugin.Params.model_fields.items():
        default = "required" if field.is_required() else f"default {field.get_default(call_default_factory=True)!r}"
        values = [str(value) for value in get_args(field.annotation) if isinstance(value, str)]
        choice = f" ({' | '.join(values)})" if values else (" (a path)" if name in paths else "")
        lines.append(f"    {field.alias or name}: {default}{choice}")
    return "\n".join(lines)
