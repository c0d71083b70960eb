"""Nodes to pydantic models, and pydantic's errors to faults in plain words at the right line."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from raxalign.config._faults import Faults, nearest, suggestion
from raxalign.config._yaml import Node
from raxalign.config.params import models_in

Model = TypeVar("Model", bound=BaseModel)

_ROUNDS = 4  # a union may first say so for one branch, then for another

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


def key_names(model: type[BaseModel]) -> dict[str, str]:
    """The YAML names of a model's fields, each with the field's name in code."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def validate(
    model: type[Model],
    node: Node,
    faults: Faults,
    *,
    also: Iterable[str] = (),
    values: Mapping[str, Node] | None = None,
) -> Model | None:
    """The model of a mapping, or None after its faults were added.

    `values` are its entries where they are not those of the node itself; `also` names keys that the
    mapping may hold beside the model's.
    """
    entries = node.entries(faults) if values is None else values
    return _build(
        model, Node(known_keys(model, entries, faults, also=also), node.line, node.key), faults
    )


def known_keys(
    model: type[BaseModel], entries: Mapping[str, Node], faults: Faults, *, also: Iterable[str] = ()
) -> dict[str, Node]:
    """The entries that a model has fields for; the others are faults."""
    names = key_names(model)
    for name, entry in entries.items():
        if name not in names:
            faults.add(entry, "unknown key", _right_key(name, names, also))
    return {name: entry for name, entry in entries.items() if name in names}


def _right_key(name: str, names: Mapping[str, str], also: Iterable[str] = ()) -> str:
    """What a wrong key should be; a field's name in code leads to its name in YAML."""
    for alias, field in names.items():
        if name == field:
            return f"did you mean {alias}?"
    every = [*names, *also]
    return suggestion(name, every) if every else "it has no options"


def _build(model: type[Model], node: Node, faults: Faults) -> Model | None:
    """Validate; a number where a text is wanted is taken as it is written (``layers: 9``)."""
    value, wrong = node.plain(), _truths_for_numbers(model, node.value, faults)
    for _ in range(_ROUNDS):
        try:
            built = model.model_validate(value)
        except ValidationError as error:
            details = error.errors(include_url=False)
            if _write_out(value, node, details):
                continue
            for translated in _translate(model, node, details):
                faults.add(*translated)
            return None
        return None if wrong else built
    return None


def _truths_for_numbers(
    model: type[BaseModel], entries: Mapping[str, Node], faults: Faults
) -> bool:
    """Faults of `true` where a number belongs (pydantic takes it for 1); whether there is one."""
    before = len(faults)
    for name, field in key_names(model).items():
        entry, kinds = entries.get(name), alternatives(model.model_fields[field].annotation)
        if (
            entry is not None
            and isinstance(entry.value, bool)
            and {int, float} & set(kinds)
            and bool not in kinds
        ):
            faults.add(entry, f"{entry.shown()} is not a number")
    return len(faults) > before


def _write_out(value: Any, node: Node, details: Iterable[Any]) -> bool:
    """Put texts in place of numbers where texts are wanted; whether any was put."""
    changed = False
    for detail in details:
        place = [part for part, _ in _steps(node, detail["loc"])]
        target = _walk(node, detail["loc"]).target
        if (
            detail["type"] == "string_type"
            and place
            and isinstance(target.value, int | float)
            and not isinstance(target.value, bool)
        ):
            parent = value
            for part in place[:-1]:
                parent = parent[part]
            changed = changed or parent[place[-1]] != target.text
            parent[place[-1]] = target.text
    return changed


@dataclass(frozen=True)
class _Place:
    """Where an error is: the deepest node of the file on its way, the node at which a union forked,
    and the name of a missing key.
    """

    target: Node
    fork: Node | None
    missing: str | None


def _steps(node: Node, loc: tuple[int | str, ...]) -> Iterator[tuple[int | str, Node]]:
    """The parts of an error's location that are in the file, each with its node."""
    for part in loc:
        inside = node.value
        if isinstance(inside, dict) and part in inside:
            node = inside[str(part)]
        elif isinstance(inside, list) and isinstance(part, int) and part < len(inside):
            node = inside[part]
        else:
            continue
        yield part, node


def _walk(node: Node, loc: tuple[int | str, ...], *, missing: bool = False) -> _Place:
    name = str(loc[-1]) if missing and loc else None
    parts = loc[:-1] if missing else loc
    target, fork = node, None
    for part in parts:
        step = next(_steps(target, (part,)), None)
        if step is not None:
            target = step[1]
        else:
            fork = fork or target
    return _Place(target, fork, name)


def _translate(
    model: type[BaseModel], node: Node, details: list[Any]
) -> Iterator[tuple[Node, str, str]]:
    """The faults of a model's errors: those of a union's branches are one fault, or those of the
    branch that the value is meant for.
    """
    placed = [
        (_walk(node, detail["loc"], missing=detail["type"] == "missing"), detail)
        for detail in details
    ]
    forks: dict[int, list[tuple[_Place, Any]]] = {}
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


def _joined(group: list[tuple[_Place, Any]]) -> tuple[Node, str, str]:
    """One fault for a value that suits no branch of a union."""
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


def _fault(model: type[BaseModel], place: _Place, detail: Any) -> tuple[Node, str, str]:
    kind, target = detail["type"], place.target
    if kind == "missing" and place.missing is not None:
        at = f"{target.key}.{place.missing}" if target.key else place.missing
        return (
            Node(None, target.line, at),
            "is missing",
            _about(_model_at(model, detail["loc"][:-1]), place.missing),
        )
    if kind == "extra_forbidden":
        owner = _model_at(model, detail["loc"][:-1])
        return target, "unknown key", _right_key(target.name, key_names(owner)) if owner else ""
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
        return target, f"{target.shown()} is not {_expected(detail)}", ""
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


def _about(model: type[BaseModel] | None, name: str) -> str:
    """What a missing option is, where its declaration says so."""
    field = model.model_fields.get(key_names(model).get(name, "")) if model else None
    if field is None or not field.description:
        return "it has no default"
    sentence = field.description.rstrip(".")
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that an error's location leads to: parts are YAML names, positions, and the names
    of a union's models.
    """
    candidates: list[type[BaseModel]] = [model]
    for part in loc:
        named = [entry for entry in candidates if entry.__name__ == part]
        if named:
            candidates = named
            continue
        for entry in candidates:
            field = entry.model_fields.get(key_names(entry).get(str(part), ""))
            if field is not None:
                candidates = list(models_in(field.annotation))
                break
    return candidates[0] if candidates else None


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, unions within it included; `Annotated` is left out."""
    if get_origin(annotation) is Annotated:
        return alternatives(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return [part for entry in get_args(annotation) for part in alternatives(entry)]
    return [annotation]
