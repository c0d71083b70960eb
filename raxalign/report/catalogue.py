"""The plug-ins of a kind as text, made from the catalogue: what `raxalign list` prints and docs/ shows."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from raxalign.catalog import Catalog, catalog
from raxalign.config.params import BaseParams, path_fields
from raxalign.errors import RaxalignError

FOLDERS = ("methods", "tasks", "corpora", "encoders", "aligners")


def describe(folder: str) -> str:
    """Every plug-in with its first sentence and its options with their defaults."""
    return "\n\n".join(_describe(kind, plugin) for kind, plugin in _plugins(folder).items())


def as_markdown(folder: str) -> str:
    """A page of docs/: every plug-in with what it is, and a table of its options."""
    found = _plugins(folder)
    title = "Word aligners" if folder == "aligners" else folder.capitalize()
    note = f"Made by `raxalign list {folder} --format markdown` from the code; a test compares the two."
    return "\n\n".join([f"# {title}", note, *(part for kind, plugin in found.items() for part in _section(kind, plugin))]) + "\n"


def _plugins(folder: str) -> Catalog:
    if folder not in FOLDERS:
        near = get_close_matches(folder, FOLDERS, n=1)
        raise RaxalignError(f"list {folder}: " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(FOLDERS)}"))
    return catalog(folder)


def _describe(kind: str, plugin: Any) -> str:
    summary = " ".join((plugin.__doc__ or "").split("\n\n")[0].split())
    lines = [f"{kind}: {summary}"]
    lines += [
        f"    {name}: " + (default if default == "required" else f"default {default}") + (f" ({values})" if values else "")
        for name, values, default in _options(plugin)
    ]
    return "\n".join(lines)


def _section(kind: str, plugin: Any) -> Iterator[str]:
    yield f"## {kind}"
    yield inspect.cleandoc(plugin.__doc__ or "")
    yield from (f"{name}: {value}" for name, value in _facts(plugin))
    options = [tuple(text.replace("|", "\\|") for text in option) for option in _options(plugin)]
    if options:
        own = plugin.Params.__doc__
        yield inspect.cleandoc(own) if own else "Options:"
        yield "\n".join(
            ["| option | values | default |", "|---|---|---|", *(f"| `{name}` | {values} | {default} |" for name, values, default in options)]
        )
    else:
        yield "No options."


def _facts(plugin: Any) -> Iterator[tuple[str, str]]:
    for name in ("reference", "licence"):
        value = getattr(plugin, name, None)
        if isinstance(value, str) and f"{name.capitalize()}:" not in (plugin.__doc__ or ""):
            yield name.capitalize(), value


def _options(plugin: Any) -> Iterator[tuple[str, str, str]]:
    """(name in YAML, values, default) of every option."""
    paths = path_fields(plugin.Params)
    for name, field in plugin.Params.model_fields.items():
        default = "required" if field.is_required() else _shown(field.get_default(call_default_factory=True))
        yield field.alias or name, "a path" if name in paths else _values(field.annotation), default


def _shown(value: Any) -> str:
    """A default as YAML writes it."""
    if value is None or value == "\t":
        return "none" if value is None else "tab"
    if value in ("", {}):
        return "empty"
    if isinstance(value, BaseParams):
        return "{" + ", ".join(f"{name}: {_shown(entry)}" for name, entry in value.model_dump(by_alias=True).items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(annotation: Any) -> str:
    """The values that an option takes, in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _values(get_args(annotation)[0])
    if origin is Literal:
        return " | ".join(str(value) for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_values(part) for part in get_args(annotation) if part is not type(None)))
    if origin in (dict, Mapping):
        return "mapping"
    return {bool: "true | false", int: "whole number", float: "number", str: "text"}.get(
        annotation, "mapping" if isinstance(annotation, type) else "list"
    )
