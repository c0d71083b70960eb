"""The plug-ins of a kind as text: what `raxalign list` prints and docs/ shows."""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from raxalign.catalog import FOLDERS, Catalog, catalog
from raxalign.errors import RaxalignError
from raxalign.options.params import BaseParams, about, models_in
from raxalign.options.sources import HubMarker
from raxalign.printing import TextTable, counted
from raxalign.report.document import macro

WIDTH = 80
"""Columns of the text on one plug-in."""
PAGES = ("methods", "tasks")
"""Folders of which each plug-in has a page of its own."""
TRAINING = "training"
"""The page of the options that trainings share."""
MANY = 5  # plug-ins that share an option
_LAYERS = 12  # of an encoder that is asked about
_SENTENCE = re.compile(r"\. (?=[A-Z`])|[.:]$")
_EXAMPLE = re.compile(r"^Example:\n((?: +\S.*\n?)+)", re.MULTILINE)
_PAPER = re.compile(r"([^\W\d_a-z][^\W\d_]*[^\d():;§]*?),? \(?((?:19|20)\d\d)")
_FIELD = re.compile(r"\b(\w+) *= *\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")  # of BibTeX
_ADDRESSES = {"10.18653/v1/": "https://aclanthology.org/", "": "https://doi.org/"}
"""Where papers are read, by how their DOIs begin."""
_TOLD = {
    "links": "word pairs",
    "heldout": "word pairs",
    "bitext": "sentence pairs",
    "text": "text",
    "head": "masked-LM head",
}
"""What a method or a task needs, in words."""


@dataclass(frozen=True)
class Option:
    """An option as pages show it; without `profiles` its default is its own."""

    name: str
    values: str
    default: str
    about: str
    profiles: Mapping[str, str]

    @property
    def line(self) -> str:
        """Its name, the value that it has where none is given, and the values that it takes."""
        value = ", ".join(f"{profile} {value}" for profile, value in self.profiles.items())
        if not self.profiles:
            value = self.default if self.default == "required" else f"default {self.default}"
        return f"{self.name}: {value} ({self.values})"


def describe(folder: str, kind: str | None = None, width: int | None = None) -> str:
    """Return a table of all plug-ins, fitted to a width, and then every one with its first sentence
    and its options with their defaults; or one with all that is known of it, 80 columns wide; or
    the options that trainings share (`TRAINING`).
    """
    if folder == TRAINING and kind is None:
        options = (option for name in PAGES for option in _shared(name).values())
        return "\n".join(_entry(f"{each.name} ({each.values})", each.about) for each in options)
    found = _plugins(folder)
    if kind is not None:
        return _card(kind, found[kind])
    parts = ["\n".join(overview(folder, found).fitted(width))]
    for name, plugin in found.items():
        lines = (f"    {option.line}" for option in _options(plugin))
        parts.append("\n".join([f"{name}: {_summary(plugin)}", *lines]))
    return "\n\n".join(parts)


def as_markdown(folder: str, kind: str | None = None) -> str:
    """Return a page of docs/: of a folder with a page per kind (`PAGES`) a table of all, of another
    one every plug-in with a table of its options; the page or the part of one plug-in; or the page
    `TRAINING`.
    """
    if folder == TRAINING and kind is None:
        told = {FOLDERS[name].plural: _shared(name).values() for name in PAGES}
        return macro("plugins.md.j2", "training", most=MANY, told=told)
    found = _plugins(folder)
    if kind is not None:
        return macro("plugins.md.j2", "plugin", page=_page(folder, kind, found[kind]))
    pages = [] if folder in PAGES else [_page(folder, *each) for each in found.items()]
    shown = {"plural": FOLDERS[folder].plural, "table": overview(folder, found), "pages": pages}
    return macro("plugins.md.j2", "folder", name=folder, **shown)


@cache
def _shared(folder: str) -> Mapping[tuple[str, str, str], Option]:
    """The options that `MANY` kinds of a folder which train have in the same words."""
    found: dict[tuple[str, str, str], list[Option]] = defaultdict(list)
    for plugin in catalog(folder).values():
        if "learning_rate" in plugin.Params.model_fields:
            for option in _options(plugin):
                found[option.name, option.values, option.about].append(option)
    return {key: options[0] for key, options in found.items() if len(options) >= MANY}


def _plugins(folder: str) -> Catalog:
    if folder not in FOLDERS:
        near = get_close_matches(folder, FOLDERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FOLDERS)}"
        raise RaxalignError(f"list {folder}: {hint}")
    return catalog(folder)


def _card(kind: str, plugin: Any) -> str:
    """All that is known of a plug-in, wrapped."""
    options = list(_options(plugin))
    facts = (f"{name}: {value}" for name, value in _facts(plugin))
    texts = [f"{kind}: {inspect.cleandoc(plugin.__doc__ or '')}", *facts]
    parts = [_wrapped(paragraph) for text in texts for paragraph in text.split("\n\n")]
    metrics = [_entry(f"{name}: {role}", about) for name, role, about in _metrics(plugin)]
    parts.append("\n".join(["Metrics:", *metrics] if metrics else []))
    about = inspect.cleandoc(plugin.Params.__doc__ or "") if options else "No options."
    parts += [_wrapped(paragraph) for paragraph in about.split("\n\n")]
    parts.append("\n".join(_entry(option.line, option.about) for option in options))
    return "\n\n".join(part for part in parts if part)


def _entry(head: str, about: str) -> str:
    """A line, and what it is about under it."""
    line = _wrapped(head, "  ", "      ")
    return f"{line}\n{_wrapped(about, '      ', '      ')}" if about else line


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    if _EXAMPLE.match(text):
        return text
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _metrics(plugin: Any) -> Iterator[tuple[str, str, str]]:
    """Every metric that a task declares: its name, what kind of value it is, and its sentence."""
    main = getattr(plugin, "main_metric", None)
    for entry in getattr(plugin, "metrics", ()):
        kind = "descriptive" if entry.better == "neither" else f"{entry.better} is better"
        kind += ", in percent" if entry.unit == "share" else ""
        kind = {"count": "count", "error": "standard error"}.get(entry.role, kind)
        yield entry.name, f"main metric, {kind}" if entry.name == main else kind, entry.about


def _page(folder: str, kind: str, plugin: Any) -> dict[str, Any]:
    """What the page of one plug-in, or its part of a page, shows."""
    options, about = list(_options(plugin)), plugin.Params.__doc__
    trains = folder in PAGES and "learning_rate" in plugin.Params.model_fields
    shared = _shared(folder) if trains else {}
    rest = [option for option in options if (option.name, option.values, option.about) in shared]
    own = [option for option in options if option not in rest]
    up = "../" * (folder in PAGES)
    fenced = f"Example, as part of a [grid file]({up}grid-file.md):\n\n```yaml\n{{}}\n```\n"
    return {
        "head": f"{'#' if folder in PAGES else '##'} {kind}",
        "about": _EXAMPLE.sub(
            lambda example: fenced.format(textwrap.dedent(example[1]).rstrip()),
            inspect.cleandoc(plugin.__doc__ or ""),
        ),
        "facts": list(_facts(plugin)),
        "metrics": list(_metrics(plugin)),
        "options": inspect.cleandoc(about or "Options:") if options else "No options.",
        "own": own,
        "shared": rest,
    }


def _facts(plugin: Any) -> Iterator[tuple[str, str]]:
    for name in ("reference", "licence"):
        value = getattr(plugin, name, None)
        if isinstance(value, str) and f"{name.capitalize()}:" not in (plugin.__doc__ or ""):
            yield name.capitalize(), value
    yield from map(_paper, getattr(plugin, "papers", ()))
    columns = getattr(plugin, "reads", None)
    if isinstance(columns, frozenset):
        yield "Reads", f"the columns {', '.join(f'`{name}`' for name in sorted(columns))}"
        yield "Better", plugin.better
        yield "Unit", plugin.unit


def _paper(cited: str) -> tuple[str, str]:
    """The option under which a paper is cited, and its title, year and address."""
    from raxalign.report.compose import entries

    condition, _, key = ("", "", cited) if cited.startswith("@") else cited.rpartition(" ")
    fields = dict(_FIELD.findall(entries().get(key, key)))
    doi = fields.get("doi", "")
    start = next(start for start in _ADDRESSES if doi.startswith(start))
    place = _ADDRESSES[start] + doi.removeprefix(start) if doi else fields.get("url", "")
    title = re.sub(r"\\.|[{}]", "", " ".join(fields.get("title", key).split()))
    told = ", ".join(filter(None, (title, fields.get("year"), place and f"<{place}>")))
    option, _, text = condition.partition("=")
    return f"Paper (`{text}` in `{option}`)" if option else "Paper", told


def _options(plugin: Any) -> Iterator[Option]:
    return _options_of(plugin.Params, getattr(plugin, "profiles", {}), "")


def _options_of(
    model: type[BaseModel], profiles: Mapping[str, Mapping[str, Any]], within: str
) -> Iterator[Option]:
    """Every option of a model, each followed by those of the mapping that it takes."""
    paths = model.path_fields() if issubclass(model, BaseParams) else frozenset()
    for field_name, field in model.model_fields.items():
        name, parts = field.alias or field_name, list(models_in(field.annotation))
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        by_profile = default is None and any(name in values for values in profiles.values())
        given = profiles.items() if by_profile else ()
        values = _values(field.annotation)
        if field_name in paths:
            inner = (getattr(part, "__metadata__", ()) for part in get_args(field.annotation))
            marks = [mark for some in (field.metadata, *inner) for mark in some]
            noun = next((mark.noun for mark in marks if isinstance(mark, HubMarker)), "a path")
            values = noun + (" | mapping" if parts else "")
        yield Option(
            within + name,
            values,
            "required" if field.is_required() else _shown(default),
            about(model, field_name),
            {profile: _shown(filled.get(name)) for profile, filled in given},
        )
        for part in parts:
            yield from _options_of(part, {}, f"{within}{name}.")


