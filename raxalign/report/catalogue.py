"""The plug-ins of a kind as text, made from the catalogue: what `raxalign list` prints and docs/
shows.
"""

from __future__ import annotations

import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from raxalign.catalog import FOLDERS, Catalog, catalog
from raxalign.config.params import BaseParams, models_in, path_fields
from raxalign.config.sources import EncoderMarker
from raxalign.errors import RaxalignError
from raxalign.measured import Measured
from raxalign.report.terminal.fit import fitted
from raxalign.report.terminal.overview import overview

WIDTH = 80
"""Columns of the text on one plug-in."""


@dataclass(frozen=True)
class Option:
    """An option as pages show it. `about` is its sentence; `profiles` are its values by profile,
    empty where its default is its own.
    """

    name: str
    values: str
    default: str
    about: str
    profiles: Mapping[str, str]

    def value(self) -> str:
        """Return the value that it has where none is given."""
        if self.profiles:
            return ", ".join(f"{profile} {value}" for profile, value in self.profiles.items())
        return self.default if self.default == "required" else f"default {self.default}"


def describe(folder: str, kind: str | None = None, width: int | None = None) -> str:
    """Return a table of all plug-ins, fitted to a width, and then every one with its first sentence
    and its options with their defaults; or one with all that is known of it, 80 columns wide.
    """
    found = _plugins(folder)
    if kind is not None:
        return _card(kind, found[kind])
    table = "\n".join(fitted(overview(folder, found), width))
    return "\n\n".join([table, *(_describe(name, plugin) for name, plugin in found.items())])


def as_markdown(folder: str, kind: str | None = None) -> str:
    """Return a page of docs/: every plug-in with what it is, and a table of its options; or the
    part of one plug-in.
    """
    found = _plugins(folder)
    if kind is not None:
        return "\n\n".join(_section(kind, found[kind])) + "\n"
    title = FOLDERS[folder].plural.capitalize()
    table = overview(folder, found)
    head, columns = table.heads[0], table.columns
    lines = [[f"[`{name}`](#{name})", *cells] for name, *cells in table.lines]
    note = (
        f"Made by `raxalign list {folder} --format markdown` from the code; a test compares the"
        " two."
    )
    return (
        "\n\n".join(
            [
                f"# {title}",
                note,
                _rows([[head, *columns], ["---"] * (1 + len(columns)), *lines]),
                *(part for name, plugin in found.items() for part in _section(name, plugin)),
            ]
        )
        + "\n"
    )


def _plugins(folder: str) -> Catalog:
    if folder not in FOLDERS:
        near = get_close_matches(folder, FOLDERS, n=1)
        raise RaxalignError(
            f"list {folder}: "
            + (f"did you mean {near[0]}?" if near else f"there are {', '.join(FOLDERS)}")
        )
    return catalog(folder)


def _describe(kind: str, plugin: Any) -> str:
    summary = " ".join((plugin.__doc__ or "").split("\n\n")[0].split())
    return "\n".join(
        [
            f"{kind}: {summary}",
            *(
                f"    {option.name}: {option.value()} ({option.values})"
                for option in _options(plugin)
            ),
        ]
    )


def _card(kind: str, plugin: Any) -> str:
    options = list(_options(plugin))
    paragraphs = [
        f"{kind}: {inspect.cleandoc(plugin.__doc__ or '')}",
        *(f"{name}: {value}" for name, value in _facts(plugin)),
    ]
    parts = [_wrapped(paragraph) for text in paragraphs for paragraph in text.split("\n\n")]
    metrics = [_metric_entry(*entry) for entry in _metrics(plugin)]
    parts.append("\n".join(["Metrics:", *metrics] if metrics else []))
    about = inspect.cleandoc(plugin.Params.__doc__ or "") if options else "No options."
    parts += [_wrapped(paragraph) for paragraph in about.split("\n\n")]
    parts.append("\n".join(_entry(option) for option in options))
    return "\n\n".join(part for part in parts if part)


def _entry(option: Option) -> str:
    head = _wrapped(f"{option.name}: {option.value()} ({option.values})", 2, 6)
    return f"{head}\n{_wrapped(option.about, 6, 6)}" if option.about else head


def _metric_entry(name: str, direction: str, about: str) -> str:
    return f"{_wrapped(f'{name}: {direction}', 2, 6)}\n{_wrapped(about, 6, 6)}"


def _metrics(plugin: Any) -> Iterator[tuple[str, str, str]]:
    """Every metric that a task declares: its name, what kind of value it is, and its sentence."""
    main = getattr(plugin, "main_metric", None)
    for entry in getattr(plugin, "metrics", ()):
        kind = _kind_of(entry)
        yield entry.name, f"main metric, {kind}" if entry.name == main else kind, entry.about


