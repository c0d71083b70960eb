"""Mappings of a grid file as options models, and pydantic's errors as plain faults with lines. Of a
method a list is an axis and a space is searched; its points are the products.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from raxalign.errors import RaxalignError
from raxalign.grid.search import Space, Value
from raxalign.grid.yaml_file import Faults, Node
from raxalign.options.params import BaseParams, about, models_in, removed_options

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
    known = _known_keys(model, entries, faults, also=also)
    wrong = _truths_for_numbers(model, known, faults)
    within = Node(known, node.line, node.key)
    try:
        built = model.model_validate(_as_written(within), context={"folder": faults.folder})
    except ValidationError as error:
        for fault in _translated(model, within, error.errors(include_url=False)):
            faults.add(*fault)
        return None
    return None if wrong else built


def _known_keys(
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


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
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
    kind, owner = detail["type"], _model_at(model, detail["loc"][:-1])
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
    near = Faults.nearest(target.value, named) if isinstance(target.value, str) else None
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
    return "unknown key", Faults.suggestion(name, every) if every else "it has no options"


def _about(model: type[BaseModel] | None, name: str) -> str:
    """Describe an option by its declaration, where it has a description."""
    field = key_names(model).get(name) if model else None
    sentence = about(model, field).rstrip(".") if model and field else ""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


MOST_POINTS = 1_000_000
_MOST_CORNERS = 64
_FORMS = {
    "log_uniform": ("two positive numbers, the smaller one first", "{log_uniform: [0.01, 10]}"),
    "uniform": ("two numbers, the smaller one first", "{uniform: [0, 1]}"),
    "int": ("two whole numbers, the smaller one first", "{int: [1, 4]}"),
    "choice": ("a list of different values, two or more", "{choice: [last, 9]}"),
}


@dataclass(frozen=True)
class SearchedMethod:
    """A method whose params are searched: its options as they were written, and their spaces. Its
    paths are relative to `folder`.
    """

    params: type[BaseParams]
    node: Node
    entries: Mapping[str, Node]
    spaces: tuple[Space, ...]
    folder: Path | None

    def point(self, values: Mapping[str, Value]) -> BaseParams:
        """Return the options with a value in place of each space.

        Raises `RaxalignError` where the method does not permit these values together.
        """
        faults = Faults(self.folder)
        built = validate(self.params, self.node, faults, values=self.written(values))
        if built is None:
            told = "; ".join(f"{fault.key}: {fault.problem}" for fault in faults.found)
            raise RaxalignError(f"these values do not go together: {told}")
        return built

    def written(self, values: Mapping[str, Value]) -> dict[str, Node]:
        """Return the options as a file would have them with these values, and the spaces' lines."""
        spaces = {space.name: space for space in self.spaces}

        def chosen(name: str, node: Node) -> Node:
            if name not in spaces:
                put = _each(node.value, name, chosen) if isinstance(node.value, dict) else None
                return node if put is None else replace(node, value=put)
            (entry,), value = node.value.values(), values[name]
            if spaces[name].kind == "choice":
                choice: Node = entry.value[spaces[name].choices.index(value)]
                return replace(choice, key=node.key)
            return Node(value, node.line, node.key, f"{value:g}" if value is not None else "")

        return _each(self.entries, "", chosen)

    @classmethod
    def read(
        cls,
        params: type[BaseParams],
        node: Node,
        values: Mapping[str, Node],
        faults: Faults,
        *,
        search: bool,
    ) -> tuple[tuple[BaseParams, ...], SearchedMethod | None]:
        """Read the options of a method, its `values` but for `kind`: its points, and the searched
        method where an option is a space (which takes a section `search`). The points are then the
        corners of the space, every choice with the lower ends of the ranges.
        """
        known = _known_keys(params, values, faults, also=("kind",))
        before, spaces = len(faults), list(_spaces_in(known))
        _refuse_misspelt(params, known, faults)
        for _, space in spaces if not search else ():
            told = f"{next(iter(space.value))} without `search`"
            faults.add(space, told, "give a list of values, or add a section `search`")
        if len(faults) > before:
            return (), None
        if spaces:
            return _searched(params, node, known, spaces, faults)
        return _product(params, node, known, faults), None


