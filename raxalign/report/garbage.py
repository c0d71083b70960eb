"""Removing what no grid needs from a storage.

What searches need that no given grid names: their trials are in no grid file, but in the plans
that their drivers have written.

What a storage holds that no given grid and no living driver needs, each with the reason why it
may go.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from raxalign.errors import RaxalignError, StorageError
from raxalign.plan.estimates.cost import volume
from raxalign.plan.load import Opened, open_grid, reopened
from raxalign.plan.plan import Plan
from raxalign.plan.stored import plan_at, stored_texts
from raxalign.store.alive import process_of
from raxalign.store.drivers import Sign, remove_sign, signs
from raxalign.store.lease import locks, remove_lock
from raxalign.store.leftovers import SCRATCH, Leftovers, bytes_of, left_by_dead, remove_local
from raxalign.store.storage import Storage
from raxalign.store.studies import SIGNS
from raxalign.tracking.drivers import this_driver


@dataclass(frozen=True)
class Unfinished:
    """The searches of a storage that are not finished: the names of their studies, and the plans
    that hold their trials so far.
    """

    studies: tuple[str, ...]
    plans: tuple[Plan, ...]


def unfinished(storage: Storage, living: Iterable[Plan]) -> Unfinished:
    """Find the searches that a living driver runs, that have budget left, or whose best points are
    not all confirmed. One without a record has not begun, or is given up.

    Args:
        storage: The storage.
        living: The plans of living drivers.
    """
    alive = {study.name for plan in living for study in plan.studies}
    plans = [plan for plan in _plans(storage) if plan.get("studies")]
    names = {study["name"] for plan in plans for study in plan["studies"]}
    records, there = storage.studies.read_many(sorted(names)), storage.ledger.keys()
    open_ones = alive | {name for name, record in records.items() if not record["finished"]}
    open_ones |= {name for plan in plans for name in _unconfirmed(plan, there) if name in records}
    kept = [p for p in plans if open_ones & {study["name"] for study in p["studies"]}]
    return Unfinished(
        tuple(sorted(open_ones)), tuple(Plan.from_json(json.dumps(plan)) for plan in kept)
    )


def _plans(storage: Storage) -> Iterator[dict[str, Any]]:
    """Yield the plans of a storage as JSON has them."""
    for text in stored_texts(storage):
        yield dict(json.loads(text))


def _unconfirmed(plan: Mapping[str, Any], there: set[str]) -> Iterator[str]:
    """Yield the studies of which a plan has confirming trials that are not done."""
    for trial in plan["trials"]:
        searched = trial.get("searched") or {}
        if searched.get("confirmed") and not there.issuperset(trial["evaluations"].values()):
            yield searched["study"]


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
        storage: The storage.
        stages: Keys of stages.
        trials: Keys of trials.
        grids: Names of grids.
        plans: Names of the files of plans that living drivers run.
        signs: The signs of all drivers.
        finished: Whether nothing is left to run in the given grids.
        searches: The studies that are not finished and that no given grid has.
    """

    storage: Storage
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
    for path, size in Leftovers(needs.storage).temporaries():
        why = "their processes died before they were whole"
        yield Waste("temporaries", path.name, size, why, partial(remove_local, path))


def _artifacts(needs: Needs) -> Iterator[Waste]:
    store, tombstones = needs.storage.artifacts, needs.storage.tombstones
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
    left = Leftovers(needs.storage)
    for entry, files in left.below("plans").items():
        if entry not in needs.plans and _is_stale_plan(left, needs, next(iter(files)), entry):
            why = "no given grid has any of their stages, and no living driver runs them"
            yield _stored(left, "plans", entry, files, why)
    for entry, files in left.below("spool").items():
        if entry not in needs.trials:
            yield _stored(left, "spool", entry, files, "no given grid has their trials")
    for entry, files in left.below("damaged").items():
        yield _stored(left, "damaged", entry, files, "they were set aside, and nothing reads them")
    dead, this = "the drivers that left them are dead", this_driver(needs.storage)
    for sign in needs.signs:
        if not sign.lives:
            yield Waste(
                "drivers", sign.name, 0, dead, partial(remove_sign, needs.storage, sign.name)
            )
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
    store = needs.storage.artifacts
    stored = {key for _, key in store.keys()}  # noqa: SIM118
    stored |= {key for _, key in needs.storage.tombstones.keys()}  # noqa: SIM118
    held, left = locks(needs.storage), Leftovers(needs.storage)
    folder = needs.storage.local / "checkpoints"
    there = [
        (path.name, bytes_of(path), partial(remove_local, path))
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.is_dir()
    ]
    if needs.storage.is_remote:
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
            yield Waste("locks", name, 0, why, partial(remove_lock, needs.storage, name))


