"""A stage: one cached computation, named by its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from raxalign.store.key import Json, digest


@dataclass(frozen=True)
class Stage:
    """One cached computation. All but `locations` is hashed.

    `kind` says which function makes it (``bitext``, ``text``, ``pairs``, ``seen``, ``encoder``,
    ``aligned``, ``tuned``, ``evaluation``) and `maker` which plug-in; `params` are the maker's
    options with defaults filled in, paths left out; `inputs` maps a name to the key of the stage
    that it reads (``pairs/de``); `digests` maps the name of outside data (``src``,
    ``dictionary/de``) to its digest, and `locations` the same name to where it is; `inline` marks a
    stage of no substance that is never stored (an encoder that is loaded from where it lies).
    """

    kind: str
    maker: str
    version: int
    params: Mapping[str, Json]
    inputs: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    inline: bool = False

    @cached_property
    def key(self) -> str:
        """SHA-256 of everything that is computed."""
        return digest(
            {
                "kind": self.kind,
                "maker": self.maker,
                "version": self.version,
                "params": self.params,
                "inputs": self.inputs,
                "digests": self.digests,
            }
        )