def _each(entries: Mapping[str, Node], before: str, change: Any) -> dict[str, Node]:
    """Return changed entries; `change` gets the dotted name and the node of each."""
    return {name: change(f"{before}.{name}".lstrip("."), node) for name, node in entries.items()}


def _product(
    params: type[BaseParams], node: Node, known: Mapping[str, Node], faults: Faults
) -> tuple[BaseParams, ...]:
    """Return the points of options whose lists are axes; none after a fault."""
    start = len(faults)
    axes = {name: _axis(entry, faults) for name, entry in known.items()}
    points = math.prod(len(axis) for axis in axes.values())
    if points > MOST_POINTS:
        remedy = f"a method may have {MOST_POINTS:,}; shorten its lists, or let `search` choose"
        faults.add(node, f"{points:,} configurations", remedy)
    first = {name: axis[0] for name, axis in axes.items() if axis}
    for name, axis in axes.items():  # each value by itself, with the first ones of the others
        for item in axis:
            validate(params, node, faults, values={**first, name: item})
    if len(faults) > start:
        return ()
    every = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    built = (validate(params, node, faults, values=values) for values in every)
    return tuple(point for point in built if point is not None)


def _axis(node: Node, faults: Faults) -> list[Node]:
    """Return the values of an option; a list, in a mapping too, is an axis of different values."""
    if isinstance(node.value, dict):
        return _mappings(node, faults)
    if not isinstance(node.value, list):
        return [node]
    if not node.value:
        faults.add(node, "an empty list", "an axis needs at least one value")
    values = [
        value
        for item in node.value
        for value in (_mappings(item, faults) if isinstance(item.value, dict) else [item])
    ]
    seen: list[tuple[type, Any]] = []
    for item in values:
        value = item.plain()
        identity = (bool if isinstance(value, bool) else type(None), value)
        if isinstance(value, list):
            remedy = "a list is an axis, and no option of a method takes a list as its value"
            faults.add(item, "a list within a list", remedy)
        elif identity in seen:
            remedy = "the values of an axis are different"
            faults.add(item, f"{item.shown()} is given twice", remedy)
        seen.append(identity)
    return values


def _mappings(node: Node, faults: Faults) -> list[Node]:
    """Return the mappings that a mapping stands for: the product of the lists in it."""
    axes = {name: _axis(entry, faults) for name, entry in node.value.items()}
    return [
        replace(node, value=dict(zip(axes, values, strict=True)))
        for values in product(*axes.values())
    ]


