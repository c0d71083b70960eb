"""Options of one plug-in from the command line: ``NAME=VALUE`` texts, checked as those of a grid file are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from raxalign.catalog import catalog
from raxalign.config._faults import Faults
from raxalign.config._paths import Paths
from raxalign.config._validate import key_names, validate
from raxalign.config._yaml import Node, _Builder
from raxalign.config.params import BaseParams, path_fields
from raxalign.errors import RaxalignError


def read_options(folder: str, kind: str, options: Sequence[str], where: Path) -> Any:
    """The `Params` of a plug-in of the catalogue `folder`. Values are YAML; relative paths are relative to the folder `where`.

    Raises `UnknownKind` for an unknown plug-in, and `RaxalignError` with every fault of the options.
    """
    model: type[BaseParams] = catalog(folder)[kind].Params
    faults = Faults()
    entries = _entries(model, options, faults)
    values = Paths(where, faults).entries(model, entries)
    if folder == "encoders" and "name" in values and (where / str(values["name"].value)).is_dir():
        values["name"] = replace(values["name"], value=str(where / str(values["name"].value)))
    built = validate(model, Node({}, 0, kind), faults, values=values)
    if faults or built is None:
        told = (f"{fault.key}: {fault.problem}" + (f" ({fault.remedy})" if fault.remedy else "") for fault in faults.found)
        raise RaxalignError("\n  ".join([f"{catalog(folder).noun} {kind}: {len(faults)} fault{'s' * (len(faults) > 1)} in its options", *told]))
    return built


def _entries(model: type[BaseParams], options: Sequence[str], faults: Faults) -> Mapping[str, Node]:
    paths = {alias for alias, field in key_names(model).items() if field in path_fields(model)}
    entries: dict[str, Node] = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        node = Node(text, 0, name or option, text)
        if not equals or not name:
            faults.add(Node(None, 0, option), "is no option", "write NAME=VALUE")
        elif name in entries:
            faults.add(node, "given twice", "keep one")
        else:  # a path is a text as it stands: {lang} at its beginning is no YAML mapping
            value = node if name in paths else _value(name, text, faults)
            entries |= {name: value} if value is not None else {}
    return entries


def _value(name: str, text: str, faults: Faults) -> Node | None:
    try:
        composed = YAML(typ="rt", pure=True).compose(text)
    except YAMLError as error:
        faults.add(Node(None, 0, name), f"{text!r} is no YAML value", str(error).strip().split("\n", 1)[0])
        return None
    return Node(None, 0, name, text) if composed is None else replace(_Builder(faults).build(composed, 0, name, 0), text=text)
