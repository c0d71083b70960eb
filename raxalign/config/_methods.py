"""The `methods` and `tasks` sections: names to kinds, and a method's lists to the product of its
points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, cast

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, suggestion
from raxalign.config._paths import Paths
from raxalign.config._spaces import read_searched, refuse_misspelt, refuse_spaces, spaces_in
from raxalign.config._specs import MethodSpec, MetricSpec, TaskSpec
from raxalign.config._validate import known_keys, validate
from raxalign.config.params import BaseParams
from raxalign.config.yaml_file import Node
from raxalign.printing import with_article

MOST_POINTS = 1_000_000
_OF_EVERY_TASK = ("kind", "languages", "metrics")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(node: Node, name: str, faults: Faults) -> bool:
    """Return whether a name can stand in metric names and paths; adds a fault where it cannot."""
    if _NAME.fullmatch(name):
        return True
    faults.add(
        node,
        f"{name!r} is not a valid name",
        "use letters, digits, `_`, `.` and `-`, a letter or digit first",
    )
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
        faults.add(
            kind,
            (
                f"unknown {known.noun} {name!r}"
                if kind.value is not None
                else f"the {known.noun} has no name"
            ),
            suggestion(name, known),
        )
        return None
    return cast(type[BaseParams], known[name].Params)


def _kind_of(name: str, node: Node, entries: Mapping[str, Node]) -> Node:
    """Return the node that names the kind: `kind`, or the entry's own name."""
    return entries.get("kind") or replace(node, value=name, text=name)


def read_methods(section: Node, paths: Paths, *, search: bool) -> tuple[MethodSpec, ...]:
    """Read all methods, in the order of the file. With `search` their options may be spaces."""
    faults, specs = paths.faults, []
    for name, node in section.entries(faults, _as_mapping(section)).items():
        entries = node.entries(faults, f"write {name}: {{}}, or its options in place of {{}}")
        kind = _kind_of(name, node, entries)
        params = plugin_params("methods", kind, faults)
        if check_name(node, name, faults) and params is not None:
            values = paths.entries(
                params, {key: value for key, value in entries.items() if key != "kind"}
            )
            known_as = catalog("methods").kind(str(kind.value))
            if refuse_misspelt(params, values, faults):
                specs.append(MethodSpec(name, known_as, ()))
            elif search and any(spaces_in(values)):
                searched, corners = read_searched(params, node, values, faults)
                specs.append(MethodSpec(name, known_as, corners, searched))
            elif refuse_spaces(values, faults):
                specs.append(MethodSpec(name, known_as, ()))
            else:
                specs.append(MethodSpec(name, known_as, _points(params, node, values, faults)))
    return tuple(specs)


def read_tasks(section: Node, languages: Iterable[str], paths: Paths) -> tuple[TaskSpec, ...]:
    """Read all tasks, in the order of the file. Lists are values here, not axes."""
    faults, specs, known = paths.faults, [], list(languages)
    for name, node in section.entries(faults, _as_mapping(section)).items():
        entries = node.entries(faults, f"write {name}: {{}}, or its options in place of {{}}")
        kind = _kind_of(name, node, entries)
        params = plugin_params("tasks", kind, faults)
        chosen = (
            _narrowed(entries["languages"], known, faults) if entries.get("languages") else None
        )
        metrics = _metrics(entries["metrics"], paths) if "metrics" in entries else ()
        if not check_name(node, name, faults) or params is None:
            continue
        values = paths.entries(
            params,
            {key: value for key, value in entries.items() if key not in _OF_EVERY_TASK},
        )
        built = validate(params, node, faults, values=values, also=_OF_EVERY_TASK)
        if built is not None:
            known_as = catalog("tasks").kind(str(kind.value))
            specs.append(TaskSpec(name, known_as, built, chosen, _lines(node), metrics))
    return tuple(specs)


def _as_mapping(section: Node) -> str:
    """Return what a section that is a name, or a list of names, is as a mapping."""
    names = [item.text for item in section.items() if _NAME.fullmatch(item.text)]
    return f"write {{{', '.join(f'{name}: {{}}' for name in names) or 'name: {option: value}'}}}"


def _metrics(node: Node, paths: Paths) -> tuple[MetricSpec, ...]:
    """Read the metrics that are added to a task's own, in the order of the file.

    ``[macro_f1]`` names kinds; ``{p3: {kind: precision_at, k: 3}}`` names metrics, whose kind is
    their name where it is not given.
    """
    if isinstance(node.value, dict):
        entries = list(node.value.items())
    else:
        entries = [(item.text, replace(item, value={})) for item in _names(node, paths.faults)]
    found = [_metric(name, entry, paths) for name, entry in entries]
    return tuple(spec for spec in found if spec is not None)


