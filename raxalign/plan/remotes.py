"""What a grid reads from outside: asked about, and fetched ahead of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.config.lock import Lock
from raxalign.config.sources import RemoteData
from raxalign.errors import RaxalignError
from raxalign.plan.estimates.cost import volume
from raxalign.plan.expansion.encoders import all_encoders, plugin_of

if TYPE_CHECKING:
    from raxalign.config.specs import Grid
    from raxalign.corpora.readers.remote import Remote


def readers(grid: Grid) -> Iterator[tuple[Any, str]]:
    """Yield the corpora and tasks of a grid, each with a language that it reads."""
    for lang in (*grid.languages, *grid.outside):
        for spec in (grid.corpora[lang], *([grid.text] if grid.text else [])):
            yield catalog("corpora")[spec.kind](spec.params), lang
    for task in grid.tasks:
        plugin = catalog("tasks")[task.kind](task.params)
        chosen = grid.languages if task.languages is None else task.languages
        trained: Sequence[str] = ()
        if task.unseen and plugin.training() is not None:
            # where it is evaluated in these alone, it may be trained on those that are aligned
            trained = plugin.training_languages(grid.languages, grid.pivot)
        for lang in dict.fromkeys((*chosen, *task.unseen, grid.pivot, *trained)):
            yield plugin, lang


def pins_of(grid: Grid) -> dict[str, str | None]:
    """Return all remote names of a grid, each with its pin: that of the file, or of the lock."""
    lock = Lock.load(grid.path)
    return {name: pin or lock.get(name) for name, pin in _named(grid).items()}


def _named(grid: Grid) -> dict[str, str | None]:
    """All remote names, each with the pin that the file has."""
    sources = [s for spec in all_encoders(grid) for s in plugin_of(spec).sources().values()]
    for plugin, lang in readers(grid):
        sources += plugin.sources(lang, grid.pivot).values()
    return {source.name: source.pin for source in sources if isinstance(source, RemoteData)}


def renew(grid: Grid, downloads: Path) -> None:
    """Ask anew for downloads that the file does not pin; a file that has changed on its server is
    fetched, and the old one is kept for other grids' locks. Raises as `fetched`.
    """
    pins = _named(grid)
    for remote in remotes(grid):
        if pins.get(remote.name) is None:
            remote.renew(downloads)


def remotes(grid: Grid) -> tuple[Remote, ...]:
    """Return what a grid reads from outside, each part once; several may have one pin."""
    found = [remote for spec in all_encoders(grid) for remote in plugin_of(spec).remotes()]
    for plugin, lang in readers(grid):
        found += plugin.remotes(lang, grid.pivot)
    return tuple(dict.fromkeys(found))


def fetched(grid: Grid, downloads: Path) -> Iterator[str]:
    """Fetch all that a grid reads from outside, unless it is there, and yield a line on each part
    with its size, then one on all. The lock has all pins. Raises `RaxalignError` for the first part
    that cannot be had; what was fetched before it stays.
    """
    pins, found, total = pins_of(grid), remotes(grid), 0
    for remote in found:
        pin = pins.get(remote.name)
        size = remote.bring(pin, downloads)
        total += size
        yield f"{volume(size):>10}  {remote}  {str(pin)[:12]}"
    for name in sorted(pins.keys() - {remote.name for remote in found}):
        told = "is not fetched: it is on this machine, or its own library fetches it"
        yield f"{'':>10}  {name}  {told}"
    yield f"{volume(total):>10}  in all"


def answers(grid: Grid, downloads: Path) -> Iterator[str]:
    """Ask about each part that a grid reads from outside, and yield a line for `raxalign doctor`:
    whether it can be had, how large it is, and whether it is gated.
    """
    pins = pins_of(grid)
    for remote in remotes(grid):
        pin = pins.get(remote.name)
        try:
            size, gated = remote.size(pin, downloads), remote.gated()
        except RaxalignError as error:
            yield f"broken   {remote}: {error}"
            continue
        told = f"pinned at {pin[:12]}" if pin else "not pinned yet"
        terms = "; gated, and you have access" if gated else ""
        yield f"ok       {remote}: {volume(size)}, {told}{terms}"
