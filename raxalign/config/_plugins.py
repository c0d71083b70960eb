"""The sections that name plug-ins: `encoder`, `methods`, `tasks` and `pairs`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, cast

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, Node, suggestion
from raxalign.config._points import read_points
from raxalign.config._specs import (
    EncoderSpec,
    MethodSpec,
    MetricSpec,
    OneToOne,
    PairsSpec,
    Symmetrization,
    TaskSpec,
)
from raxalign.config._validate import key_names, validate
from raxalign.config.params import BaseParams
from raxalign.config.sources import EncoderMarker
from raxalign.printing import with_article

DEFAULT_ALIGNER = "eflomal"
_OF_EVERY_TASK = ("kind", "languages", "metrics")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(node: Node, name: str, faults: Faults) -> bool:
    """Return whether a name can stand in metric names and paths; adds a fault where it cannot."""
    if _NAME.fullmatch(name):
        return True
    remedy = "use letters, digits, `_`, `.` and `-`, a letter or digit first"
    faults.add(node, f"{name!r} is not a valid name", remedy)
    return False


def plugin_params(folder: str, kind: Node, faults: Faults) -> type[BaseParams] | None:
    """Return the class of a plug-in's options; None, after a fault, for an unknown kind."""
    known = catalog(folder)
    name = kind.value if isinstance(kind.value, str) else kind.text
    if isinstance(kind.value, list | dict):
        told = f"{kind.shown()} is not the name of {with_article(known.noun)}"
        faults.add(kind, told, f"name one of: {', '.join(known)}")
        return None
    if name not in known:
        told = f"unknown {known.noun} {name!r}"
        told = told if kind.value is not None else f"the {known.noun} has no name"
        faults.add(kind, told, suggestion(name, known))
        return None
    return cast(type[BaseParams], known[name].Params)


def read_plugin(
    folder: str,
    kind: Node,
    node: Node,
    entries: Mapping[str, Node],
    faults: Faults,
    also: Iterable[str] = ("kind",),
) -> tuple[str, BaseParams] | None:
    """Read a plug-in.

    Args:
        folder: Its folder in the catalogue.
        kind: The value that names its kind.
        node: The mapping that it is in.
        entries: Its options, and entries that `also` names, which are left out.
        faults: Receives the faults.
        also: Keys that the mapping may hold besides the options.

    Returns:
        Its kind as plans have it, and its options; None after a fault.
    """
    params = plugin_params(folder, kind, faults)
    if params is None:
        return None
    own = {name: entry for name, entry in entries.items() if name not in also}
    built = validate(params, node, faults, values=own, also=also)
    return None if built is None else (catalog(folder).kind(str(kind.value)), built)


def read_encoders(node: Node, faults: Faults) -> tuple[EncoderSpec, ...]:
    """Read one encoder or a list of them, each a name or a mapping with `kind`."""
    if isinstance(node.value, list) and not node.value:
        faults.add(node, "an empty list", "name at least one encoder")
    specs: list[EncoderSpec] = []
    for item in node.items():
        entries = _encoder(item, faults)
        read = read_plugin("encoders", entries["kind"], item, entries, faults) if entries else None
        if read is None:
            continue
        spec = EncoderSpec(*read, catalog("encoders")[read[0]](read[1]).label())
        if spec in specs:
            remedy = "the values of an axis must be different; keep one"
            faults.add(item, "the same encoder is given twice", remedy)
        specs.append(spec)
    return _distinct(specs)


def _encoder(node: Node, faults: Faults) -> dict[str, Node]:
    """Return the entries of an encoder, `kind` among them; a text is a kind, or else a name. None
    are left after a fault.
    """
    known, entries = catalog("encoders"), dict[str, Node]()
    if isinstance(node.value, str) and node.value.strip():
        named = node.value.strip()
        by_name = next(kind for kind, plugin in known.items() if plugin.by_name)
        if named in known and not known[named].by_name:
            return {"kind": replace(node, value=named)}
        entries = {"kind": replace(node, value=by_name), "name": replace(node, value=named)}
    elif not isinstance(node.value, dict):
        remedy = "write a hub name, a folder, or {kind: scratch, ...}"
        faults.add(node, f"{node.shown()} is not an encoder", remedy)
    elif "kind" not in node.value:
        remedy = f"known: {', '.join(known)}; a folder or hub name is written without a mapping"
        faults.add(node, "an encoder needs a `kind`", remedy)
    else:
        entries = dict(node.value)
    name = entries.get("name")
    if name is not None and isinstance(name.value, str) and faults.folder is not None:
        found = EncoderMarker().resolve(name.value, faults.folder)
        entries["name"] = replace(name, value=found)
    return entries


def _distinct(specs: list[EncoderSpec]) -> tuple[EncoderSpec, ...]:
    """Add to labels that several encoders have the options in which these differ."""
    counts = Counter(spec.label for spec in specs)
    dumps = [spec.params.model_dump(by_alias=True) for spec in specs]
    labelled = []
    for spec, own in zip(specs, dumps, strict=True):
        others = [
            dump
            for other, dump in zip(specs, dumps, strict=True)
            if other.label == spec.label and other is not spec
        ]
        differing = (
            f"{name}={value}"
            for name, value in own.items()
            if any(other.get(name, value) != value for other in others)
        )
        label = f"{spec.label} {' '.join(differing) or spec.kind}"
        labelled.append(replace(spec, label=label) if counts[spec.label] > 1 else spec)
    return tuple(labelled)


