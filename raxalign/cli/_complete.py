"""What a shell completes besides commands and options: kinds of plug-ins, names of a grid file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

Completer = Callable[..., list[str]]


def _among(texts: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """Return what completes one of some texts, which are known when a shell asks."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return [text for text in texts(ctx) if text.startswith(incomplete)]

    return complete


def kinds(folder: str | None = None) -> Completer:
    """Return what completes the kinds of a folder of plug-ins (None: of the one before them)."""

    def known(ctx: typer.Context) -> Iterable[str]:
        from raxalign.catalog import FOLDERS, catalog

        name = folder or ctx.params.get("what")
        return catalog(name) if name in FOLDERS else ()

    return _among(known)


def folders(incomplete: str) -> list[str]:
    """Complete what `raxalign list` lists."""
    from raxalign.catalog import FOLDERS

    return [name for name in FOLDERS if name.startswith(incomplete)]


def starts(incomplete: str) -> list[str]:
    """Complete the grid files and the kinds of plug-ins that `raxalign init` writes."""
    from raxalign.single.start import FOLDERS, grid_names

    return [name for name in (*grid_names(), *FOLDERS) if name.startswith(incomplete)]


def names(what: str) -> Completer:
    """Return what completes the names that the command's grid file gives to tasks or languages."""
    return _among(lambda ctx: _named(ctx).get(what, ()))


def conditions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last condition of ``--only``: its name, then its value."""
    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    found = {known: values for known, values in _named(ctx).items() if known != "task" and values}
    texts = [f"{name}={value}" for value in found.get(name, ())]
    texts = texts if equals else [f"{known}=" for known in found]
    return [
        text for text in (before + comma + text for text in texts) if text.startswith(incomplete)
    ]


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
