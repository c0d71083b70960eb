"""Options of one plug-in from the command line: ``NAME=VALUE``, checked as those of a grid file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_origin

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.grid._validate import alternatives, key_names, validate
from raxalign.grid.yaml_file import Builder, Faults, Node
from raxalign.options.params import BaseParams, models_in

_OPENING = ("[", '"', "'")  # a list or a quoted text that does not end is a slip, not a text


def read_options(folder: str, kind: str, options: Sequence[str], where: Path) -> Any:
    """Return the `Params` of a plug-in of the catalogue `folder`. Values are YAML; relative paths
    are relative to the folder `where`.

    An option that takes text takes it literally where it is not a YAML value: ``delimiter=,``,
    ``config={lang}-{pivot}``. Raises `UnknownKind` for an unknown plug-in, and `RaxalignError` with
    every fault of the options.
    """
    model: type[BaseParams] = catalog(folder)[kind].Params
    faults = Faults(where)
    values = _entries(model, options, faults)
    built = validate(model, Node({}, 0, kind), faults, values=values)
    if faults or built is None:
        told = [f"{f.key}: {f.problem}" + f" ({f.remedy})" * bool(f.remedy) for f in faults.found]
        count = f"{len(faults)} fault{'s' * (len(faults) > 1)} in its options (NAME=VALUE)"
        raise RaxalignError("\n  ".join([f"{catalog(folder).noun} {kind}: {count}", *told]))
    return built


def _entries(model: type[BaseParams], options: Sequence[str], faults: Faults) -> dict[str, Node]:
    names, paths = key_names(model), model.path_fields()
    entries: dict[str, Node] = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        if not equals or not name:
            faults.add(Node(None, 0, option), "is not an option", "write NAME=VALUE")
        elif name in entries:
            faults.add(Node(text, 0, name), "given twice", "keep one")
        elif names.get(name) in paths:  # {lang} at its beginning is not a YAML mapping
            entries[name] = Node(text, 0, name, text)
        else:
            field = model.model_fields.get(names.get(name, ""))
            value = _value(name, text, faults, plain=field is not None and _is_text(field))
            entries |= {name: value} if value is not None else {}
    return entries


def _is_text(field: Any) -> bool:
    """Whether an option takes text, and neither a mapping nor a list."""
    kinds = alternatives(field.annotation)
    return str in kinds and not any(
        get_origin(kind) not in {None, Literal} or any(models_in(kind)) for kind in kinds
    )


def _value(name: str, text: str, faults: Faults, *, plain: bool) -> Node | None:
    """The value of an option. Where it takes `plain` text, a text that is not a YAML value, or no
    single one, is meant as it stands.
    """
    literal = Node(text, 0, name, text)
    try:
        composed = YAML(typ="rt", pure=True).compose(text)
    except YAMLError as error:
        if plain and not text.lstrip().startswith(_OPENING):
            return literal
        told = getattr(error, "problem", None) or str(error).strip().split("\n", 1)[0]
        quoted = f"put text that begins like this in quotes: {name}='\"...\"'"
        remedy = quoted if plain else "lists are [a, b], mappings {name: value}, as in a grid file"
        faults.add(Node(None, 0, name), f"{text!r} is not a YAML value ({told})", remedy)
        return None
    single = composed is not None and not isinstance(composed, MappingNode)
    if single and isinstance(composed, ScalarNode) and composed.style is None:
        single = str(composed.value) == text.strip()  # else YAML took its end for a comment
    if plain and text.strip() and not single:
        return literal
    if composed is None:
        return Node(None, 0, name, text)
    return replace(Builder(faults).build(composed, 0, name), text=text)