def _kind_of(name: str, node: Node, entries: Mapping[str, Node]) -> Node:
    """Return the node that names the kind: `kind`, or the entry's own name."""
    return entries.get("kind") or replace(node, value=name, text=name)


def _named(section: Node, faults: Faults) -> list[tuple[str, Node, dict[str, Node]]]:
    """Return (name, node, entries) of the methods or tasks of a section."""
    names = [item.text for item in section.items() if _NAME.fullmatch(item.text)]
    remedy = f"write {{{', '.join(f'{name}: {{}}' for name in names) or 'name: {option: value}'}}}"
    return [
        (name, node, node.entries(faults, f"write {name}: {{}}, or its options in place of {{}}"))
        for name, node in section.entries(faults, remedy).items()
    ]


def read_methods(section: Node, faults: Faults, *, search: bool) -> tuple[MethodSpec, ...]:
    """Read all methods, in the order of the file. With `search` their options may be spaces."""
    specs = []
    for name, node, entries in _named(section, faults):
        kind = _kind_of(name, node, entries)
        params = plugin_params("methods", kind, faults)
        if check_name(node, name, faults) and params is not None:
            values = {key: value for key, value in entries.items() if key != "kind"}
            points, searched = read_points(params, node, values, faults, search=search)
            known_as = catalog("methods").kind(str(kind.value))
            specs.append(MethodSpec(name, known_as, points, searched))
    return tuple(specs)


def read_tasks(section: Node, languages: Iterable[str], faults: Faults) -> tuple[TaskSpec, ...]:
    """Read all tasks, in the order of the file. Lists are values here, not axes."""
    specs, known = [], list(languages)
    for name, node, entries in _named(section, faults):
        own = entries.get("languages")
        chosen = _narrowed(own, known, faults) if own else None
        metrics = _metrics(entries["metrics"], faults) if "metrics" in entries else ()
        kind = _kind_of(name, node, entries)
        read = read_plugin("tasks", kind, node, entries, faults, _OF_EVERY_TASK)
        if check_name(node, name, faults) and read is not None:
            specs.append(TaskSpec(name, *read, chosen, _lines(node), metrics))
    return tuple(specs)


def _metrics(node: Node, faults: Faults) -> tuple[MetricSpec, ...]:
    """Read the metrics that are added to a task's own, in the order of the file.

    ``[macro_f1]`` names kinds; ``{p3: {kind: precision_at, k: 3}}`` names metrics, whose kind is
    their name where it is not given.
    """
    entries: dict[str, Node] = dict(node.value) if isinstance(node.value, dict) else {}
    for item in node.items() if node.value is not None and not entries else ():
        if not isinstance(item.value, str):
            remedy = "write [macro_f1], or {name: {kind: precision_at, k: 3}} for one with options"
            faults.add(item, f"{item.shown()} is not the name of a metric", remedy)
        elif item.value in entries:
            faults.add(item, f"{item.shown()} is given twice", "keep one")
        else:
            entries[item.value] = replace(item, value={}, text=item.value)
    specs = []
    for name, entry in entries.items():
        options = entry.entries(faults)
        read = read_plugin("metrics", _kind_of(name, entry, options), entry, options, faults)
        if check_name(entry, name, faults) and read is not None:
            specs.append(MetricSpec(name, *read))
    return tuple(specs)


def _lines(node: Node, name: str = "") -> dict[str, int]:
    """The line of a node, and of every entry in it by its dotted name."""
    lines = {name: node.line}
    for key, entry in node.value.items() if isinstance(node.value, dict) else ():
        lines |= _lines(entry, f"{name}.{key}".lstrip("."))
    return lines


def _narrowed(node: Node, known: list[str], faults: Faults) -> tuple[str, ...]:
    """A task's own languages, in the grid's order."""
    for item in node.items() if known else ():
        if item.value not in known:
            told = f"{item.shown()} is not one of the grid's languages"
            faults.add(item, told, suggestion(item.text, known, listed="they are"))
    if not node.items():
        faults.add(node, "an empty list", "name languages, or leave `languages` out")
    wanted = {item.value for item in node.items() if isinstance(item.value, str)}
    return tuple(lang for lang in known if lang in wanted)


class PairsSettings(BaseParams):
    """What the `pairs` section holds besides the options of its word aligner."""

    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"


def read_pairs(node: Node, faults: Faults) -> PairsSpec | None:
    """Read the word aligner with its options, and what is done with its links."""
    entries, shared = node.entries(faults), key_names(PairsSettings)
    default = Node(DEFAULT_ALIGNER, node.line, "pairs.aligner", DEFAULT_ALIGNER)
    own = {name: entry for name, entry in entries.items() if name in shared}
    settings = validate(PairsSettings, node, faults, values=own)
    aligner = entries.get("aligner") or default
    read = read_plugin("aligners", aligner, node, entries, faults, ("aligner", *shared))
    return PairsSpec(*read, **dict(settings)) if read and settings else None
