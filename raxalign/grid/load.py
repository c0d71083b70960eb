"""Opening a grid file for any command: read it, find its storage, expand it; choosing a part of its
plan; and what it reads from outside: asked about, and fetched ahead of a run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.errors import GridError, RaxalignError, StorageError, TransientError
from raxalign.grid.estimates import volume
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import Grid, load
from raxalign.grid.lock import Lock
from raxalign.grid.plan import Plan
from raxalign.grid.study import Study, Suggestion
from raxalign.grid.trial import Trial
from raxalign.grid.yaml_file import Faults
from raxalign.options.axes import Axis
from raxalign.options.run import RunConfig, effective
from raxalign.options.sources import RemoteData, looked_up
from raxalign.store.storage import Storage
from raxalign.trust import require_trust

if TYPE_CHECKING:
    from raxalign.corpora.readers.repository import Remote


def readers(grid: Grid) -> Iterator[tuple[Any, str, str]]:
    """Yield the corpora and tasks of a grid, each with a language that it reads, and the one that
    it calls the pivot: a task what it is trained on.
    """
    for lang in (*grid.languages, *grid.outside):
        for spec in (grid.corpora[lang], *([grid.text] if grid.text else [])):
            yield spec.plugin(), lang, grid.pivot
    for task in grid.tasks:
        plugin, home = task.plugin(), task.home(grid.pivot)
        chosen = grid.languages if task.languages is None else task.languages
        trained: Sequence[str] = ()
        if task.unseen and (training := plugin.training()) is not None:
            # where it is evaluated in these alone, it may be trained on those that are aligned
            trained = training.languages(grid.languages, home)
        for lang in dict.fromkeys((*chosen, *task.unseen, grid.pivot, home, *trained)):
            yield plugin, lang, home


def _pins_of(grid: Grid) -> dict[str, str | None]:
    """Return all remote names of a grid, each with its pin: that of the file, or of the lock."""
    lock = Lock.load(grid.path)
    return {name: pin or lock.get(name) for name, pin in _named(grid).items()}


def _named(grid: Grid) -> dict[str, str | None]:
    """All remote names, each with the pin that the file has; None where one of several encoders of
    the name has none: the others know their own.
    """
    found = dict[str, str | None]()
    for source in _remote_data(grid):
        found[source.name] = source.pin if found.get(source.name, source.pin) else None
    return found


def _remote_data(grid: Grid) -> Iterator[RemoteData]:
    """Yield what the encoders, corpora and tasks of a grid read from outside."""
    sources = [s for spec in grid.every_encoder() for s in spec.plugin().sources().values()]
    for plugin, lang, pivot in readers(grid):
        sources += plugin.sources(lang, pivot).values()
    yield from (source for source in sources if isinstance(source, RemoteData))


def renew(grid: Grid, downloads: Path) -> None:
    """Ask anew for downloads that the file does not pin; a file that has changed on its server is
    fetched, and the old one is kept for other grids' locks. Raises as `Opened.fetched`.
    """
    pins = _named(grid)
    for remote in remotes(grid):
        if pins.get(remote.name) is None:
            remote.renew(downloads)


def remotes(grid: Grid) -> tuple[Remote, ...]:
    """Return what a grid reads from outside, each part once; several may have one pin."""
    found = [remote for spec in grid.every_encoder() for remote in spec.plugin().remotes()]
    found += [part for source in _remote_data(grid) for part in source.parts]
    return tuple(dict.fromkeys(found))


_KIND = "kind"  # of a trial's method


@dataclass(frozen=True, repr=False)
class Opened:
    """A grid file that was read, the settings of its run, and its plan: of all trials, or of those
    of some cells (`Trial.cell`).
    """

    grid: Grid
    run: RunConfig
    plan: Plan
    cells: frozenset[str] | None = None

    def __repr__(self) -> str:
        return (
            f"<grid {self.plan.name}: {len(self.plan.trials)} trials, {len(self.plan.stages)}"
            f" stages, storage {self.storage}>"
        )

    @property
    def root(self) -> str:
        """The storage root."""
        return self.run.storage

    @cached_property
    def storage(self) -> Storage:
        """The storage."""
        return Storage(self.run.storage)

    @property
    def sources(self) -> dict[str, str]:
        """The texts that the grid is made of, by their file names: the grid file, its lock, and its
        plug-ins as long as they are what was read.
        """
        lock = self.grid.path.with_suffix(".lock")
        texts = {self.grid.path.name: self.grid.text_of_file}
        texts |= {lock.name: lock.read_text(encoding="utf-8")} if lock.is_file() else {}
        for plugin in self.plan.plugins:
            file = Path(plugin.path)
            data = file.read_bytes() if file.is_file() else b""
            if hashlib.sha256(data).hexdigest() == plugin.digest:
                texts[file.name] = data.decode("utf-8", "replace")
        return texts

    def looks(self) -> tuple[str, bool]:
        """Return how far the planned looks of a grid with `stop` are, in words, and whether they
        are over; a grid without it has none.
        """
        stop = self.grid.stop
        if stop is None:
            return "", True
        taken = stop.taken(self.plan.looks, self.grid.claims, self.storage)
        return stop.state(self.plan.trials, taken)

    def again(self, suggested: Callable[[Study], Iterable[Suggestion]] | None = None) -> Opened:
        """Return the grid with what its searches suggested since, or with other suggestions."""
        plan = _expand(self.grid, self.storage, suggested=suggested)
        if self.cells is not None:
            plan = plan.only(trial for trial in plan.trials if trial.cell in self.cells)
        return replace(self, plan=plan)

    def resolved(self, downloads: Path) -> Opened:
        """Fetch or look up what is unresolved, write it into ``<grid>.lock``, and expand again.

        Does nothing where all is resolved. Two facts about encoders are looked up too, where they
        are not known: the number of layers, and whether there is a masked-LM head. Where that
        fails, the plan reports the number as unknown, and takes the head to be there. `downloads`
        is a folder for what is fetched. Raises `RaxalignError` for remote data that could not be
        resolved.
        """
        grid, wanted = self.grid, set(self.plan.unresolved)
        lock = Lock.load(grid.path)
        heads = [spec.plugin().has_head(lock.get) for spec in grid.encoders]
        if not wanted and not self.plan.unknown_depths and None not in heads:
            return self
        for found in _fetched(grid, downloads) if wanted else ():
            for name, revision in found.items():
                if name in wanted:
                    lock = lock.with_(name, revision)
                    lock.save()
        _lock_configs(grid, lock)
        again = self.again()
        if again.plan.unresolved:
            raise RaxalignError(
                f"{grid.path}: could not resolve {', '.join(again.plan.unresolved)}: pin it in the"
                " grid file (`revision` or `sha256`)"
            )
        return again

    def updated(self, downloads: Path) -> tuple[Opened, tuple[str, ...]]:
        """Look up anew what the lock of a grid has of remote data, write it there, and expand
        again; return this with a line on each entry that is another one now. Raises as `resolved`.
        """
        lock, changes = Lock.load(self.grid.path), list[str]()
        renew(self.grid, downloads)
        for found in _fetched(self.grid, downloads):
            for name, revision in found.items():
                before = lock.get(name)
                if before not in (None, revision):
                    changes.append(f"{name}: {str(before)[:12]} -> {revision[:12]}")
                    lock = lock.with_(name, revision)
        if changes:
            lock.save()
        return self.again().resolved(downloads), tuple(dict.fromkeys(changes))

    def fetched(self, downloads: Path) -> Iterator[str]:
        """Fetch all that a grid reads from outside, unless it is there, and yield a line on each
        part with its size, then one on all. The lock has all pins. Raises `RaxalignError` for the
        first part that cannot be had; what was fetched before it stays.
        """
        pins, found, total = _pins_of(self.grid), remotes(self.grid), 0
        for remote in found:
            pin = pins.get(remote.name)
            size = remote.bring(pin, downloads)
            total += size
            yield f"{volume(size):>10}  {remote}  {str(pin)[:12]}"
        for name in sorted(pins.keys() - {remote.name for remote in found}):
            told = "is not fetched: it is on this machine, or its own library fetches it"
            yield f"{'':>10}  {name}  {told}"
        yield f"{volume(total):>10}  in all"

    def answers(self, downloads: Path) -> Iterator[str]:
        """Ask about each part that a grid reads from outside, and yield a line for `raxalign
        doctor`: whether it can be had, how large it is, and whether it is gated.
        """
        pins = _pins_of(self.grid)
        for remote in remotes(self.grid):
            pin = pins.get(remote.name)
            try:
                size, gated = remote.size(pin, downloads), remote.gated()
            except RaxalignError as error:
                yield f"broken   {remote}: {error}"
                continue
            told = f"pinned at {pin[:12]}" if pin else "not pinned yet"
            terms = "; gated, and you have access" if gated else ""
            yield f"ok       {remote}: {volume(size)}, {told}{terms}"


def open_grid(
    source: Path | str | Mapping[str, Any],
    *,
    storage: str | None = None,
    address: str | None = None,
    workers: int | None = None,
    keep: str | None = None,
    allow_missing: bool = False,
) -> Opened:
    """Read a grid file and expand it.

    Args:
        source: The grid file, or a mapping with the content of one: its paths are relative to the
            working directory, and faults have no lines.
        storage: The flag ``--storage``. Flags come before the environment, and the environment
            before the file's `run`.
        address: The flag ``--address``.
        workers: The flag ``--workers``.
        keep: The flag ``--keep``.
        allow_missing: See `expand`.

    Raises:
        GridError: The file has faults.
        DataError: Files that it names are missing.
        RaxalignError: A flag is impossible, an address is not trusted (`raxalign.trust`), or the
            grid as a whole shows another fault.
    """
    with _without_lines(source):
        grid = load(source)
        _require_trust(grid, storage, address)
        run = effective(
            grid.run,
            storage=storage,
            address=address,
            workers=workers,
            keep=keep,
            environ=os.environ,
        )
        return Opened(grid, run, _expand(grid, Storage(run.storage), allow_missing=allow_missing))


def _require_trust(grid: Grid, storage: str | None, address: str | None) -> None:
    """Ask about the addresses of a file that neither a flag nor the environment replaces."""
    own = os.environ.get
    named = (
        None if storage or own("RAXALIGN_STORAGE") else grid.run.storage,
        None if own("MLFLOW_TRACKING_URI") else grid.run.tracking_uri,
        None if address else grid.run.address,
    )
    require_trust(grid.path, (), filter(None, named))


@contextmanager
def _without_lines(source: object) -> Iterator[None]:
    """Name the faults of a mapping by their keys alone: the lines would be of no file."""
    try:
        yield
    except GridError as error:
        if not isinstance(source, Mapping):
            raise
        faults = [replace(fault, line=None) for fault in error.faults]
        raise GridError("the grid", faults) from error


def _expand(
    grid: Grid,
    storage: Storage,
    *,
    allow_missing: bool = False,
    suggested: Callable[[Study], Iterable[Suggestion]] | None = None,
) -> Plan:
    digests, locked = storage.digests, Lock.load(grid.path).get
    if suggested is None:

        def suggested(study: Study) -> Iterable[Suggestion]:
            return study.record(storage).suggestions()

    def made(identity: Identity) -> Plan:
        plan = expand(grid, identity, allow_missing=allow_missing, suggested=suggested)
        if (stop := grid.stop) is None:
            return plan
        looks = stop.named(plan.trials, grid.claims, plan.metrics, storage)
        taken = stop.taken(looks, grid.claims, storage)
        return replace(plan.only(stop.reached(plan.trials, taken)), looks=looks)

    try:
        return made(Identity(digests.of, locked))
    except StorageError:  # a plan can be made without writing: digests are then not remembered
        return made(Identity(locked=locked))


def _lock_configs(grid: Grid, lock: Lock) -> None:
    """Lock layers and masked-LM heads of encoders that nothing on this machine shows."""
    for spec in grid.every_encoder():
        kind = spec.plugin()
        if None in (kind.depth(lock.get), kind.has_head(lock.get)):
            try:
                found = kind.fetch_config(lock.get)
            except TransientError:  # no result depends on it; `Plan.remarks` reports it as unknown
                continue
            for name, value in found.items():
                lock = lock.with_(name, value)
                lock.save()


def _fetched(grid: Grid, downloads: Path) -> list[Mapping[str, str]]:
    """Fetch or look up all remote data of a grid: source name -> revision or digest."""
    found: list[Mapping[str, str]] = []
    for spec in grid.every_encoder():
        encoder = spec.plugin()
        found += [encoder.fetch(), looked_up(encoder.sources(), downloads)]
    for plugin, lang, pivot in readers(grid):
        found.append(looked_up(plugin.sources(lang, pivot), downloads))
    return found


def choose(
    plan: Plan, *, only: str | None = None, shard: str | None = None, limit: int | None = None
) -> tuple[Plan, tuple[Study, ...]]:
    """Return the plan of the chosen trials that the grid names, and the chosen studies.

    Args:
        plan: The plan of the whole grid.
        only: ``name=value`` (several: comma-separated): the trials for which all of them hold. In a
            grid with searches the conditions are on what studies have: method, language, encoder
            and sentences.
        shard: ``i/n``: the i-th of n equal parts of these. It alone may be empty. Several processes
            share a search by running it as it is.
        limit: The largest number of trials of that part. A search is limited by its budget instead.

    Raises:
        RaxalignError: A condition or the shard is wrong, the conditions choose nothing, or a search
            cannot have them.
    """
    if not plan.studies:
        return select(plan, only=only, shard=shard, limit=limit), ()
    if shard is not None:
        raise RaxalignError(
            "--shard: a grid with a search has no shards: start the same command in each process,"
            " and they share its studies"
        )
    if limit is not None:
        raise RaxalignError("--limit: a search is limited by its own budget (`search.budget`)")
    sets = {trial.languages: str(trial.params.get(Axis.LANGUAGES, "")) for trial in plan.trials}
    known = list(_of_study(plan.studies[0], sets))
    conditions = list(_conditions(only, known, " in a grid with a search"))

    def meets(entry: Study | Trial) -> bool:
        return all(value in _of_study(entry, sets)[name] for name, value in conditions)

    studies = tuple(study for study in plan.studies if meets(study))
    trials = [trial for trial in plan.trials if trial.searched is None and meets(trial)]
    if not studies and not trials:
        raise RaxalignError(f"--only {only}: no trial and no study is selected")
    return plan.only(iter(trials)), studies


def _of_study(
    entry: Study | Trial, sets: Mapping[tuple[str, ...], str]
) -> dict[str, tuple[str, ...]]:
    """Return the texts that match what a study or a trial has, by the names of conditions; `sets`
    are the names of the sets of languages.
    """
    named = sets.get(entry.languages, "")
    return {
        Axis.METHOD: (entry.method,),
        Axis.LANGUAGE: entry.languages,
        Axis.ENCODER: (entry.encoder,),
        Axis.SENTENCES: (str(entry.sentences),),
        **({Axis.LANGUAGES: (named,)} if named else {}),
    }


def select(
    plan: Plan, *, only: str | None = None, shard: str | None = None, limit: int | None = None
) -> Plan:
    """Return a part of a plan without searches, as `choose` does."""
    params = {name for trial in plan.trials for name in trial.params}
    known = sorted(({*Axis, Axis.LANGUAGE, _KIND} - {Axis.LANGUAGES}) | params)
    trials = list(plan.trials)
    for name, value in _conditions(only, known):
        texts = [_matching(trial, name) for trial in plan.trials]
        if not any(value in own for own in texts):
            shown = {text for own in texts for text in (own if name == Axis.LANGUAGE else own[:1])}
            there = ", ".join(sorted(shown))
            raise RaxalignError(f"--only: no trial has {name}={value}; there are: {there}")
        trials = [trial for trial in trials if value in _matching(trial, name)]
    if not trials:
        told = "no trial has all of these; of two values of one name, run each by itself"
        raise RaxalignError(f"--only {only}: {told}" if only else "the grid has no trials")
    chosen = {trial.key for trial in trials}
    if shard is not None:
        chosen = set(sorted(chosen)[_part_of(shard)])
    mine = [trial for trial in trials if trial.key in chosen]
    return plan.only(iter(mine if limit is None else mine[:limit]))


def _part_of(shard: str) -> slice:
    """Read ``i/n``: the parts of sorted keys that are dealt out in turn are disjoint, make the
    whole together, and differ by at most one in size. Raises `RaxalignError` for another text.
    """
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", shard.strip())
    if found is None:
        raise RaxalignError(f"--shard {shard!r}: write i/n, for example 2/8")
    number, count = int(found[1]), int(found[2])
    if not 1 <= number <= count:
        told = "there is no such part; shards are numbered from 1 to n"
        raise RaxalignError(f"--shard {shard!r}: {told}")
    return slice(number - 1, None, count)


def _conditions(
    only: str | None, known: Sequence[str], where: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the conditions of ``--only``."""
    for condition in (only or "").split(","):
        name, equals, value = (part.strip() for part in condition.partition("="))
        if name and not equals:
            told = f"--only {condition!r}: write name=value, for example method=finetune"
            raise RaxalignError(told)
        if name and name not in known:
            near = Faults.nearest(name, known)
            tasks = "a trial has all tasks and sources: `results FILE --task NAME` shows one"
            told = f"did you mean {near}?" if near else f"known: {', '.join(known)}; {tasks}"
            raise RaxalignError(f"--only: unknown name {name!r}{where}; {told}")
        if name:
            yield name, value


def _matching(trial: Trial, name: str) -> tuple[str, ...]:
    """Return the texts that match what a trial has under a name."""
    if name == Axis.LANGUAGE:
        return trial.languages
    values = {**trial.point.values(), _KIND: trial.kind}
    if name not in values:
        return ()
    value = values[name]
    return (str(value), f"{value:g}" if isinstance(value, float) else str(value))