def _kind_of(metric: Measured) -> str:
    named = {"count": "count", "error": "standard error"}
    if metric.role in named:
        return named[metric.role]
    kind = "descriptive" if metric.better == "neither" else f"{metric.better} is better"
    return kind + (", in percent" if metric.unit == "share" else "")


def _wrapped(text: str, first: int = 0, others: int = 0) -> str:
    words, starts, continues = " ".join(text.split()), " " * first, " " * others
    wrap = textwrap.TextWrapper(
        WIDTH,
        initial_indent=starts,
        subsequent_indent=continues,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrap.fill(words)


def _section(kind: str, plugin: Any) -> Iterator[str]:
    yield f"## {kind}"
    yield inspect.cleandoc(plugin.__doc__ or "")
    yield from (f"{name}: {value}" for name, value in _facts(plugin))
    metrics = [[f"`{name}`", kind, about] for name, kind, about in _metrics(plugin)]
    if metrics:
        yield _rows([["metric", "kind", "what it is"], ["---"] * 3, *metrics])
    options = list(_options(plugin))
    if options:
        own = plugin.Params.__doc__
        yield inspect.cleandoc(own) if own else "Options:"
        yield _table(options)
    else:
        yield "No options."


def _table(options: Sequence[Option]) -> str:
    """A table with one row per option, and with one column per profile where there are profiles."""
    profiles = list(dict.fromkeys(name for option in options for name in option.profiles))
    rows = [["option", "values", "default", *profiles, "what it is"], ["---"] * (4 + len(profiles))]
    for option in options:
        filled = [option.profiles.get(name, "") for name in profiles]
        rows.append(
            [
                f"`{option.name}`",
                option.values,
                "by profile" if option.profiles else option.default,
                *filled,
                option.about,
            ]
        )
    return _rows(rows)


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("|" + "|".join(_cell(text) for text in row) + "|" for row in rows)


def _cell(text: str) -> str:
    return text if text == "---" else " " + text.replace("|", "\\|") + " "


def _facts(plugin: Any) -> Iterator[tuple[str, str]]:
    for name in ("reference", "licence"):
        value = getattr(plugin, name, None)
        if isinstance(value, str) and f"{name.capitalize()}:" not in (plugin.__doc__ or ""):
            yield name.capitalize(), value
    columns = getattr(plugin, "reads", None)
    if isinstance(columns, frozenset):
        yield "Reads", f"the columns {', '.join(f'`{name}`' for name in sorted(columns))}"
        yield "Better", plugin.better
        yield "Unit", plugin.unit


def _options(plugin: Any) -> Iterator[Option]:
    yield from _options_of(plugin.Params, getattr(plugin, "profiles", {}), "")


def _options_of(
    model: type[BaseModel], profiles: Mapping[str, Mapping[str, Any]], within: str
) -> Iterator[Option]:
    """Every option of a model, each followed by those of the mapping that it takes (`freeze`,
    `freeze.blocks`).
    """
    paths = path_fields(model) if issubclass(model, BaseParams) else frozenset()
    for field_name, field in model.model_fields.items():
        name, parts = field.alias or field_name, list(models_in(field.annotation))
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        by_profile = default is None and any(name in values for values in profiles.values())
        values = (
            " | ".join([_named(field.metadata), *(["mapping"] if parts else [])])
            if field_name in paths
            else _values(field.annotation)
        )
        filled = (
            {profile: _shown(given.get(name)) for profile, given in profiles.items()}
            if by_profile
            else {}
        )
        yield Option(
            within + name,
            values,
            "required" if field.is_required() else _shown(default),
            field.description or "",
            filled,
        )
        for part in parts:
            yield from _options_of(part, {}, f"{within}{name}.")


def _named(marks: Sequence[Any]) -> str:
    """What the text of a marked option names."""
    return "an encoder" if any(isinstance(mark, EncoderMarker) for mark in marks) else "a path"


def _shown(value: Any) -> str:
    """A default as YAML writes it."""
    if value is None or value == "\t":
        return "none" if value is None else "tab"
    if value in ("", {}):
        return "empty"
    if isinstance(value, BaseParams):
        return (
            "{"
            + ", ".join(
                f"{name}: {_shown(entry)}"
                for name, entry in value.model_dump(by_alias=True).items()
            )
            + "}"
        )
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
        return " | ".join(
            dict.fromkeys(_values(part) for part in get_args(annotation) if part is not type(None))
        )
    if origin in (dict, Mapping):
        return "mapping"
    return {bool: "true | false", int: "whole number", float: "number", str: "text"}.get(
        annotation, "mapping" if isinstance(annotation, type) else "list"
    )
