"""What training rows depend on that trials share: they are read and divided into pieces once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raxalign.config.sources import Source


@dataclass(frozen=True)
class SharedRows:
    """The training rows of one language.

    Attributes:
        options: The part of a task's `canonical` that decides which rows there are.
        sources: The outside data that they are read from, name -> source.
    """

    options: Mapping[str, Any]
    sources: Mapping[str, Source] = field(default_factory=dict)
