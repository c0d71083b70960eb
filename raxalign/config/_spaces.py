"""Reading the spaces of a method whose params are searched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pydantic import BaseModel

from raxalign.config._faults import Faults, nearest
from raxalign.config._fields import alternatives, key_names, model_at
from raxalign.config._validate import known_keys, validate
from raxalign.config.params import BaseParams, models_in, path_fields
from raxalign.config.spaces import KINDS, Space, Value, as_value
from raxalign.config.yaml_file import Node
from raxalign.errors import RaxalignError

_MOST_CORNERS = 64
_EXAMPLES = {
    "log_uniform": "two positive numbers, the smaller one first",
    "uniform": "two numbers, the smaller one first",
    "int": "two whole numbers, the smaller one first",
    "choice": "a list of different values",
}
_SHOWN = {
    "log_uniform": "{log_uniform: [0.01, 10]}",
    "uniform": "{uniform: [0, 1]}",
    "int": "{int: [1, 4]}",
    "choice": "{choice: [last, 9]}",
}


@dataclass(frozen=True)
class SearchedMethod:
    """A method whose params are searched: its options as they were written, and their spaces."""

    params: type[BaseParams]
    node: Node
    entries: Mapping[str, Node]
    spaces: tuple[Space, ...]

    def point(self, values: Mapping[str, Value]) -> BaseParams:
        """Return the options with a value in place of each space.

        Raises `RaxalignError` where the method does not permit these values together.
        """
        faults = Faults()
        chosen = self.nodes(values)
        built = validate(self.params, self.node, faults, values=_put(self.entries, chosen))
        if built is None:
            told = "; ".join(f"{fault.key}: {fault.problem}" for fault in faults.found)
            raise RaxalignError(f"these values do not go together: {told}")
        return built

    def nodes(self, values: Mapping[str, Value]) -> dict[str, Node]:
        """Return the values by the names of their spaces, with the lines of these."""
        return {space.name: _node_of(self._written(space), space, values) for space in self.spaces}

    def _written(self, space: Space) -> Node:
        found: Any = self.entries
        for part in space.name.split("."):
            found = (found.value if isinstance(found, Node) else found)[part]
        assert isinstance(found, Node)
        return found


def spaces_in(entries: Mapping[str, Node], before: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the dotted names of the options that have a space, with the space as it is written."""
    for name, node in entries.items():
        if is_space(node):
            yield f"{before}{name}", node
        elif isinstance(node.value, dict):
            yield from spaces_in(node.value, f"{before}{name}.")


def is_space(node: Node) -> bool:
    """Whether a value is a space: a mapping of one of the kinds of spaces."""
    return isinstance(node.value, dict) and len(node.value) == 1 and set(node.value) <= set(KINDS)


def refuse_spaces(entries: Mapping[str, Node], faults: Faults) -> bool:
    """Add a fault for each space of a grid without a `search` section; returns whether there is
    one.
    """
    found = list(spaces_in(entries))
    for _, node in found:
        faults.add(
            node,
            f"{next(iter(node.value))} without `search`",
            "give a list of values, or add a section `search`",
        )
    return bool(found)


def read_searched(
    params: type[BaseParams], node: Node, entries: Mapping[str, Node], faults: Faults
) -> tuple[SearchedMethod | None, tuple[BaseParams, ...]]:
    """Read a method with spaces.

    Returns:
        The method (None, after faults), and its options at the corners of the space: every choice,
        with the lower ends of the ranges.
    """
    before = len(faults)
    known = known_keys(params, entries, faults, also=("kind",))
    _refuse_lists(known, faults)
    spaces = [
        space
        for name, written in spaces_in(known)
        if (space := _space(params, name, written, faults)) is not None
    ]
    if len(faults) > before:
        return None, ()
    searched = SearchedMethod(params, node, known, tuple(spaces))
    corners = []
    for number, values in enumerate(_corners(spaces)):
        built = validate(params, node, faults, values=_put(known, searched.nodes(values)))
        if built is not None and number < _count(spaces):
            corners.append(built)
    return (None, ()) if len(faults) > before else (searched, tuple(corners))


def _count(spaces: list[Space]) -> int:
    """The number of corners that are kept: those with the lower ends of the ranges."""
    return len(_choices(spaces))


def _corners(spaces: list[Space]) -> list[dict[str, Value]]:
    """All choices with the lower ends of the ranges, then each range's higher end."""
    low = {space.name: space.low for space in spaces if space.kind != "choice"}
    every: list[dict[str, Value]] = [{**low, **chosen} for chosen in _choices(spaces)]
    return [*every, *({**every[0], s.name: s.high} for s in spaces if s.kind != "choice")]


