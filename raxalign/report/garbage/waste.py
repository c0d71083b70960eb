"""What a storage holds that no given grid and no living driver needs, each with the reason why it
may go.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raxalign.store.alive import process_of
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.drivers import Sign, remove_sign
from raxalign.store.lease import locks, remove_lock
from raxalign.store.leftovers import SCRATCH, Leftovers, bytes_of, left_by_dead, remove_local
from raxalign.store.studies import SIGNS
from raxalign.store.tombstones import Tombstones
from raxalign.tracking.drivers import this_driver


@dataclass(frozen=True)
class Waste:
    """Something that may go: its kind, what it is called, its bytes, why, and how it is removed."""

    kind: str
    name: str
    size: int
    why: str
    remove: Callable[[], None]


@dataclass(frozen=True)
class Needs:
    """What is needed, by the given grids and by living drivers.

    Attributes:
        root: The storage root.
        local: The machine's own folder of the storage.
        stages: Keys of stages.
        trials: Keys of trials.
        grids: Names of grids.
        plans: Names of the files of plans that living drivers run.
        signs: The signs of all drivers.
        finished: Whether nothing is left to run in the given grids.
        searches: The studies that are not finished and that no given grid has.
    """

    root: str
    local: Path
    stages: Collection[str]
    trials: Collection[str]
    grids: Collection[str]
    plans: Collection[str]
    signs: Collection[Sign]
    finished: bool
    searches: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether no driver lives."""
        return not any(sign.lives for sign in self.signs)


def waste(needs: Needs) -> Iterator[Waste]:
    """Yield everything that may go."""
    yield from _artifacts(needs)
    yield from _in_storage(needs)
    yield from _checkpoints(needs)
    yield from _caches(needs)
    yield from _scratch(needs)
    for path, size in Leftovers(needs.root).temporaries():
        why = "their processes died before they were whole"
        yield Waste("temporaries", path.name, size, why, partial(remove_local, path))


def _artifacts(needs: Needs) -> Iterator[Waste]:
    store, tombstones = ArtifactStore(needs.root), Tombstones(needs.root)
    for kind, key in store.keys():  # noqa: SIM118 a method, not a mapping
        if key not in needs.stages:
            name, remove = f"{kind} {key[:12]}", partial(store.remove, kind, key)
            why = "no given grid needs them"
            yield Waste("artifacts", name, store.size(kind, key), why, remove)
    for kind, key in tombstones.keys():  # noqa: SIM118
        if key not in needs.stages:
            why = "no given grid has the stages whose weights were not kept"
            remove = partial(tombstones.remove, kind, key)
            yield Waste("records", f"{kind} {key[:12]}", 0, why, remove)


def _in_storage(needs: Needs) -> Iterator[Waste]:
    """Plans, curves, markers of tracking, damaged artifacts and signs of drivers."""
    left = Leftovers(needs.root)
    for entry, files in left.below("plans").items():
        if entry not in needs.plans and _is_stale_plan(left, needs, next(iter(files)), entry):
            why = "no given grid has any of their stages, and no living driver runs them"
            yield _stored(left, "plans", entry, files, why)
    for entry, files in left.below("spool").items():
        if entry not in needs.trials:
            yield _stored(left, "spool", entry, files, "no given grid has their trials")
    for entry, files in left.below("damaged").items():
        yield _stored(left, "damaged", entry, files, "they were set aside, and nothing reads them")
    dead, this = "the drivers that left them are dead", this_driver(needs.root)
    for sign in needs.signs:
        if not sign.lives:
            yield Waste("drivers", sign.name, 0, dead, partial(remove_sign, needs.root, sign.name))
    for entry, files in left.below(SIGNS).items():
        if not this.finds_alive(left.read(next(iter(files))).decode("utf-8", "replace")):
            yield Waste("drivers", entry, 0, dead, partial(left.remove, SIGNS, entry, files))


def _stored(left: Leftovers, top: str, entry: str, files: dict[str, int], why: str) -> Waste:
    remove = partial(left.remove, top, entry, files)
    return Waste(top, entry, sum(files.values()), why, remove)


def _is_stale_plan(left: Leftovers, needs: Needs, path: str, entry: str) -> bool:
    """Whether nothing of a plan is needed. A file that was not written to its end is stale when no
    driver lives.
    """
    if not entry.endswith(".json"):
        return needs.quiet
    text = left.read(path).decode("utf-8", "replace")
    return not any(key in text for key in (*needs.stages, *needs.trials))


def _checkpoints(needs: Needs) -> Iterator[Waste]:
    """Checkpoints, and locks of trainings."""
    store = ArtifactStore(needs.root)
    stored = {key for _, key in store.keys()}  # noqa: SIM118
    stored |= {key for _, key in Tombstones(needs.root).keys()}  # noqa: SIM118
    held, folder, left = locks(needs.root), needs.local / "checkpoints", Leftovers(needs.root)
    there = [
        (path.name, bytes_of(path), partial(remove_local, path))
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.is_dir()
    ]
    if "://" in needs.root:
        there += [
            (key, sum(files.values()), partial(left.remove, "checkpoints", key, files))
            for key, files in left.below("checkpoints").items()
        ]
    for key, size, remove in there:
        if held.get(f"making/{key}") or (key in needs.stages and key not in stored):
            continue  # a process makes it at this moment, or will
        if key in needs.stages and not needs.quiet:
            continue  # weights that were not kept may be made again by a driver
        why = "their trainings are over, or no given grid has them"
        yield Waste("checkpoints", key[:12], size, why, remove)
    for name, holds in held.items():
        if needs.quiet and not holds:
            why = "no driver lives and no process holds them"
            yield Waste("locks", name, 0, why, partial(remove_lock, needs.root, name))


def _caches(needs: Needs) -> Iterator[Waste]:
    """What can be fetched or written again: downloads, copies of an object store's artifacts, and
    markers of grids that were brought to a tracking store.
    """
    downloads = needs.local / "downloads"
    if needs.finished and needs.quiet and downloads.is_dir():
        for path in sorted(downloads.iterdir()):
            why = "nothing is left to run in the given grids; they can be fetched again"
            remove = partial(remove_local, path)
            yield Waste("downloads", path.name, bytes_of(path), why, remove)
    if "://" in needs.root:
        for path in sorted(needs.local.glob("artifacts/*/*/*")):
            if path.name not in needs.stages and not path.name.startswith("."):
                why = "copies of artifacts that no given grid needs"
                remove = partial(remove_local, path)
                yield Waste("cache", path.name[:12], bytes_of(path), why, remove)
    tracked = needs.local / "tracked"
    for path in sorted(tracked.iterdir()) if tracked.is_dir() else ():
        if not any(f'"{name}"' in path.read_text(errors="replace") for name in needs.grids):
            why = "they mark other grids as copied to MLflow; `sync` writes them again"
            remove = partial(remove_local, path)
            yield Waste("tracked", path.name[:12], bytes_of(path), why, remove)


def _scratch(needs: Needs) -> Iterator[Waste]:
    """Folders of Ray that dead drivers left, in the storage and on this machine."""
    left, why = Leftovers(needs.root), "the drivers that used them are dead"
    alive = {sign.name for sign in needs.signs if sign.lives}
    for entry, files in left.below("ray").items():
        if entry not in alive and not process_of(entry):
            yield Waste(
                "scratch",
                entry,
                sum(files.values()),
                why,
                partial(left.remove, "ray", entry, files),
            )
    for path in left_by_dead(Path(tempfile.gettempdir()), SCRATCH):
        yield Waste("scratch", path.name, bytes_of(path), why, partial(remove_local, path))
