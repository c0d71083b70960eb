"""Options of one plug-in from the command line: ``NAME=VALUE`` texts, checked as those of a grid
file are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_origin

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode

from raxalign.catalog import catalog
from raxalign.config._faults import Faults
from raxalign.config._fields import alternatives, key_names
from raxalign.config._paths import Paths
from raxalign.config._validate import validate
from raxalign.config.params import BaseParams, models_in, path_fields
from raxalign.config.yaml_file import Node, _Builder
from raxalign.errors import RaxalignError

_OPENING = (
    "[",
    '"',
    "'",
)  # a list or a quoted text that is begun and not ended is a slip, not a text


def read_options(folder: str, kind: str, options: Sequence[str], where: Path) -> Any:
    """Return the `Params` of a plug-in of the catalogue `folder`. Values are YAML; relative paths
    are relative to the folder `where`.

    An option that takes text takes it literally where it is not a YAML value: ``delimiter=,``,
    ``config={lang}-{pivot}``. Raises `UnknownKind` for an unknown plug-in, and `RaxalignError` with
    every fault of the options.
    """
    model: type[BaseParams] = catalog(folder)[kind].Params
    faults = Faults()
    entries = _entries(model, options, faults)
    values = Paths(where, faults).entries(model, entries)
    if folder == "encoders" and "name" in values and (where / str(values["name"].value)).is_dir():
        values["name"] = replace(values["name"], value=str(where / str(values["name"].value)))
    built = validate(model, Node({}, 0, kind), faults, values=values)
    if faults or built is None:
        told = (
            f"{fault.key}: {fault.problem}" + (f" ({fault.remedy})" if fault.remedy else "")
            for fault in faults.found
        )
        raise RaxalignError(
            "\n  ".join(
                [
                    (
                        f"{catalog(folder).noun} {kind}: {len(faults)}"
                        f" fault{'s' * (len(faults) > 1)} in its options (NAME=VALUE)"
                    ),
                    *told,
                ]
            )
        )
    return built


def _entries(model: type[BaseParams], options: Sequence[str], faults: Faults) -> Mapping[str, Node]:
    fields = {alias: model.model_fields[field] for alias, field in key_names(model).items()}
    paths = {alias for alias, field in key_names(model).items() if field in path_fields(model)}
    entries: dict[str, Node] = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        node = Node(text, 0, name or option, text)
        if not equals or not name:
            faults.add(Node(None, 0, option), "is not an option", "write NAME=VALUE")
        elif name in entries:
            faults.add(node, "given twice", "keep one")
        else:
            kinds = alternatives(fields[name].annotation) if name in fields else []
            # a path is taken literally: {lang} at its beginning is not a YAML mapping
            value = (
                node
                if name in paths
                else _value(name, text, faults, plain=str in kinds and not _structured(kinds))
            )
            entries |= {name: value} if value is not None else {}
    return entries


def _structured(kinds: Sequence[Any]) -> bool:
    """Whether a mapping or a list is among what an option takes."""
    return any(
        get_origin(kind) not in {None, Literal} or next(models_in(kind), None) is not None
        for kind in kinds
    )


def _value(name: str, text: str, faults: Faults, *, plain: bool) -> Node | None:
    """The value of an option. Where it takes `plain` text, a text that is not a YAML value, or no
    single one, is meant as it stands.
    """
    as_it_stands = Node(text, 0, name, text)
    try:
        composed = YAML(typ="rt", pure=True).compose(text)
    except YAMLError as error:
        if plain and not text.lstrip().startswith(_OPENING):
            return as_it_stands
        told = getattr(error, "problem", None) or str(error).strip().split("\n", 1)[0]
        remedy = (
            f"put text that begins like this in quotes: {name}='\"...\"'"
            if plain
            else "lists are [a, b], mappings {name: value}, as in a grid file"
        )
        faults.add(Node(None, 0, name), f"{text!r} is not a YAML value ({told})", remedy)
        return None
    if (
        plain
        and text.strip()
        and (composed is None or isinstance(composed, MappingNode) or _is_cut(composed, text))
    ):
        return as_it_stands
    return (
        Node(None, 0, name, text)
        if composed is None
        else replace(_Builder(faults).build(composed, 0, name, 0), text=text)
    )


def _is_cut(composed: Any, text: str) -> bool:
    """Whether YAML took the end of an unquoted text for a comment."""
    return (
        isinstance(composed, ScalarNode)
        and composed.style is None
        and str(composed.value) != text.strip()
    )