def _choices(spaces: list[Space]) -> list[dict[str, Value]]:
    """The product of the choices; where it is large, each choice with the first of the others."""
    names = [space.name for space in spaces if space.kind == "choice"]
    choices = [space.choices for space in spaces if space.kind == "choice"]
    if math.prod(map(len, choices)) <= _MOST_CORNERS:
        return [dict(zip(names, values, strict=True)) for values in product(*choices)]
    first = {name: values[0] for name, values in zip(names, choices, strict=True)}
    others = (
        {**first, name: value}
        for name, values in zip(names, choices, strict=True)
        for value in values[1:]
    )
    return [first, *others]


def _space(params: type[BaseParams], name: str, node: Node, faults: Faults) -> Space | None:
    (kind, entry), *_ = node.value.items()
    if not _fits(params, name, kind, node, faults):
        return None
    if kind == "choice":
        return _choice_space(name, entry, faults)
    ends = entry.plain()
    number = int if kind == "int" else int | float
    good = (
        isinstance(ends, list)
        and len(ends) == 2
        and all(isinstance(end, number) and not isinstance(end, bool) for end in ends)
        and (0 if kind == "log_uniform" else -math.inf) < ends[0] < ends[1] < math.inf
    )
    if not good:
        faults.add(entry, f"{kind} takes {_EXAMPLES[kind]}", f"for example {_SHOWN[kind]}")
        return None
    return Space(name, kind, float(ends[0]), float(ends[1]))


def _choice_space(name: str, entry: Node, faults: Faults) -> Space | None:
    values = entry.value if isinstance(entry.value, list) else []
    labels = [as_value(item.plain()) for item in values]
    before = len(faults)
    for item in values:
        if is_space(item) or isinstance(item.value, list):
            what = "a space" if is_space(item) else "a list"
            faults.add(item, f"{what} within a choice", "make a method of its own of each choice")
    if len(values) < 2 or len({(isinstance(label, bool), label) for label in labels}) < len(labels):
        problem = f"choice takes {_EXAMPLES['choice']}, two or more"
        faults.add(entry, problem, f"for example {_SHOWN['choice']}")
    return Space(name, "choice", choices=tuple(labels)) if len(faults) == before else None


def _fits(params: type[BaseParams], name: str, kind: str, node: Node, faults: Faults) -> bool:
    """Check a space against the type of its option; a space that does not fit is a fault."""
    *parts, last = name.split(".")
    model = model_at(params, tuple(parts))
    field = model.model_fields.get(key_names(model).get(last, "")) if model is not None else None
    if model is None or field is None:
        return True
    if issubclass(model, BaseParams) and key_names(model)[last] in path_fields(model):
        faults.add(node, "files are not searched", "make a method of its own for each file")
        return False
    kinds = set(alternatives(field.annotation))
    if kind == "choice" or float in kinds or (kind == "int" and int in kinds):
        return True
    if int in kinds:
        faults.add(node, f"{kind} gives real numbers, {last} is a whole number", _SHOWN["int"])
    else:
        faults.add(node, f"{last} does not take numbers", f"write {_SHOWN['choice']}")
    return False


def refuse_misspelt(params: type[BaseModel], entries: Mapping[str, Node], faults: Faults) -> bool:
    """Add a fault for each mapping that is nearly a space, where an option takes no mapping;
    returns whether there is one.
    """
    before = len(faults)
    for name, node in entries.items():
        field = params.model_fields.get(key_names(params).get(name, ""))
        simple = field is not None and not any(models_in(field.annotation))
        if simple and isinstance(node.value, dict) and len(node.value) == 1 and not is_space(node):
            kind = next(iter(node.value))
            near = nearest(kind, KINDS)
            if near is not None:
                faults.add(node, f"unknown space {kind!r}", f"did you mean {near}?")
    return len(faults) > before


def _refuse_lists(entries: Mapping[str, Node], faults: Faults) -> None:
    for node in entries.values():
        if isinstance(node.value, list):
            faults.add(
                node,
                "a list in a method whose params are searched",
                "write {choice: [...]} to search it too, or make a method of each value",
            )
        elif isinstance(node.value, dict) and not is_space(node):
            _refuse_lists(node.value, faults)


def _node_of(written: Node, space: Space, values: Mapping[str, Value]) -> Node:
    """Return a value in place of its space, with the line of the space."""
    value = values[space.name]
    (entry,) = written.value.values()
    if space.kind == "choice":
        chosen: Node = entry.value[space.choices.index(value)]
        return replace(chosen, key=written.key)
    return Node(value, written.line, written.key, f"{value:g}" if value is not None else "")


def _put(
    entries: Mapping[str, Node], chosen: Mapping[str, Node], before: str = ""
) -> dict[str, Node]:
    """Return entries with the chosen values in place of their spaces."""
    found = {}
    for name, node in entries.items():
        full = f"{before}{name}"
        if full in chosen:
            node = chosen[full]
        elif isinstance(node.value, dict):
            node = replace(node, value=_put(node.value, chosen, f"{full}."))
        found[name] = node
    return found
