"""The workshop: makes the stages of a plan that are not in the storage, alone or in a group of
workers. The functions that make them work with it: other stages, encoders, and the runtime.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.caveats import Caveats
from raxalign.encoders.base import Encoder, EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import DataError, LeaseLost, RaxalignError, StorageError, TransientError
from raxalign.options.run import BasePrecision, Precision
from raxalign.options.sources import LocalFile, Source
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.printing import to_stderr
from raxalign.search.watch import Watched
from raxalign.stages.checkpoints import Checkpoints
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.lease import Held, Holder
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.train.devices import check_compiler, check_device, peak_memory
from raxalign.train.group import barrier, share_value
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    pass


TRAINED = frozenset({"aligned", "tuned"})
"""Kinds of stages that are trained for one trial. What several trials need is made before them."""
FITTED = TRAINED | {"encoder"}
"""Kinds of stages with checkpoints. Every worker of a trial takes part in making them."""
GPU_BYTES = "gpu_bytes"
"""The note with the memory of a card that making a stage took."""

MAKERS: dict[str, Callable[[Workshop, Stage, Path], Mapping[str, Any]]] = {}
"""Stage kind -> what writes its artifact into a folder and returns its notes."""


@dataclass
class Workshop:
    """A plan, a storage, and the process that makes stages.

    Attributes:
        plan: The plan whose stages are made.
        storage: Where artifacts and results are.
        runtime: Device, threads and workers of this process.
        announce: Called with a stage and seconds when a stage was made, not when it was there.
        watched: The training that may end early (None: none does).
        patience: Returns how long the silent holder of a stage's lock is waited for (`Locks.hold`).
        tell: Receives a line for the user on what is waited for.
    """

    plan: Plan
    storage: Storage
    runtime: Runtime
    announce: Callable[[Stage, float], None] = lambda stage, seconds: None  # noqa: ARG005
    watched: Watched | None = None
    patience: Callable[[Holder], float] | None = None
    tell: Callable[[str], None] = to_stderr
    _aligned: dict[str, AlignedEncoder] = field(default_factory=dict)
    _held: dict[str, Held] = field(default_factory=dict)
    _checkpoints: dict[str, Checkpoints] = field(default_factory=dict)
    _read: list[set[str]] = field(default_factory=lambda: [set()])  # artifacts, by open block

    @property
    def downloads(self) -> Path:
        """Where fetched data is."""
        return self.storage.local / "downloads"

    @property
    def store(self) -> ArtifactStore:
        """Where artifacts are."""
        return self.storage.artifacts

    @property
    def ledger(self) -> Ledger:
        """Where results are."""
        return self.storage.ledger

    def ensure(self, key: str) -> Path:
        """Return the folder of a stage's artifact. It is made first, with its inputs, where it is
        missing or damaged. Where another process takes over what this one makes, the result of the
        other one is waited for.
        """
        stage = self.plan.stages[key]
        while True:
            try:
                folder = self._ensure(stage)
                self._read[-1].add(key)
                return folder
            except LeaseLost as lost:
                # in a group the other workers wait for this one, so that all of them start again
                if self.runtime.world_size > 1:
                    raise
                self.tell(f"{stage.kind} {key[:12]}: {lost}")

    @contextmanager
    def reading(self, *stages: Stage | None) -> Iterator[None]:
        """Let the block read what some stages read, in the process that reads it. Raises
        `DataError`, before the block or after it, for a local file that is not the one of the plan,
        and `TransientError` after it for an artifact that was lost meanwhile: what is missing of it
        may look like data that there never was.
        """
        planned = {path: own for s in stages if s for path, own in _planned(s).items()}
        read = set[str]()
        self._read.append(read)
        try:
            with self.storage.digests.unchanged(planned):
                yield
        except Exception:
            self._still_there(read)  # what was lost may be all of the error
            raise
        finally:
            self._read.pop()
        self._still_there(read)

    def _still_there(self, keys: set[str]) -> None:
        for key in keys:
            stage = self.plan.stages[key]
            try:
                self.store.open(stage.kind, key)
            except StorageError as error:
                raise TransientError(f"{error} It was being read; it is made again") from error

    def inputs(self, stage: Stage, name: str) -> dict[str, Path]:
        """Return the artifacts of the inputs called ``name/lang``, by language."""
        prefix = f"{name}/"
        return {
            entry.removeprefix(prefix): self.ensure(key)
            for entry, key in stage.inputs.items()
            if entry.startswith(prefix)
        }

    def datasets(self, stage: Stage, name: str) -> dict[str, Path]:
        """Return the data sets in the artifacts of the inputs called ``name/lang``, by language."""
        return {lang: path / "data" for lang, path in self.inputs(stage, name).items()}

    def task_inputs(self, stage: Stage) -> TaskInputs:
        """Return what the training or the evaluation of a task reads; it is made first."""
        return TaskInputs(
            pivot=str(stage.params["pivot"]),
            heldout=self.inputs(stage, "heldout"),
            seen=self.inputs(stage, "seen"),
            text=self.datasets(stage, "text"),
            bitext=self.inputs(stage, "bitext"),
            files=files_of(stage),
            digests=stage.digests,
            downloads=self.downloads,
            unseen=stage.unseen,
        )

    def training_inputs(self, stage: Stage, task: Stage) -> TaskInputs:
        """Return what the training of a task reads, which is made by a stage: its own, or that of a
        method. One that is watched reads the development sets of its evaluation too.
        """
        rows = {name.removeprefix("rows/"): self.ensure(key) for name, key in task.prepared.items()}
        return replace(self.task_inputs(self._watching(stage.key) or task), rows=rows)

    def _watching(self, training: str) -> Stage | None:
        """Return the evaluation that a training which is watched reads ahead."""
        watched = self.watched
        return watched.evaluation if watched and watched.training == training else None

    def checkpoints(self, key: str) -> Checkpoints:
        """Return the checkpoints of a stage's training."""
        if key not in self._checkpoints:
            self._checkpoints[key] = Checkpoints(self.storage, key)
        return self._checkpoints[key]

    def runtime_for(self, stage: Stage) -> Runtime:
        """Return the runtime with the stage's seed, checkpoints and watch, where it is watched."""
        kept, held = self.checkpoints(stage.key), self._held.get(stage.key)

        def saved() -> None:
            self.runtime.saved()
            kept.saved()

        check_device(self.runtime.device, stage.precision, stage.base_precision)
        if stage.compiled:
            check_compiler(self.runtime.device)
        runtime = replace(
            self.runtime,
            seed=int(str(stage.params.get("seed", 0))),
            checkpoints=kept.folder,
            saved=saved,
            owned=held.check if held is not None else self.runtime.owned,
            precision=stage.precision,
            compiled=stage.compiled,
            shares=stage.shares,
        )
        if self.watched is None or self.watched.training != stage.key:
            return runtime
        return replace(runtime, watch=self.watched.watch(self.storage))

    def encoder(
        self,
        key: str,
        precision: Precision = "fp32",
        base: BasePrecision = "fp32",
        *,
        compiled: bool = False,
    ) -> Encoder:
        """Load the encoder of a stage, fresh and on the device of this process, to compute in a
        precision, with its weights held in another, and compiled or not. The encoder of a task's
        training has the weights that the training left. Raises `RaxalignError` where a kind of
        encoder from outside does not hold weights so.
        """
        stage = self.plan.stages[key]
        folder = None if stage.inline else self.ensure(key)
        if stage.kind == "tuned":
            start = self.encoder(stage.inputs["encoder"], precision, base, compiled=compiled)
            trained: Encoder = stage.plugin().trained_encoder(start, folder)
            return trained
        check_device(self.runtime.device, base=base)
        inputs = EncoderInputs(
            locations=stage.locations, folder=folder, revisions=stage.digests, base_precision=base
        )
        with self.reading(stage if stage.inline else None):
            encoder: Encoder = stage.plugin().load(inputs, self.runtime.device)
        if encoder.base_precision != base:
            raise RaxalignError(
                f"run.base_precision: {base}: encoders of the kind {stage.maker} do not read"
                " `EncoderInputs.base_precision`; leave it at fp32"
            )
        encoder.precision, encoder.compiled = precision, compiled
        return encoder

    def aligned(self, key: str) -> AlignedEncoder:
        """Load the aligned encoder of a stage. The last one stays in memory for the next task."""
        if key not in self._aligned:
            folder, stage = self.ensure(key), self.plan.stages[key]
            start = stage.inputs["encoder"]
            self._aligned.clear()
            base, device = stage.base_precision, self.runtime.device
            found = AlignedEncoder.load(
                folder, lambda: self.encoder(start, base=base), device, held=base
            )
            found.encoder.precision, found.encoder.compiled = stage.precision, stage.compiled
            self._aligned[key] = found
        return self._aligned[key]

    def _ensure(self, stage: Stage) -> Path:
        """Do what `ensure` does, or raise `LeaseLost`."""
        key, start, made = stage.key, time.monotonic(), list[Stage]()
        device, read = self.runtime.device, [stage, stage.task, self._watching(key)]

        def build(folder: Path) -> Mapping[str, Any]:
            made.append(stage)
            with self.reading(*read), Caveats.collecting() as found, peak_memory(device) as peak:
                notes = MAKERS[stage.kind](self, stage, folder)
            took = {GPU_BYTES: peak.bytes} if stage.kind in FITTED and peak.bytes else {}
            return {**notes, **found.notes(), **took}

        with self._turn(stage) as held:
            folder: Path = (
                self.store.make(stage.kind, key, build)
                if self.runtime.world_size == 1
                else self._ensure_together(stage, build)
            )
            if made and self.runtime.rank == 0 and stage.kind in FITTED and _keeps(held):
                self.checkpoints(key).remove()
        if made and self.runtime.rank == 0:
            self.announce(stage, time.monotonic() - start)
        return folder

    @contextmanager
    def turn(self, kind: str, key: str, done: Callable[[], bool]) -> Iterator[Held | None]:
        """Wait for another grid or another part of this one, on any machine, that makes the same on
        the same storage. Yields the lock, or None where it is done before or meanwhile.
        """
        if done():
            yield None
            return

        def told(holder: str) -> None:
            self.tell(
                f"waits for {holder}, which holds the lock of the same {kind} {key[:12]},"
                " until it is done or shows no sign of life for a minute or more"
            )

        making = "evaluating" if kind == "evaluation" else "making"
        with self.storage.locks.hold(f"{making}/{key}", told, self.patience) as held:
            yield None if done() else held

    @contextmanager
    def _turn(self, stage: Stage) -> Iterator[Held | None]:
        """Wait until this process alone may make a stage. The checkpoints of a training belong to
        one process: they are fetched first, and removed when the artifact is there. Yields the
        lock, where this process needs one.
        """
        kind, key = stage.kind, stage.key
        if self.runtime.rank != 0:
            yield None
            return
        with self.turn(kind, key, lambda: self.store.has(kind, key)) as held:
            if held is not None:
                if kind in FITTED:
                    self.checkpoints(key).restore()
                self._held[key] = held
            try:
                yield held
            finally:
                self._held.pop(key, None)

    def _ensure_together(self, stage: Stage, build: Callable[[Path], Mapping[str, Any]]) -> Path:
        """Do what `ensure` does in a group of workers: all take part in training, and the first one
        makes everything else and stores the results.
        """
        present = share_value(
            self.runtime.rank == 0
            and self.store.has(stage.kind, stage.key)
            and self.store.verify(stage.kind, stage.key)
        )
        if not present:
            if self.runtime.rank == 0:
                self.store.make(stage.kind, stage.key, build)
            elif stage.kind in FITTED:
                with tempfile.TemporaryDirectory(prefix="raxalign-") as discarded:
                    build(Path(discarded))
            barrier()
        return self.store.open(stage.kind, stage.key)


def files_of(stage: Stage) -> dict[str, dict[str, Path]]:
    """Return the local files of a stage: name -> language -> path."""
    files: dict[str, dict[str, Path]] = {}
    for entry, place in stage.locations.items():
        name, _, lang = entry.rpartition("/")
        if Path(place).is_absolute():
            files.setdefault(name, {})[lang] = Path(place)
    return files


def _planned(stage: Stage) -> dict[Path, str]:
    """Return the local files that a stage reads, each with its SHA-256 in the plan. Raises
    `DataError` for one that has come since into a folder which is opened as a whole.
    """
    named = {name: Path(place) for name, place in stage.locations.items()}
    places = {name: path for name, path in named.items() if path.is_absolute() or path.is_file()}
    with suppress(DataError):  # where a folder has gone, its files have too
        places |= {n: s.path for n, s in _sources(stage) if isinstance(s, LocalFile)}
    for name in sorted(places.keys() - stage.digests.keys()):
        remedy = "Remove it, or run the command again to plan with it, under other keys"
        raise DataError(places[name], "was not there when this was planned", remedy=remedy)
    return {path: stage.digests[name] for name, path in places.items()}


def _sources(stage: Stage) -> Iterator[tuple[str, Source]]:
    """Yield the outside data that an encoder, a method or a task has now on this machine, by name:
    a library may open all of a folder. A corpus reads the files that the plan names, and no others.
    """
    if stage.kind == "encoder":
        yield from stage.plugin().sources().items()
    elif stage.kind in {*TRAINED, "evaluation"} and stage.catalogue is not None:
        plugin, pivot = stage.plugin(), stage.params["pivot"]
        for lang in stage.languages:
            yield from ((f"{n}/{lang}", s) for n, s in plugin.sources(lang, pivot).items())


def _keeps(held: Held | None) -> bool:
    """Return whether checkpoints are this process's to remove. Who cannot ask leaves them."""
    with suppress(StorageError):
        return held is None or held.is_held()
    return False
