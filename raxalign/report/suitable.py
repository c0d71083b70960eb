"""Which methods and tasks, of a grid or of the catalogue, take an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.encoders.models.transformer import TransformerEncoder


@dataclass(frozen=True)
class Suitable:
    """Names of what takes an encoder, and name -> why of what does not."""

    names: Sequence[str]
    refused: Mapping[str, str]

    def told(self) -> str:
        """Describe both in words."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.refused.items():
            reasons.setdefault(reason, []).append(name)
        without = [f"not {', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return "; ".join([", ".join(self.names) or "none", *without])


def suitable(
    grid: Grid | None, encoder: TransformerEncoder, *, head: bool
) -> tuple[Suitable, Suitable]:
    """Return the methods and the tasks that take an encoder.

    Args:
        grid: the grid whose methods and tasks are asked (None: the catalogue's, at their defaults).
        encoder: the encoder.
        head: whether it has a masked-LM head.
    """
    found = []
    for folder, plugins in (
        ("methods", _methods(grid) if grid else _defaults("methods")),
        ("tasks", _tasks(grid) if grid else _defaults("tasks")),
    ):
        names, refused = [], {}
        for name, plugin in plugins:
            reason = _refusal(folder, plugin, encoder, head=head, given=grid is not None)
            if reason:
                refused[name] = reason
            elif name not in names:
                names.append(name)
        found.append(Suitable([name for name in names if name not in refused], refused))
    return found[0], found[1]


def _methods(grid: Grid) -> Iterator[tuple[str, Any]]:
    """The methods of a grid, once for each value of their params."""
    for spec in grid.methods:
        for params in spec.points:
            yield spec.name, catalog("methods")[spec.kind](params)


def _tasks(grid: Grid) -> Iterator[tuple[str, Any]]:
    """The tasks of a grid."""
    for spec in grid.tasks:
        yield spec.name, catalog("tasks")[spec.kind](spec.params)


def _defaults(folder: str) -> Iterator[tuple[str, Any]]:
    """Everything in the catalogue at its defaults; options without one are left out."""
    for kind in catalog(folder):
        plugin = catalog(folder)[kind]
        yield kind, plugin(plugin.Params.model_construct())


def _refusal(
    folder: str, plugin: Any, encoder: TransformerEncoder, *, head: bool, given: bool
) -> str:
    """Why a method or a task does not take an encoder; empty where it does."""
    if encoder.family not in plugin.accepts:
        return f"does not take {encoder.family} encoders"
    if plugin.needs().head and not head:
        return "needs a masked-LM head"
    if given:
        try:
            (plugin.acts if folder == "methods" else plugin.reads)(encoder.n_layers)
        except RaxalignError as error:
            return str(error)
    return ""
