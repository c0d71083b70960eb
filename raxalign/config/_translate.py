"""Pydantic's errors as faults of a grid file, in plain words and at the right line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from raxalign.config._faults import nearest
from raxalign.config._fields import key_names, model_at, right_key
from raxalign.config.yaml_file import Node

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "none_required": "empty",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


@dataclass(frozen=True)
class Place:
    """Where an error is: the deepest node of the file on its way, the node at which a union forked,
    and the name of a missing key.
    """

    target: Node
    fork: Node | None
    missing: str | None


def steps(node: Node, loc: tuple[int | str, ...]) -> Iterator[tuple[int | str, Node]]:
    """Yield the parts of an error's location that are in the file, each with its node."""
    for part in loc:
        inside = node.value
        if isinstance(inside, dict) and part in inside:
            node = inside[str(part)]
        elif isinstance(inside, list) and isinstance(part, int) and part < len(inside):
            node = inside[part]
        else:
            continue
        yield part, node


def walk(node: Node, loc: tuple[int | str, ...], *, missing: bool = False) -> Place:
    name = str(loc[-1]) if missing and loc else None
    parts = loc[:-1] if missing else loc
    target, fork = node, None
    for part in parts:
        step = next(steps(target, (part,)), None)
        if step is not None:
            target = step[1]
        else:
            fork = fork or target
    return Place(target, fork, name)


def translate(
    model: type[BaseModel], node: Node, details: list[Any]
) -> Iterator[tuple[Node, str, str]]:
    """Yield the faults of a model's errors. Errors of a union's branches become one fault, or the
    faults of the branch that the value is meant for.
    """
    placed = [
        (walk(node, detail["loc"], missing=detail["type"] == "missing"), detail)
        for detail in details
    ]
    forks: dict[int, list[tuple[Place, Any]]] = {}
    for place, detail in placed:
        if place.fork is None:
            yield _fault(model, place, detail)
        else:
            forks.setdefault(id(place.fork), []).append((place, detail))
    for group in forks.values():
        deeper = [
            (place, detail)
            for place, detail in group
            if place.target is not place.fork or place.missing
        ]
        fork = group[0][0].fork
        if deeper and fork is not None and isinstance(fork.value, dict | list):
            for place, detail in deeper:
                yield _fault(model, place, detail)
        else:
            yield _joined(group)


def _joined(group: list[tuple[Place, Any]]) -> tuple[Node, str, str]:
    """Return one fault for a value that suits no branch of a union."""
    target = group[0][0].target
    options: list[str] = []
    for _, detail in group:
        options += _permitted(detail) if detail["type"] == "literal_error" else [_expected(detail)]
    near = (
        nearest(str(target.value), [option for option in options if " " not in option])
        if isinstance(target.value, str)
        else None
    )
    permitted = f"permitted: {', '.join(dict.fromkeys(options))}"
    return (
        target,
        f"{target.shown()} is not permitted",
        f"did you mean {near}? {permitted}" if near else permitted,
    )


def _fault(model: type[BaseModel], place: Place, detail: Any) -> tuple[Node, str, str]:
    kind, target = detail["type"], place.target
    if kind == "missing" and place.missing is not None:
        at = f"{target.key}.{place.missing}" if target.key else place.missing
        return (
            Node(None, target.line, at),
            "is missing",
            _about(model_at(model, detail["loc"][:-1]), place.missing),
        )
    if kind == "extra_forbidden":
        owner = model_at(model, detail["loc"][:-1])
        return target, "unknown key", right_key(target.name, key_names(owner)) if owner else ""
    if kind == "literal_error":
        permitted = _permitted(detail)
        near = nearest(str(target.value), permitted)
        listed = f"permitted: {', '.join(permitted)}"
        return (
            target,
            f"{target.shown()} is not permitted",
            f"did you mean {near}? {listed}" if near else listed,
        )
    if kind in _BOUNDS:
        return (
            target,
            f"{target.shown()} is too {'small' if kind.startswith('greater') else 'large'}",
            _expected(detail),
        )
    if kind in {"value_error", "assertion_error"}:
        return target, detail["msg"].split(", ", 1)[-1], ""
    if kind in _EXPECTED:
        owner = model_at(model, detail["loc"][:-1])
        return (
            target,
            f"{target.shown()} is not {_expected(detail)}",
            _about(owner, target.name, ""),
        )
    return target, f"{target.shown()}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", ""


def _expected(detail: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{words} {context[name]:g}"
    if kind in {"value_error", "assertion_error"}:
        return str(detail["msg"]).split(", ", 1)[-1]
    return _EXPECTED.get(kind) or str(detail["msg"]).lower()


def _permitted(detail: Any) -> list[str]:
    """The values of a Literal, from pydantic's ``'a', 'b' or 3``."""
    return [
        quoted or bare
        for quoted, bare in re.findall(
            r"'([^']*)'|(\b(?:\d+|True|False|None)\b)", detail["ctx"]["expected"]
        )
    ]


def _about(model: type[BaseModel] | None, name: str, unknown: str = "it has no default") -> str:
    """Describe a missing option by its declaration, where it has a description."""
    field = model.model_fields.get(key_names(model).get(name, "")) if model else None
    if field is None or not field.description:
        return unknown
    sentence = field.description.rstrip(".")
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence
