"""A point of a grid: the coordinates of a trial, and the conditions that choose among points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raxalign.config.axes import LANGUAGE, Axis
from raxalign.store.key import Json


@dataclass(frozen=True)
class Point:
    """One coordinate per axis, and one value per param of the method.

    `sentences` and `seed` are None in the point of a trial whose result they cannot change.
    """

    method: str
    params: Mapping[str, Json]
    encoder: str
    languages: tuple[str, ...]
    sentences: int | None
    seed: int | None

    def values(self) -> dict[str, Any]:
        """Return the name of an axis or param -> its value; `languages` are left out."""
        return {
            **self.params,
            Axis.METHOD: self.method,
            Axis.SENTENCES: self.sentences,
            Axis.SEED: self.seed,
            Axis.ENCODER: self.encoder,
        }

    def meets(self, conditions: Mapping[str, Any]) -> bool:
        """Check whether all conditions of an entry of `exclude` hold: a name -> a value or a list
        of values. Languages meet one that names all of them.
        """
        values = self.values()
        return all(
            set(_listed(wanted)) >= set(self.languages)
            if name in {LANGUAGE, Axis.LANGUAGES}
            else name in values and values[name] in _listed(wanted)
            for name, wanted in conditions.items()
        )


def _listed(wanted: Any) -> list[Any] | tuple[Any, ...]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]