def _caches(needs: Needs) -> Iterator[Waste]:
    """What can be fetched or written again: downloads, copies of an object store's artifacts, and
    markers of grids that were brought to a tracking store.
    """
    downloads = needs.storage.local / "downloads"
    if needs.finished and needs.quiet and downloads.is_dir():
        for path in sorted(downloads.iterdir()):
            why = "nothing is left to run in the given grids; they can be fetched again"
            remove = partial(remove_local, path)
            yield Waste("downloads", path.name, bytes_of(path), why, remove)
    if needs.storage.is_remote:
        for path in sorted(needs.storage.local.glob("artifacts/*/*/*")):
            if path.name not in needs.stages and not path.name.startswith("."):
                why = "copies of artifacts that no given grid needs"
                remove = partial(remove_local, path)
                yield Waste("cache", path.name[:12], bytes_of(path), why, remove)
    tracked = needs.storage.local / "tracked"
    for path in sorted(tracked.iterdir()) if tracked.is_dir() else ():
        if not any(f'"{name}"' in path.read_text(errors="replace") for name in needs.grids):
            why = "they mark other grids as copied to MLflow; `sync` writes them again"
            remove = partial(remove_local, path)
            yield Waste("tracked", path.name[:12], bytes_of(path), why, remove)


def _scratch(needs: Needs) -> Iterator[Waste]:
    """Folders of Ray that dead drivers left, in the storage and on this machine."""
    left, why = Leftovers(needs.storage), "the drivers that used them are dead"
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


def collect(files: list[Path], storage: str | None, *, delete: bool) -> str:
    """Report what may go, and remove it with `delete`; results in the ledger never go.

    Args:
        files: The grids whose needs are kept. All must use one storage.
        storage: The flag ``--storage``.
        delete: Whether it is removed.

    Raises:
        RaxalignError: What is needed cannot be known: a grid cannot be read, has unresolved data
            or uses another storage, or the plan of a living driver cannot be read.
    """
    opened = [open_grid(file, storage=storage) for file in files]
    storages = {entry.storage for entry in opened}
    if len(storages) != 1:
        raise RaxalignError(
            f"the grids use several storages ({', '.join(sorted(map(str, storages)))}): name one"
            " with --storage"
        )
    if any(entry.plan.unresolved for entry in opened):
        raise RaxalignError(
            "a grid has unresolved remote data, so what it needs is not known: run it first, or pin"
            " its revisions"
        )
    needed = storages.pop()
    needs = _needs(opened, needed)
    found = list(waste(needs))
    if delete or not needs.quiet:
        # a search plans trials all the time: what had been made when it was listed above, had been
        # planned before, and is needed now
        needs = _needs([reopened(entry) for entry in opened], needed)
        still = {(entry.kind, entry.name) for entry in waste(needs)}
        found = [entry for entry in found if (entry.kind, entry.name) in still]
    if delete:
        for entry in found:
            entry.remove()
    return "\n".join([*_kept(needs), *_lines(found, delete=delete)])


def _needs(opened: list[Opened], storage: Storage) -> Needs:
    known = signs(storage)
    alive = [sign for sign in known if sign.lives]
    living = [_plan_of(sign) for sign in alive]
    searches = unfinished(storage, living)
    plans = [*(entry.plan for entry in opened), *living, *searches.plans]
    given = {study.name for entry in opened for study in entry.plan.studies}
    there = storage.ledger.keys()
    own = {key for entry in opened for t in entry.plan.trials for key in t.evaluations.values()}
    return Needs(
        storage,
        frozenset(key for plan in plans for key in plan.stages),
        frozenset(trial.key for plan in plans for trial in plan.trials),
        frozenset(plan.name for plan in plans),
        frozenset(sign.plan.rpartition("/")[2] for sign in alive),
        tuple(known),
        finished=own <= there,
        searches=tuple(name for name in searches.studies if name not in given),
    )


def _plan_of(sign: Sign) -> Plan:
    """Return the plan that a living driver runs."""
    try:
        return plan_at(sign.plan)
    except (OSError, StorageError, ValueError, KeyError, TypeError) as error:
        raise RaxalignError(
            f"a driver runs on this storage (process {sign.pid} of {sign.host}), and its plan"
            f" {sign.plan} cannot be read, so what it needs is not known: {error}. Wait until it"
            " has ended"
        ) from error


def _kept(needs: Needs) -> list[str]:
    """Return a line on the searches that no given grid has and whose artifacts are kept."""
    if not needs.searches:
        return []
    names = ", ".join(needs.searches)
    return [
        f"kept what searches need that are not finished: {names}. To give one up, delete its file"
        f" in {needs.storage}/studies"
    ]


def _lines(found: Iterable[Waste], *, delete: bool) -> list[str]:
    """Return a line per artifact, one per kind with number, bytes and reason, and the sum."""
    found = list(found)
    would = "removed" if delete else "would remove"
    lines = [
        f"{would} {entry.name} ({volume(entry.size)})"
        for entry in found
        if entry.kind == "artifacts"
    ]
    for kind in dict.fromkeys(entry.kind for entry in found):
        own = [entry for entry in found if entry.kind == kind]
        size = volume(sum(entry.size for entry in own))
        lines.append(f"{would} {len(own)} {kind} ({size}): {own[0].why}")
    total = volume(sum(entry.size for entry in found))
    return [*lines, f"{total} {'freed' if delete else 'could be freed with --delete'}"]
