"""What a shell completes besides commands and options: kinds of plug-ins, and names of a grid
file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

Completer = Callable[..., list[str]]


def kinds(folder: str) -> Completer:
    """Return what completes the kinds of a folder of plug-ins."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(incomplete, _kinds(folder))

    return complete


def folders(incomplete: str) -> list[str]:
    """Complete what `raxalign list` lists."""
    from raxalign.catalog import FOLDERS

    return _beginning(incomplete, FOLDERS)


def kinds_listed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the kinds of the folder that stands before them."""
    return _beginning(incomplete, _kinds(ctx.params.get("what") or ""))


def starts(incomplete: str) -> list[str]:
    """Complete the grid files and the kinds of plug-ins that `raxalign init` writes."""
    from raxalign.single.start import CHOICES, FOLDERS

    return _beginning(incomplete, [*CHOICES, *FOLDERS])


def names(what: str) -> Completer:
    """Return what completes the names that the grid file of the command gives to its tasks or
    languages.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _beginning(incomplete, _named(ctx).get(what, ()))

    return complete


def conditions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last condition of ``--only``: its name, then its value."""
    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    found = _named(ctx)
    found.pop("task", None)
    texts = (
        [f"{name}={value}" for value in found.get(name, ())]
        if equals
        else [f"{name}=" for name, values in found.items() if values]
    )
    return _beginning(incomplete, [f"{before}{comma}{text}" for text in texts])


def _kinds(folder: str) -> list[str]:
    from raxalign.catalog import FOLDERS, catalog

    return list(catalog(folder)) if folder in FOLDERS else []


def _named(ctx: typer.Context) -> dict[str, tuple[str, ...]]:
    """Return what the grid file of the command names: nothing where it cannot be read."""
    from raxalign.config.axes import named
    from raxalign.errors import RaxalignError

    # before an option without its value, the parser leaves the file in `args`
    given = ctx.params.get("file") or next(iter(ctx.args), "")
    try:
        return named(Path(given))
    except RaxalignError:
        return {}


def _beginning(incomplete: str, texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text.startswith(incomplete)]