def _names(node: Node, faults: Faults) -> list[Node]:
    """The different names of a list."""
    found: dict[str, Node] = {}
    for item in node.items() if node.value is not None else ():
        if not isinstance(item.value, str):
            faults.add(
                item,
                f"{item.shown()} is not the name of a metric",
                "write [macro_f1], or {name: {kind: precision_at, k: 3}} for one with options",
            )
        elif item.value in found:
            faults.add(item, f"{item.shown()} is given twice", "keep one")
        else:
            found[item.value] = replace(item, text=item.value)
    return list(found.values())


def _metric(name: str, node: Node, paths: Paths) -> MetricSpec | None:
    entries = node.entries(paths.faults)
    kind = _kind_of(name, node, entries)
    params = plugin_params("metrics", kind, paths.faults)
    if not check_name(node, name, paths.faults) or params is None:
        return None
    given = {key: value for key, value in entries.items() if key != "kind"}
    values = paths.entries(params, given)
    built = validate(params, node, paths.faults, values=values, also=("kind",))
    known_as = catalog("metrics").kind(str(kind.value))
    return MetricSpec(name, known_as, built) if built is not None else None


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
            faults.add(
                item,
                f"{item.shown()} is not one of the grid's languages",
                suggestion(item.text, known, listed="they are"),
            )
    if not node.items():
        faults.add(node, "an empty list", "name languages, or leave `languages` out")
    wanted = {item.value for item in node.items() if isinstance(item.value, str)}
    return tuple(lang for lang in known if lang in wanted)


def _points(
    params: type[BaseParams],
    node: Node,
    values: Mapping[str, Node],
    faults: Faults,
) -> tuple[BaseParams, ...]:
    """Return the product of the lists, in the order of the file. Each value is checked by itself
    first, so that a fault is reported once.
    """
    before = len(faults)
    known = known_keys(params, values, faults, also=("kind",))
    axes = {name: _axis(entry, faults) for name, entry in known.items()}
    first = {name: axis[0] for name, axis in axes.items() if axis}
    validate(params, node, faults, values=first)
    for name, axis in axes.items():
        for item in axis[1:]:
            validate(params, node, faults, values={**first, name: item})
    points = math.prod(len(axis) for axis in axes.values())
    if points > MOST_POINTS:
        faults.add(
            node,
            f"{points:,} points",
            f"a method may have {MOST_POINTS:,}; shorten its lists, or let `search` choose",
        )
    if len(faults) > before:
        return ()
    return _product(params, node, axes, faults)


def _product(
    params: type[BaseParams], node: Node, axes: Mapping[str, list[Node]], faults: Faults
) -> tuple[BaseParams, ...]:
    built: list[BaseParams] = []
    for values in product(*axes.values()):
        point = validate(params, node, faults, values=dict(zip(axes, values, strict=True)))
        if point is not None:
            built.append(point)
    return tuple(built)


def _axis(node: Node, faults: Faults) -> list[Node]:
    """Return the values of an option; a list is an axis, and so is a list in a mapping. Values
    differ, and none is a list.
    """
    if _is_mapping(node):
        return _mappings(node, faults)
    if not isinstance(node.value, list):
        return [node]
    if not node.value:
        faults.add(node, "an empty list", "an axis needs at least one value")
    values = [
        value
        for item in node.value
        for value in (_mappings(item, faults) if _is_mapping(item) else [item])
    ]
    seen: list[tuple[type, Any]] = []
    for item in values:
        value = item.plain()
        identity = (bool if isinstance(value, bool) else type(None), value)
        if isinstance(value, list):
            faults.add(
                item,
                "a list within a list",
                "a list is an axis, and no option of a method takes a list as its value",
            )
        elif identity in seen:
            faults.add(
                item, f"{item.shown()} is given twice", "the values of an axis are different"
            )
        seen.append(identity)
    return values


def _mappings(node: Node, faults: Faults) -> list[Node]:
    """Return the mappings that a mapping stands for: the product of the lists in it."""
    axes = {name: _axis(entry, faults) for name, entry in node.value.items()}
    return [
        replace(node, value=dict(zip(axes, values, strict=True)))
        for values in product(*axes.values())
    ]


def _is_mapping(node: Node) -> bool:
    return isinstance(node.value, dict)
