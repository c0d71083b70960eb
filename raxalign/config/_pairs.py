"""The section `pairs`: the word aligner, and what is done with its links."""

from __future__ import annotations

from typing import Literal

from raxalign.catalog import catalog
from raxalign.config._fields import field_values, key_names
from raxalign.config._methods import plugin_params
from raxalign.config._paths import Paths
from raxalign.config._specs import OneToOne, PairsSpec, Symmetrization
from raxalign.config._validate import validate
from raxalign.config._yaml import Node
from raxalign.config.params import BaseParams

DEFAULT_ALIGNER = "eflomal"


class PairsSettings(BaseParams):
    """What the `pairs` section holds besides the options of its word aligner."""

    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"


def read_pairs(node: Node, paths: Paths) -> PairsSpec | None:
    """Read the word aligner with its options, and what is done with its links."""
    faults = paths.faults
    entries = dict(node.entries(faults))
    aligner = entries.pop("aligner", None) or Node(
        DEFAULT_ALIGNER, node.line, "pairs.aligner", DEFAULT_ALIGNER
    )
    own = {name: entry for name, entry in entries.items() if name in key_names(PairsSettings)}
    settings = validate(PairsSettings, node, faults, values=own)
    params = plugin_params("aligners", aligner, faults)
    if params is None:
        return None
    values = paths.entries(
        params, {name: entry for name, entry in entries.items() if name not in own}
    )
    built = validate(
        params, node, faults, values=values, also=("aligner", *key_names(PairsSettings))
    )
    if built is None or settings is None:
        return None
    return PairsSpec(
        catalog("aligners").kind(str(aligner.value)), built, **dict(field_values(settings))
    )
