"""Mappings of a grid file as options models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from raxalign.config._faults import Faults
from raxalign.config._fields import alternatives, key_names, right_key
from raxalign.config._translate import steps, translate, walk
from raxalign.config.yaml_file import Node

Model = TypeVar("Model", bound=BaseModel)

_ROUNDS = 4  # a union may first report one branch, then another


def validate(
    model: type[Model],
    node: Node,
    faults: Faults,
    *,
    also: Iterable[str] = (),
    values: Mapping[str, Node] | None = None,
) -> Model | None:
    """Return the model of a mapping, or None after its faults were added.

    Args:
        model: The options model.
        node: The mapping.
        faults: Receives the faults.
        also: Keys that the mapping may hold besides those of the model.
        values: The entries, where they are not those of the node itself.
    """
    entries = node.entries(faults) if values is None else values
    return _build(
        model, Node(known_keys(model, entries, faults, also=also), node.line, node.key), faults
    )


def known_keys(
    model: type[BaseModel], entries: Mapping[str, Node], faults: Faults, *, also: Iterable[str] = ()
) -> dict[str, Node]:
    """Return the entries that a model has fields for; the others are faults."""
    names = key_names(model)
    for name, entry in entries.items():
        if name not in names:
            faults.add(entry, "unknown key", right_key(name, names, also))
    return {name: entry for name, entry in entries.items() if name in names}


def _build(model: type[Model], node: Node, faults: Faults) -> Model | None:
    """Validate; a number in place of a text is taken as it is written (``layers: 9``)."""
    value, wrong = node.plain(), _truths_for_numbers(model, node.value, faults)
    for _ in range(_ROUNDS):
        try:
            built = model.model_validate(value)
        except ValidationError as error:
            details = error.errors(include_url=False)
            if _write_out(value, node, details):
                continue
            for translated in translate(model, node, details):
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
    """Put texts in place of numbers where the model requires texts. Return whether any was put."""
    changed = False
    for detail in details:
        place = [part for part, _ in steps(node, detail["loc"])]
        target = walk(node, detail["loc"]).target
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