def _shown(value: Any) -> str:
    """A default as YAML writes it."""
    if value is None or value == "\t":
        return "none" if value is None else "tab"
    if value in ("", {}):
        return "empty"
    if isinstance(value, BaseParams):
        options = value.model_dump(by_alias=True).items()
        return "{" + ", ".join(f"{name}: {_shown(entry)}" for name, entry in options) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(annotation: Any) -> str:
    """The values that an option takes, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(parts[0])
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_values(p) for p in parts if p is not type(None)))
    if origin in (dict, Mapping):
        return "mapping"
    named = {bool: "true | false", int: "whole number", float: "number", str: "text"}
    return named.get(annotation, "mapping" if isinstance(annotation, type) else "list")


def overview(folder: str, plugins: Mapping[str, Any]) -> TextTable:
    """Return the table of a folder's plug-ins: what each needs, what it moves or reads, what it
    costs, and the paper that it is from, all asked of the plug-ins with their defaults.
    """
    columns: tuple[str, ...] = ("what it is", "paper", "licence")
    if folder in PAGES:
        columns = ("needs", "moves" if folder == "methods" else "reads", "cost", "paper")
    rows: list[tuple[str, ...]] = []
    for name, plugin in plugins.items():
        if folder in PAGES:
            rows.append((name, *_effort(folder, plugin), paper_of(plugin)))
        else:
            sentence, licence = _SENTENCE.split(_summary(plugin))[0], getattr(plugin, "licence", "")
            rows.append((name, sentence, paper_of(plugin), licence))
    kept = [place for place in range(1, len(columns) + 1) if any(row[place] for row in rows)]
    return TextTable(
        (FOLDERS[folder].noun,),
        tuple(columns[place - 1] for place in kept),
        tuple((row[0], *(row[place] for place in kept)) for row in rows),
        frozenset(columns),
    )


def paper_of(plugin: Any) -> str:
    """Return the papers that a plug-in names: its `reference`, or those of the paragraph of its
    docstring that begins with ``Reference:``; empty where there is none.
    """
    if declared := getattr(plugin, "reference", ""):
        return str(declared)
    _, _, told = (plugin.__doc__ or "").partition("Reference:")
    paragraph = " ".join(told.split("\n\n")[0].split())
    return "; ".join(f"{name} {year}" for name, year in _PAPER.findall(paragraph))


def _effort(folder: str, kind: Any) -> tuple[str, str, str]:
    """What a method or a task needs, what it moves or reads, and what it costs."""
    plugin = kind(_defaults(kind.Params))
    needs = [text for name, text in _TOLD.items() if getattr(plugin.needs(), name, False)]
    epochs = getattr(plugin.params, "epochs", None)
    training = f"training, {counted(epochs, 'epoch')}" if epochs else "training"
    cost = "one forward pass"
    if folder == "methods":
        effect, readouts = plugin.effect(), plugin.acts(_LAYERS).readouts
        if effect.weights:
            acts, cost = "weights", training
        elif effect.inside:
            acts = "hidden states"
        elif readouts:
            acts = "vectors, the pivot's too" if effect.pivot else "vectors"
        else:
            acts = cost = "nothing"
    else:
        layers, trains = plugin.reads(_LAYERS).layers, plugin.training() is not None
        needs = [f"held-out {what}" if what.endswith("pairs") else what for what in needs]
        needs += ["labelled data"] if trains else []
        acts = "several layers" if layers else "all layers"
        acts = "the last layer" if layers == {_LAYERS} else acts
        cost = f"{training} per method" if trains else cost
    fields = kind.Params.model_fields.items()  # options that have to be given
    needs += [f"`{field.alias or name}`" for name, field in fields if field.is_required()]
    if kind.accepts == {"transformer"} and "masked-LM head" not in needs:
        needs.append("transformer")
    return ", ".join(needs) or "nothing", acts, cost


def _defaults(model: type[BaseModel]) -> BaseModel:
    """Options with their defaults; those without one are only made up."""
    required: dict[str, Any] = {
        name: next((_defaults(part) for part in models_in(field.annotation)), "file")
        for name, field in model.model_fields.items()
        if field.is_required()
    }
    return model.model_construct(**required)


def _summary(plugin: Any) -> str:
    """The first paragraph of a plug-in's docstring."""
    return " ".join((plugin.__doc__ or "").split("\n\n")[0].split())
