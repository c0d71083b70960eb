"""What a storage holds that no given grid, no living driver and no unfinished search needs: each
with the reason why it may go, and its removal.
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
from raxalign.store.alive import discard, process_of
from raxalign.store.drivers import Sign, clock_lead, is_alive, remove_sign, signs
from raxalign.store.lease import locks, remove_lock
from raxalign.store.leftovers import SCRATCH, below, bytes_of, left_by_dead, remove_entry
from raxalign.store.storage import Storage
from raxalign.store.studies import SIGNS


@dataclass(frozen=True)
class Unfinished:
    """The searches of a storage that are not finished: the names of their studies, and the plans
    that hold their trials so far.
    """

    studies: tuple[str, ...]
    plans: tuple[Plan, ...]


def unfinished(storage: Storage, living: Iterable[Plan]) -> Unfinished:
    """Find the searches that a living driver runs, that have budget left, or whose best points are
    not all confirmed. One without a record has not begun, or is given up. Their trials are in no
    grid file, but in the plans that their drivers have written.

    Args:
        storage: The storage.
        living: The plans of living drivers.
    """
    alive = {study.name for plan in living for study in plan.studies}
    plans = [plan for plan in map(json.loads, stored_texts(storage)) if plan.get("studies")]
    names = {study["name"] for plan in plans for study in plan["studies"]}
    records, there = storage.studies.read_many(sorted(names)), storage.ledger.keys()
    open_ones = alive | {name for name, record in records.items() if not record["finished"]}
    open_ones |= {name for plan in plans for name in _unconfirmed(plan, there) if name in records}
    kept = [p for p in plans if open_ones & {study["name"] for study in p["studies"]}]
    found = tuple(Plan.from_json(json.dumps(plan)) for plan in kept)
    return Unfinished(tuple(sorted(open_ones)), found)


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
class Needed:
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


def waste(needed: Needed) -> Iterator[Waste]:
    """Yield everything that may go."""
    storage = needed.storage
    yield from _artifacts(needed)
    yield from _in_storage(needed, storage)
    yield from _drivers(needed, storage)
    yield from _checkpoints(needed, storage)
    yield from _caches(needed)
    why = "their processes died before they were whole"
    for path in storage.files.abandoned():
        yield Waste("temporaries", path.name, bytes_of(path), why, partial(discard, path))


def _artifacts(needed: Needed) -> Iterator[Waste]:
    store, tombstones = needed.storage.artifacts, needed.storage.tombstones
    for kind, key in store.keys():  # noqa: SIM118 a method, not a mapping
        if key not in needed.stages:
            remove, size = partial(store.remove, kind, key), store.size(kind, key)
            yield Waste("artifacts", f"{kind} {key[:12]}", size, "no given grid needs them", remove)
    why = "no given grid has the stages whose weights were not kept"
    for kind, key in tombstones.keys():  # noqa: SIM118
        if key not in needed.stages:
            remove = partial(tombstones.remove, kind, key)
            yield Waste("records", f"{kind} {key[:12]}", 0, why, remove)


def _in_storage(needed: Needed, storage: Storage) -> Iterator[Waste]:
    """Plans, curves and damaged artifacts. A plan that was not written to its end goes when no
    driver lives.
    """
    why = {
        "plans": "no given grid has any of their stages, and no living driver runs them",
        "spool": "no given grid has their trials",
        "damaged": "they were set aside, and nothing reads them",
    }
    keys = (*needed.stages, *needed.trials)

    def is_stale(top: str, entry: str, path: str) -> bool:
        if top != "plans":
            return top == "damaged" or entry not in needed.trials
        if entry in needed.plans or not entry.endswith(".json"):
            return entry not in needed.plans and needed.quiet
        text = storage.files.read(path).decode("utf-8", "replace")
        return not any(key in text for key in keys)

    for top, reason in why.items():
        for entry, files in below(storage, top).items():
            if is_stale(top, entry, next(iter(files))):
                yield _stored(top, storage, top, entry, files, reason)


def _stored(
    kind: str, storage: Storage, top: str, entry: str, files: dict[str, int], why: str
) -> Waste:
    """Files of the storage below a folder."""
    remove = partial(remove_entry, storage, top, entry, files)
    return Waste(kind, entry, sum(files.values()), why, remove)


def _drivers(needed: Needed, storage: Storage) -> Iterator[Waste]:
    """Signs of dead drivers, and the folders of Ray that they left, in the storage and on this
    machine.
    """
    dead, lead = "the drivers that left them are dead", clock_lead(needed.storage)
    for sign in needed.signs:
        if not sign.lives:
            remove = partial(remove_sign, needed.storage, sign.name)
            yield Waste("drivers", sign.name, 0, dead, remove)
    for entry, files in below(storage, SIGNS).items():
        text = storage.files.read(next(iter(files))).decode("utf-8", "replace")
        if not is_alive(text, lead):
            remove = partial(remove_entry, storage, SIGNS, entry, files)
            yield Waste("drivers", entry, 0, dead, remove)
    alive = {sign.name for sign in needed.signs if sign.lives}
    why = "the drivers that used them are dead"
    for entry, files in below(storage, "ray").items():
        if entry not in alive and not process_of(entry):
            yield _stored("scratch", storage, "ray", entry, files, why)
    for path in left_by_dead(Path(tempfile.gettempdir()), SCRATCH):
        yield Waste("scratch", path.name, bytes_of(path), why, partial(discard, path))


def _checkpoints(needed: Needed, storage: Storage) -> Iterator[Waste]:
    """Checkpoints, and locks of trainings."""
    storage = needed.storage
    stored = {key for _, key in storage.artifacts.keys()}  # noqa: SIM118
    stored |= {key for _, key in storage.tombstones.keys()}  # noqa: SIM118
    held, folder = locks(storage), storage.local / "checkpoints"
    there: list[tuple[str, int, Callable[[], None]]] = [
        (path.name, bytes_of(path), partial(discard, path))
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.is_dir()
    ]
    if storage.is_remote:
        there += [
            (key, sum(files.values()), partial(remove_entry, storage, "checkpoints", key, files))
            for key, files in below(storage, "checkpoints").items()
        ]
    why = "their trainings are over, or no given grid has them"
    for key, size, remove in there:
        if held.get(f"making/{key}") or (key in needed.stages and key not in stored):
            continue  # a process makes it at this moment, or will
        if key in needed.stages and not needed.quiet:
            continue  # weights that were not kept may be made again by a driver
        yield Waste("checkpoints", key[:12], size, why, remove)
    why = "no driver lives and no process holds them"
    for name, holds in held.items():
        if needed.quiet and not holds:
            yield Waste("locks", name, 0, why, partial(remove_lock, storage, name))


def _caches(needed: Needed) -> Iterator[Waste]:
    """What can be fetched or written again: downloads, copies of an object store's artifacts, and
    markers of grids that were copied to a tracking store.
    """
    local, remote = needed.storage.local, needed.storage.is_remote
    over = needed.finished and needed.quiet
    found = {
        ("downloads", "nothing is left to run in the given grids; they can be fetched again"): [
            *(local.glob("downloads/*") if over else ())
        ],
        ("cache", "copies of artifacts that no given grid needs"): [
            path
            for path in (local.glob("artifacts/*/*/*") if remote else ())
            if path.name not in needed.stages and not path.name.startswith(".")
        ],
        ("tracked", "they mark other grids as copied to MLflow; `sync` writes them again"): [
            path
            for path in local.glob("tracked/*")
            if not any(f'"{name}"' in path.read_text(errors="replace") for name in needed.grids)
        ],
    }
    for (kind, why), paths in found.items():
        for path in sorted(paths):
            name = path.name if kind == "downloads" else path.name[:12]
            yield Waste(kind, name, bytes_of(path), why, partial(discard, path))


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
        names = ", ".join(sorted(map(str, storages)))
        raise RaxalignError(f"the grids use several storages ({names}): name one with --storage")
    if any(entry.plan.unresolved for entry in opened):
        raise RaxalignError(
            "a grid has unresolved remote data, so what it needs is not known: run it first, or pin"
            " its revisions"
        )
    needed = _needed(opened, opened[0].storage)
    found = list(waste(needed))
    if delete or not needed.quiet:
        # a search plans trials all the time: what had been made when it was listed above, had been
        # planned before, and is needed now
        needed = _needed([reopened(entry) for entry in opened], opened[0].storage)
        still = {(entry.kind, entry.name) for entry in waste(needed)}
        found = [entry for entry in found if (entry.kind, entry.name) in still]
    if delete:
        for entry in found:
            entry.remove()
    kept = (
        f"kept what searches need that are not finished: {', '.join(needed.searches)}. To give one"
        f" up, delete its file in {needed.storage}/studies"
    )
    return "\n".join([*([kept] if needed.searches else []), *_lines(found, delete=delete)])


def _needed(opened: list[Opened], storage: Storage) -> Needed:
    known = signs(storage)
    alive = [sign for sign in known if sign.lives]
    living = [_plan_of(sign) for sign in alive]
    searches = unfinished(storage, living)
    plans = [*(entry.plan for entry in opened), *living, *searches.plans]
    given = {study.name for entry in opened for study in entry.plan.studies}
    own = {key for entry in opened for t in entry.plan.trials for key in t.evaluations.values()}
    return Needed(
        storage,
        frozenset(key for plan in plans for key in plan.stages),
        frozenset(trial.key for plan in plans for trial in plan.trials),
        frozenset(plan.name for plan in plans),
        frozenset(sign.plan.rpartition("/")[2] for sign in alive),
        tuple(known),
        finished=own <= storage.ledger.keys(),
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


def _lines(found: list[Waste], *, delete: bool) -> Iterator[str]:
    """Yield a line per artifact, one per kind with number, bytes and reason, and the sum."""
    would = "removed" if delete else "would remove"
    for entry in found:
        if entry.kind == "artifacts":
            yield f"{would} {entry.name} ({volume(entry.size)})"
    for kind in dict.fromkeys(entry.kind for entry in found):
        own = [entry for entry in found if entry.kind == kind]
        size = volume(sum(entry.size for entry in own))
        yield f"{would} {len(own)} {kind} ({size}): {own[0].why}"
    total = volume(sum(entry.size for entry in found))
    yield f"{total} {'freed' if delete else 'could be freed with --delete'}"
