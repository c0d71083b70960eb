"""Mappings of a grid file as options models, and pydantic's errors as plain faults with lines."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from raxalign.config._faults import Faults, Node, nearest, suggestion
from raxalign.options.params import about, models_in, removed_options

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "a text": ("string_type",),
    "a list": ("list_type", "tuple_type", "set_type", "frozen_set_type"),
    "a mapping": ("dict_type", "model_type", "model_attributes_type"),
    "empty": ("none_required",),
}
_KINDS = {kind: words for words, kinds in _EXPECTED.items() for kind in kinds}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def validate(
    model: type[Model],
    node: Node,
    faults: Faults,
    *,
    also: Iterable[str] = (),
    values: Mapping[str, Node] | None = None,
) -> Model | None:
    """Return the model of a mapping, with absolute paths, or None after its faults were added.

    The mapping may hold the keys `also` besides those of the model; `values` are the entries where
    they are not those of the node itself.
    """
    entries = node.entries(faults) if values is None else values
    known = known_keys(model, entries, faults, also=also)
    wrong = _truths_for_numbers(model, known, faults)
    within = Node(known, node.line, node.key)
    try:
        built = model.model_validate(_as_written(within), context={"folder": faults.folder})
    except ValidationError as error:
        for fault in _translated(model, within, error.errors(include_url=False)):
            faults.add(*fault)
        return None
    return None if wrong else built


def known_keys(
    model: type[BaseModel], entries: Mapping[str, Node], faults: Faults, *, also: Iterable[str] = ()
) -> dict[str, Node]:
    """Return the entries that a model has fields for; the others are faults."""
    names = key_names(model)
    for name, entry in entries.items():
        if name not in names:
            faults.add(entry, *_unknown(model, name, also))
    return {name: entry for name, entry in entries.items() if name in names}


def key_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the YAML names of a model's fields, each with the field's name in code."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Return the model that an error's location leads to: parts are YAML names, positions, and the
    names of a union's models.
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
    """Return the members of a union, unions within it included; `Annotated` is left out."""
    if get_origin(annotation) is Annotated:
        return alternatives(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        return [part for entry in get_args(annotation) for part in alternatives(entry)]
    return [annotation]


class _Written:
    """A number that is a text as it was written, where a text is required: ``layers: 9``."""

    text: str

    def __str__(self) -> str:
        return self.text


class _Int(_Written, int): ...


class _Float(_Written, float): ...


def _as_written(node: Node) -> Any:
    """Return a value whose numbers remember how they were written."""
    if isinstance(node.value, dict):
        return {name: _as_written(entry) for name, entry in node.value.items()}
    if isinstance(node.value, list):
        return [_as_written(item) for item in node.value]
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return node.value
    number = (_Int if isinstance(node.value, int) else _Float)(node.value)
    number.text = node.text
    return number


def _truths_for_numbers(
    model: type[BaseModel], entries: Mapping[str, Node], faults: Faults
) -> bool:
    """Add faults of `true` where a number belongs (pydantic takes it for 1); return if any."""
    before = len(faults)
    for name, field in key_names(model).items():
        entry, kinds = entries.get(name), {*alternatives(model.model_fields[field].annotation)}
        number = kinds & {int, float} and bool not in kinds
        if entry is not None and isinstance(entry.value, bool) and number:
            faults.add(entry, f"{entry.shown()} is not a number")
    return len(faults) > before


def _translated(
    model: type[BaseModel], node: Node, details: list[Any]
) -> Iterator[tuple[Node, str, str]]:
    """Yield the faults of a model's errors. Errors of a union's branches become one fault, or the
    faults of the branch that the value is meant for.
    """
    forks: dict[int, list[tuple[Node, Any]]] = {}
    for detail in details:
        target, fork = _place(node, detail)
        if fork is None:
            yield _fault(model, target, detail)
        else:
            forks.setdefault(id(fork), [(fork, None)]).append((target, detail))
    for (fork, _), *group in forks.values():
        several = isinstance(fork.value, dict | list)
        meant = [
            (target, detail)
            for target, detail in group
            if _remedy(detail) or (several and (target is not fork or detail["type"] == "missing"))
        ]
        if meant:
            yield from (_fault(model, target, detail) for target, detail in meant)
        else:
            yield _not_permitted(group[0][0], [word for _, one in group for word in _words(one)])


def _place(node: Node, detail: Any) -> tuple[Node, Node | None]:
    """Return the deepest node of the file on the way to an error, and where a union forked."""
    fork = None
    for part in detail["loc"][: -1 if detail["type"] == "missing" else None]:
        inside = node.value
        there = isinstance(inside, dict) and part in inside
        if there or (isinstance(inside, list) and part in range(len(inside))):
            node = inside[part]
        else:
            fork = fork or node
    return node, fork


def _fault(model: type[BaseModel], target: Node, detail: Any) -> tuple[Node, str, str]:
    """Return where an error is, what is wrong, and what would be right."""
    kind, owner = detail["type"], model_at(model, detail["loc"][:-1])
    if kind == "missing":
        name = str(detail["loc"][-1])
        at = Node(None, target.line, f"{target.key}.{name}" if target.key else name)
        return at, "is missing", _about(owner, name) or "it has no default"
    if kind == "extra_forbidden":
        return target, *_unknown(owner, target.name)
    if kind == "literal_error":
        return _not_permitted(target, _words(detail))
    if kind in _BOUNDS:
        small = "small" if kind.startswith("greater") else "large"
        return target, f"{target.shown()} is too {small}", _words(detail)[0]
    if kind in {"value_error", "assertion_error"}:
        return target, _words(detail)[0], _remedy(detail)
    if kind in _KINDS:
        return target, f"{target.shown()} is not {_KINDS[kind]}", _about(owner, target.name)
    return target, f"{target.shown()}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", ""


def _not_permitted(target: Node, options: Iterable[str]) -> tuple[Node, str, str]:
    """Return the fault of a value that is none of the options."""
    options = list(dict.fromkeys(options))
    named = [option for option in options if " " not in option]
    near = nearest(target.value, named) if isinstance(target.value, str) else None
    listed = f"permitted: {', '.join(options)}"
    right = f"did you mean {near}? {listed}" if near else listed
    return target, f"{target.shown()} is not permitted", right


def _words(detail: Any) -> list[str]:
    """Return what an error's value should have been: the values of a Literal (pydantic writes
    ``'a', 'b' or 3``), or one description.
    """
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        values = re.findall(r"'([^']*)'|(\b(?:\d+|True|False|None)\b)", context["expected"])
        return [quoted or bare for quoted, bare in values]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return [f"{words} {context[name]:g}"]
    if kind in {"value_error", "assertion_error"}:
        error = context["error"]
        return [error.args[0] if _remedy(detail) else str(error)]
    return [_KINDS.get(kind) or str(detail["msg"]).lower()]


def _remedy(detail: Any) -> str:
    """Return the second argument of a `ValueError`, which is what would be right."""
    args: tuple[Any, ...] = getattr(detail.get("ctx", {}).get("error"), "args", ())
    return args[1] if len(args) == 2 and isinstance(args[1], str) else ""


def _unknown(model: type[BaseModel] | None, name: str, also: Iterable[str] = ()) -> tuple[str, str]:
    """Return what is wrong with a key that a model does not have, and what would be right; a
    field's name in code leads to its name in YAML.
    """
    if model is None:
        return "unknown key", ""
    if option := removed_options(model).get(name):
        return "was removed", option.instead
    names = key_names(model)
    for alias, field in names.items():
        if name == field:
            return "unknown key", f"did you mean {alias}?"
    every = [*names, *also]
    return "unknown key", suggestion(name, every) if every else "it has no options"


def _about(model: type[BaseModel] | None, name: str) -> str:
    """Describe an option by its declaration, where it has a description."""
    field = key_names(model).get(name) if model else None
    sentence = about(model, field).rstrip(".") if model and field else ""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence
