"""What a storage holds that nobody needs any more: why it may go, and its removal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.estimates import volume
from raxalign.grid.load import Opened, open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.grid.study import StudyRecord
from raxalign.store.alive import ScratchFolders, discard, process_of
from raxalign.store.storage import Storage

_WHY = {
    "artifacts": "no given grid needs them",
    "records": "no given grid has the stages whose weights were not kept",
    "plans": "no given grid has any of their stages, and no living driver runs them",
    "spool": "no given grid has their trials",
    "damaged": "they were set aside, and nothing reads them",
    "former": "an earlier version left them, and nothing reads them",
    "scratch": "the drivers that used them are dead",
    "checkpoints": "their training runs are over, or no given grid has them",
    "locks": "no driver lives and no process holds them",
    "downloads": "nothing is left to run in the given grids; they can be fetched again",
    "states": "encoders have read them from text, and read them again where they are needed",
    "cache": "copies of artifacts that no given grid needs",
    "tracked": "they mark other grids as copied to MLflow; `sync` writes them again",
    "temporaries": "their processes died before they were whole",
}


def unfinished(storage: Storage, run: Iterable[Plan]) -> tuple[tuple[str, ...], list[Plan]]:
    """Return the names of the studies that a living driver runs, that have budget left, or whose
    best points are not all confirmed, and the plans that hold their trials so far, which are in no
    grid file. A study without a record has not begun, or is given up.
    """
    alive = {study.name for plan in run for study in plan.studies}
    plans = [plan for plan in StoredPlans(storage) if plan.studies]
    studies = {study.name: study for plan in plans for study in plan.studies}
    records, there = StudyRecord.read(storage, studies.values()), storage.ledger.keys()
    left = alive | {name for name, record in records.items() if not record.finished}
    for plan in plans:
        for trial in plan.trials:
            searched, done = trial.searched, there.issuperset(trial.evaluations.values())
            if searched and searched.confirmed and not done and searched.study in records:
                left.add(searched.study)
    kept = [plan for plan in plans if left & {study.name for study in plan.studies}]
    return tuple(sorted(left)), kept


@dataclass(frozen=True)
class Waste:
    """Something that may go: its kind, what it is called, its bytes, and how it is removed."""

    kind: str
    name: str
    size: int
    remove: Callable[[], None]


@dataclass(frozen=True)
class Needed:
    """What is needed of a storage by the given grids and by living drivers: keys of stages and of
    trials, and names of grids. `held` are the locks of living processes, `finished` is whether
    nothing is left to run in the given grids, and `searches` are the unfinished studies of no given
    grid.
    """

    storage: Storage
    stages: Collection[str]
    trials: Collection[str]
    grids: Collection[str]
    held: Collection[str]
    finished: bool
    searches: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether no driver lives."""
        return not any(name.startswith("drivers/") for name in self.held)


def waste(needed: Needed) -> Iterator[Waste]:
    """Yield everything that may go."""
    store, tombstones = needed.storage.artifacts, needed.storage.tombstones
    idle = [found for found in store.keys() if found[1] not in needed.stages]  # noqa: SIM118
    for key, manifest in store.manifests(idle).items():  # without those that are damaged
        remove = partial(store.remove, manifest.kind, key)
        yield Waste("artifacts", f"{manifest.kind} {key[:12]}", manifest.size, remove)
    for kind, key in tombstones.keys():  # noqa: SIM118
        if key not in needed.stages:
            yield Waste("records", f"{kind} {key[:12]}", 0, partial(tombstones.remove, kind, key))
    yield from _files(needed)
    yield from _of_drivers(needed)
    yield from _checkpoints(needed)
    yield from _copies(needed)
    yield from (_local("temporaries", path) for path in needed.storage.abandoned())


def _local(kind: str, path: Path, name: str = "") -> Waste:
    """A file or folder of this machine."""
    return Waste(kind, name or path.name, _bytes(path), partial(discard, path))


