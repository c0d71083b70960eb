"""The fields of an options model: their YAML names, and what their annotations permit."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from raxalign.config._faults import suggestion
from raxalign.config.params import models_in


def key_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the YAML names of a model's fields, each with the field's name in code."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def field_values(settings: BaseModel) -> dict[str, Any]:
    """Return the values of a model by its fields' names in code; models in it stay models."""
    return {name: getattr(settings, name) for name in type(settings).model_fields}


def right_key(name: str, names: Mapping[str, str], also: Iterable[str] = ()) -> str:
    """Return what a wrong key should be; a field's name in code leads to its name in YAML."""
    for alias, field in names.items():
        if name == field:
            return f"did you mean {alias}?"
    every = [*names, *also]
    return suggestion(name, every) if every else "it has no options"


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
