"""The section `encoder`: one encoder or several, with their labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from raxalign.catalog import catalog
from raxalign.config._faults import Faults
from raxalign.config._methods import plugin_params
from raxalign.config._paths import Paths
from raxalign.config._specs import EncoderSpec
from raxalign.config._validate import validate
from raxalign.config.params import BaseParams
from raxalign.config.yaml_file import Node


def read_encoders(node: Node, paths: Paths) -> tuple[EncoderSpec, ...]:
    """Read one encoder or a list of them, each a name or a mapping with `kind`."""
    if isinstance(node.value, list) and not node.value:
        paths.faults.add(node, "an empty list", "name at least one encoder")
    found = [(item, spec) for item in node.items() if (spec := _encoder(item, paths)) is not None]
    seen: list[tuple[str, BaseParams]] = []
    for item, spec in found:
        if (spec.kind, spec.params) in seen:
            paths.faults.add(
                item,
                "the same encoder is given twice",
                "the values of an axis must be different; keep one",
            )
        seen.append((spec.kind, spec.params))
    return _distinct([spec for _, spec in found])


def _encoder(node: Node, paths: Paths) -> EncoderSpec | None:
    """Read one encoder; None after a fault."""
    entries = _entries(node, paths.faults)
    if entries is None:
        return None
    kind = entries.pop("kind")
    params = plugin_params("encoders", kind, paths.faults)
    if params is None:
        return None
    values = paths.entries(params, entries) if isinstance(node.value, dict) else entries
    if "name" in values:
        values["name"] = paths.encoder(values["name"])
    built = validate(params, node, paths.faults, values=values, also=("kind",))
    if built is None:
        return None
    return EncoderSpec(
        catalog("encoders").kind(str(kind.value)),
        built,
        catalog("encoders")[kind.value](built).label(),
    )


def _entries(node: Node, faults: Faults) -> dict[str, Node] | None:
    """Return the entries of an encoder, `kind` among them; a text is a kind, or else a name."""
    known = catalog("encoders")
    if isinstance(node.value, str) and node.value.strip():
        named = node.value.strip()
        if named in known and not known[named].by_name:
            return {"kind": replace(node, value=named)}
        by_name = next(kind for kind, plugin in known.items() if plugin.by_name)
        return {"kind": replace(node, value=by_name), "name": replace(node, value=named)}
    if not isinstance(node.value, dict):
        faults.add(
            node,
            f"{node.shown()} is not an encoder",
            "write a hub name, a folder, or {kind: scratch, ...}",
        )
        return None
    if "kind" not in node.value:
        faults.add(
            node,
            "an encoder needs a `kind`",
            f"known: {', '.join(known)}; a folder or hub name is written without a mapping",
        )
        return None
    return dict(node.value)


def _distinct(specs: list[EncoderSpec]) -> tuple[EncoderSpec, ...]:
    """Add to labels that several encoders have the options in which these differ."""
    counts = Counter(spec.label for spec in specs)
    labelled = []
    for spec in specs:
        own = spec.params.model_dump(by_alias=True)
        others = [
            other.params.model_dump(by_alias=True)
            for other in specs
            if other.label == spec.label and other is not spec
        ]
        differing = {
            name: value
            for name, value in own.items()
            if any(other.get(name, value) != value for other in others)
        }
        suffix = " ".join(f"{name}={value}" for name, value in differing.items()) or spec.kind
        labelled.append(
            replace(spec, label=f"{spec.label} {suffix}") if counts[spec.label] > 1 else spec
        )
    return tuple(labelled)
