"""The section `exclude`, which refers to what others declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from raxalign.config._faults import Faults, suggestion
from raxalign.config._specs import EncoderSpec, MethodSpec
from raxalign.config.axes import LANGUAGE, Axis
from raxalign.config.params import BaseParams, path_fields
from raxalign.config.yaml_file import Node
from raxalign.printing import with_article

_COMMON = (*Axis, LANGUAGE)


@dataclass(frozen=True)
class Declared:
    """What a grid declares, for `exclude` to choose from. `encoders` maps each encoder, as it is
    written and as it is labelled, to its label; `methods` are those without faults, `names` those
    of all.
    """

    encoders: dict[str, str]
    languages: tuple[str, ...]
    sentences: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[MethodSpec, ...]
    names: tuple[str, ...]


def encoder_names(node: Node, specs: Iterable[EncoderSpec]) -> dict[str, str]:
    """Return every way in which a grid may name its encoders, with their labels."""
    specs = tuple(specs)
    labels = {spec.label: spec.label for spec in specs}
    written = [item.value for item in node.items()]
    if len(written) == len(specs):
        labels |= {
            value: spec.label
            for value, spec in zip(written, specs, strict=True)
            if isinstance(value, str)
        }
    return labels


def read_exclude(node: Node, declared: Declared, faults: Faults) -> tuple[dict[str, Any], ...]:
    """Read the excluded points, with the values of the grid that each entry means."""
    if not isinstance(node.value, list):
        faults.add(
            node, f"{node.shown()} is not a list", "write [{method: name, sentences: 1000}, ...]"
        )
        return ()
    entries = []
    for item in node.value:
        conditions = item.entries(faults)
        if not conditions:
            faults.add(
                item,
                "an entry without conditions would exclude everything",
                "write {method: name, ...}",
            )
        entries.append(_entry(conditions, declared, faults))
    return tuple(entries)


def _entry(conditions: dict[str, Node], declared: Declared, faults: Faults) -> dict[str, Any]:
    named = (
        [value.value for value in conditions[Axis.METHOD].items() if value.value in declared.names]
        if Axis.METHOD in conditions
        else []
    )
    methods = [spec for spec in declared.methods if spec.name in named or not named]
    whole = len(methods) == len(set(named) or set(declared.names)) > 0
    params: dict[str, list[Any]] = {}
    for spec in methods:
        for name, values in _param_values(spec).items():
            params.setdefault(name, []).extend(values)
    choices: dict[str, list[Any]] = {
        Axis.METHOD: list(declared.names),
        LANGUAGE: list(declared.languages),
        Axis.LANGUAGES: list(declared.languages),
        Axis.SENTENCES: list(declared.sentences),
        Axis.SEED: list(declared.seeds),
        Axis.ENCODER: list(declared.encoders),
        **{name: values for name, values in params.items() if name not in _COMMON},
    }
    chosen: dict[str, Any] = {}
    for name, node in conditions.items():
        if name not in choices:
            if whole:
                faults.add(node, "unknown key", suggestion(name, choices))
            continue
        found = [_choice(item, name, choices[name], faults) for item in node.items()]
        found = (
            [declared.encoders.get(str(value), value) for value in found]
            if name == Axis.ENCODER
            else found
        )
        chosen[name] = found if isinstance(node.value, list) else found[0]
    return chosen


def _param_values(spec: MethodSpec) -> dict[str, list[Any]]:
    """Return the values that each option takes in the points of a method. A path is shown as the
    name of its file, as in plans.
    """
    values: dict[str, list[Any]] = {}
    for point in spec.points:
        paths = path_fields(type(point))
        for name, field in type(point).model_fields.items():
            value = getattr(point, name)
            shown = value.rsplit("/", 1)[-1] if name in paths and isinstance(value, str) else value
            shown = shown.identity() if isinstance(shown, BaseParams) else shown
            seen = values.setdefault(field.alias or name, [])
            if not any(_same(shown, other) for other in seen):
                seen.append(shown)
    return values


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _choice(node: Node, name: str, choices: list[Any], faults: Faults) -> Any:
    """Return the grid's own value that a condition means: `9` for the text ``9``, a mapping for a
    part of it. A value that the grid does not have is a fault.
    """
    value, text = node.plain(), node.text
    for choice in choices:
        if (
            isinstance(choice, dict)
            and isinstance(value, dict)
            and value
            and value.items() <= choice.items()
        ):
            return choice
        if _same(choice, value) or (
            isinstance(choice, str) and choice in {text, text.rsplit("/", 1)[-1]}
        ):
            return choice
    if choices:
        noun = name if name in _COMMON else f"value of {name}"
        listed = [
            str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in choices
        ]
        faults.add(
            node,
            f"{node.shown()} is not {with_article(noun)} of this grid",
            suggestion(text, listed, listed="it has"),
        )
    return value