def _below(kind: str, storage: Storage, top: str, entry: str, files: dict[str, int]) -> Waste:
    """Files of the storage below a folder."""
    remove = partial(_remove, storage, top, entry, files)
    return Waste(kind, entry, sum(files.values()), remove)


def _files(needed: Needed) -> Iterator[Waste]:
    """Plans, also those not written to their end, curves and damaged artifacts."""
    storage, keys = needed.storage, (*needed.stages, *needed.trials)
    run = {_plan_of(name) for name in needed.held}
    for entry, files in _entries(storage, "plans").items():
        whole = entry.endswith(".json")
        if entry not in run and (needed.quiet if not whole else not _has(storage, files, keys)):
            yield _below("plans", storage, "plans", entry, files)
    former = [("former", top, ()) for top in ("collected", "drivers", "studies/drivers")]
    for kind, top, kept in (("spool", "spool", needed.trials), ("damaged", "damaged", ()), *former):
        for entry, files in _entries(storage, top).items():
            if entry not in kept:
                yield _below(kind, storage, top, entry, files)


def _has(storage: Storage, files: dict[str, int], keys: Iterable[str]) -> bool:
    text = storage.files.read(next(iter(files)))
    return any(key.encode() in text for key in keys)


def _of_drivers(needed: Needed) -> Iterator[Waste]:
    """Locks that no process holds, and the folders of Ray that dead drivers left. A lock that
    others take too goes while no driver lives.
    """
    storage = needed.storage
    names = {name.rpartition("/")[0] for name in storage.files.names("locks")}
    for name in sorted(names - {"", *needed.held}):
        if needed.quiet or name.startswith(("drivers/", "searching/")):
            remove = partial(storage.files.remove, f"locks/{name}")
            yield Waste("locks", name, 0, remove)
    for entry, files in _entries(storage, "ray").items():
        used = any(name.startswith(f"drivers/{entry}-") for name in needed.held)
        if not used and not process_of(entry):
            yield _below("scratch", storage, "ray", entry, files)
    for path in ScratchFolders.left_by_dead(Path(tempfile.gettempdir())):
        yield _local("scratch", path)


def _plan_of(driver: str) -> str:
    """Return the name of the plan that a driver runs, by the name of its lock."""
    return driver.partition(".")[2]


def _checkpoints(needed: Needed) -> Iterator[Waste]:
    """Checkpoints of trainings that no process makes."""
    storage = needed.storage
    stored = {key for _, key in storage.artifacts.keys()}  # noqa: SIM118
    stored |= {key for _, key in storage.tombstones.keys()}  # noqa: SIM118
    folder = storage.local / "checkpoints"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    there = [
        (path.name, _local("checkpoints", path, path.name[:12])) for path in paths if path.is_dir()
    ]
    if storage.is_remote:
        for key, files in _entries(storage, "checkpoints").items():
            remove = partial(_remove, storage, "checkpoints", key, files)
            there.append((key, Waste("checkpoints", key[:12], sum(files.values()), remove)))
    for key, entry in there:
        if f"making/{key}" in needed.held or (key in needed.stages and key not in stored):
            continue  # a process makes it at this moment, or will
        if key in needed.stages and not needed.quiet:
            continue  # weights that were not kept may be made again by a driver
        yield entry


def _copies(needed: Needed) -> Iterator[Waste]:
    """What can be fetched or made again: downloads, states that encoders have read, copies of an
    object store's artifacts, and markers of grids that were copied to a tracking store.
    """
    local = needed.storage.local
    if needed.quiet:
        yield from (
            _local("states", path, path.name[:12]) for path in sorted(local.glob("states/*"))
        )
    if needed.finished and needed.quiet:
        yield from (_local("downloads", path) for path in sorted(local.glob("downloads/*")))
    for path in sorted(local.glob("artifacts/*/*/*")) if needed.storage.is_remote else ():
        if path.name not in needed.stages and not path.name.startswith("."):
            yield _local("cache", path, path.name[:12])
    for path in sorted(local.glob("tracked/*")):
        text = path.read_text(errors="replace")
        if not any(f'"{name}"' in text for name in needed.grids):
            yield _local("tracked", path, path.name[:12])


def _entries(storage: Storage, top: str) -> dict[str, dict[str, int]]:
    """Return the files below a folder of a storage with their bytes, grouped by the entry of the
    folder that they belong to (a file of the folder itself is its own entry).
    """
    found: dict[str, dict[str, int]] = {}
    for name, size in storage.files.names(top).items():
        found.setdefault(name.partition("/")[0], {})[f"{top}/{name}"] = size
    return found


def _remove(storage: Storage, top: str, entry: str, files: dict[str, int]) -> None:
    """Remove an entry of a folder with its files."""
    if list(files) == [f"{top}/{entry}"]:
        storage.files.delete(f"{top}/{entry}")
    else:
        marker = next(iter(files)).removeprefix(f"{top}/{entry}/")
        storage.files.remove(f"{top}/{entry}", marker)


def _bytes(path: Path) -> int:
    """Return the bytes of a local file, or of all files of a folder; links are not followed."""
    whole = path.is_dir() and not path.is_symlink()
    own = [file for file in path.rglob("*") if file.is_file()] if whole else [path]
    return sum(file.lstat().st_size for file in own if file.exists() or file.is_symlink())


def collect(files: list[Path], storage: str | None, *, delete: bool) -> str:
    """Report what the given grids of one storage do not need, and remove it with `delete`; results
    in the ledger never go.

    Raises `RaxalignError` where what is needed cannot be known: a grid cannot be read, has
    unresolved data or another storage, or the plan of a living driver cannot be read.
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
        needed = _needed([entry.again() for entry in opened], opened[0].storage)
        still = {(entry.kind, entry.name) for entry in waste(needed)}
        found = [entry for entry in found if (entry.kind, entry.name) in still]
    for entry in found if delete else ():
        entry.remove()
    return "\n".join(_told(needed, found, delete=delete))


def _told(needed: Needed, found: Sequence[Waste], *, delete: bool) -> list[str]:
    """A line per artifact, one per kind with number, bytes and reason, and the sum."""
    would, lines = "removed" if delete else "would remove", []
    if needed.searches:
        lines.append(
            f"kept what searches need that are not finished: {', '.join(needed.searches)}. To give"
            f" one up, delete its file and its folder in {needed.storage}/studies"
        )
    artifacts = [entry for entry in found if entry.kind == "artifacts"]
    lines += [f"{would} {entry.name} ({volume(entry.size)})" for entry in artifacts]
    for kind in dict.fromkeys(entry.kind for entry in found):
        own = [entry for entry in found if entry.kind == kind]
        size = volume(sum(entry.size for entry in own))
        lines.append(f"{would} {len(own)} {kind} ({size}): {_WHY[kind]}")
    total = volume(sum(entry.size for entry in found))
    return [*lines, f"{total} {'freed' if delete else 'could be freed with --delete'}"]


def _needed(opened: list[Opened], storage: Storage) -> Needed:
    held, run = storage.locks.living(), list[Plan]()
    for name, who in held.items():
        place = f"{storage}/plans/{_plan_of(name)}"
        try:
            run += [StoredPlans.at(place)] if name.startswith("drivers/") else []
        except (FileNotFoundError, StorageError) as error:
            raise RaxalignError(
                f"a driver runs on this storage, on {who}, and its plan {place} cannot be read, so"
                f" what it needs is not known: {error}. Wait until it has ended"
            ) from error
    studies, searching = unfinished(storage, run)
    plans = [*(entry.plan for entry in opened), *run, *searching]
    given = {study.name for entry in opened for study in entry.plan.studies}
    own = {key for entry in opened for t in entry.plan.trials for key in t.evaluations.values()}
    return Needed(
        storage,
        frozenset(key for plan in plans for key in plan.stages),
        frozenset(trial.key for plan in plans for trial in plan.trials),
        frozenset(plan.name for plan in plans),
        held.keys(),
        finished=own <= storage.ledger.keys(),
        searches=tuple(name for name in studies if name not in given),
    )