def _spaces_in(entries: Mapping[str, Node], before: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the dotted names of the options that have a space, with the space as it is written."""
    for name, node in entries.items():
        if _is_space(node):
            yield f"{before}{name}", node
        elif isinstance(node.value, dict):
            yield from _spaces_in(node.value, f"{before}{name}.")


def _is_space(node: Node) -> bool:
    return (
        isinstance(node.value, dict)
        and len(node.value) == 1
        and set(node.value) <= set(Space.KINDS)
    )


def _refuse_misspelt(params: type[BaseModel], entries: Mapping[str, Node], faults: Faults) -> None:
    """Add a fault for each mapping that is nearly a space, where an option takes no mapping."""
    for name, node in entries.items():
        simple = not any(models_in(params.model_fields[key_names(params)[name]].annotation))
        if simple and isinstance(node.value, dict) and len(node.value) == 1 and not _is_space(node):
            kind = next(iter(node.value))
            near = Faults.nearest(kind, Space.KINDS)
            if near is not None:
                faults.add(node, f"unknown space {kind!r}", f"did you mean {near}?")


def _searched(
    params: type[BaseParams],
    node: Node,
    known: Mapping[str, Node],
    written: list[tuple[str, Node]],
    faults: Faults,
) -> tuple[tuple[BaseParams, ...], SearchedMethod | None]:
    """Read a method with spaces; check every choice, and both ends of every range."""
    before = len(faults)
    _refuse_lists(known, faults)
    found = [_space(params, name, entry, faults) for name, entry in written]
    spaces = [space for space in found if space is not None]
    if len(faults) > before:
        return (), None
    searched = SearchedMethod(params, node, known, tuple(spaces), faults.folder)
    low = {space.name: space.low for space in spaces if space.kind != "choice"}
    corners: list[dict[str, Value]] = [{**low, **chosen} for chosen in _choices(spaces)]
    high: list[dict[str, Value]] = [{**corners[0], s.name: s.high} for s in spaces if s.name in low]
    built = [
        validate(params, node, faults, values=searched.written(values))
        for values in [*corners, *high]
    ]
    points = tuple(point for point in built[: len(corners)] if point is not None)
    return ((), None) if len(faults) > before else (points, searched)


def _choices(spaces: list[Space]) -> list[dict[str, Value]]:
    """The product of the choices; where it is large, each choice with the first of the others."""
    choices = {space.name: space.choices for space in spaces if space.kind == "choice"}
    if math.prod(map(len, choices.values())) <= _MOST_CORNERS:
        return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    first = {name: values[0] for name, values in choices.items()}
    others = ({**first, name: value} for name, values in choices.items() for value in values[1:])
    return [first, *others]


def _space(params: type[BaseParams], name: str, node: Node, faults: Faults) -> Space | None:
    (kind, entry), *_ = node.value.items()
    wanted, example = _FORMS[kind]
    if not _fits(params, name, kind, node, faults):
        return None
    if kind == "choice":
        before, values = len(faults), entry.value if isinstance(entry.value, list) else []
        for item in values:
            if _is_space(item) or isinstance(item.value, list):
                what = "a space" if _is_space(item) else "a list"
                remedy = "make a method of its own of each choice"
                faults.add(item, f"{what} within a choice", remedy)
        labels = [Space.value_of(item.plain()) for item in values]
        good = len({(isinstance(label, bool), label) for label in labels}) == len(labels) > 1
        space = Space(name, "choice", choices=tuple(labels))
        if len(faults) > before:
            return None
    else:
        ends, number = entry.plain(), int if kind == "int" else int | float
        good = (
            isinstance(ends, list)
            and len(ends) == 2
            and all(isinstance(end, number) and not isinstance(end, bool) for end in ends)
            and (0 if kind == "log_uniform" else -math.inf) < ends[0] < ends[1] < math.inf
        )
        space = Space(name, kind, float(ends[0]), float(ends[1])) if good else Space(name, kind)
    if not good:
        faults.add(entry, f"{kind} takes {wanted}", f"for example {example}")
        return None
    return space


def _fits(params: type[BaseParams], name: str, kind: str, node: Node, faults: Faults) -> bool:
    """Check a space against the type of its option; a space that does not fit is a fault."""
    *parts, last = name.split(".")
    model = _model_at(params, tuple(parts))
    field = model.model_fields.get(key_names(model).get(last, "")) if model is not None else None
    if model is None or field is None:
        return True
    if issubclass(model, BaseParams) and key_names(model)[last] in model.path_fields():
        faults.add(node, "files are not searched", "make a method of its own for each file")
        return False
    kinds = set(alternatives(field.annotation))
    if kind == "choice" or float in kinds or (kind == "int" and int in kinds):
        return True
    if int in kinds:
        remedy = _FORMS["int"][1]
        faults.add(node, f"{kind} gives real numbers, {last} is a whole number", remedy)
    else:
        faults.add(node, f"{last} does not take numbers", f"write {_FORMS['choice'][1]}")
    return False


def _refuse_lists(entries: Mapping[str, Node], faults: Faults) -> None:
    for node in entries.values():
        if isinstance(node.value, list):
            remedy = "write {choice: [...]} to search it too, or make a method of each value"
            faults.add(node, "a list in a method whose params are searched", remedy)
        elif isinstance(node.value, dict) and not _is_space(node):
            _refuse_lists(node.value, faults)
