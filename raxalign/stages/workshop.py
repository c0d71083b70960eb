"""The workshop: makes the stages of a plan that are not in the storage, alone or in a group of
workers, and runs trials: the evaluations that the ledger does not have, and what each leaves there.
The functions that make stages work with it: other stages, encoders, and the runtime.
"""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from raxalign.analysis.cells import MEANS
from raxalign.catalog import Catalog, PluginFault
from raxalign.caveats import Caveats
from raxalign.corpora.text.words import ESCAPES
from raxalign.encoders.base import Encoder, EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError, LeaseLost, RaxalignError, StorageError, TransientError
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.languages import labels_with
from raxalign.measured import Measured
from raxalign.options.run import BasePrecision, Precision
from raxalign.options.sources import LocalFile, Source
from raxalign.printing import to_stderr
from raxalign.provenance import machine, versions
from raxalign.search.watch import Watched
from raxalign.stages.checkpoints import Checkpoints
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.lease import Held, Holder
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.tasks.base import Outcome, TaskInputs
from raxalign.train.devices import check_compiler, check_device, peak_memory
from raxalign.train.group import barrier, share_value
from raxalign.train.runtime import Runtime


@dataclass
class Workshop:
    """A plan, a storage, and the process that makes stages and runs trials.

    Attributes:
        plan: The plan whose stages are made.
        storage: Where artifacts and results are.
        runtime: Device, threads and workers of this process.
        announce: Called with a stage and seconds when a stage was made, not when it was there.
        watched: The training that may end early (None: none does).
        patience: Returns how long the silent holder of a stage's lock is waited for (`Locks.hold`).
        tell: Receives a line for the user on what is waited for.
        curves: Receives points of curves in place of `Runtime.report`, each with its stage's key.
    """

    MAKERS: ClassVar[dict[str, Callable[[Workshop, Stage, Path], Mapping[str, Any]]]] = {}
    """Stage kind -> what writes its artifact into a folder and returns its notes."""

    plan: Plan
    storage: Storage
    runtime: Runtime
    announce: Callable[[Stage, float], None] = lambda stage, seconds: None  # noqa: ARG005
    watched: Watched | None = None
    patience: Callable[[Holder], float] | None = None
    tell: Callable[[str], None] = to_stderr
    curves: Callable[[str, Mapping[str, float], int], None] | None = None
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
            files=stage.files,
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
            report=partial(self.curves, stage.key) if self.curves else self.runtime.report,
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

    def keep_states(self, encoder: Encoder, key: str, reader: object, start: str = "") -> None:
        """Let an encoder with the weights of the stage `key` read each text once, for a method or a
        task that leaves them alone: one from outside may change them, whatever it declares. With
        `start`, the stage that training began from, so does what the task trained.
        """
        if type(encoder) is TransformerEncoder:
            top = None if _is_from_outside(reader) else self.storage.local / "states"
            encoder.keep_states(top, f"{key} {versions()}", start and f"{start} {versions()}")

    def _ensure(self, stage: Stage) -> Path:
        """Do what `ensure` does, or raise `LeaseLost`."""
        key, start, made = stage.key, time.monotonic(), list[Stage]()
        device, read = self.runtime.device, [stage, stage.task, self._watching(key)]

        def build(folder: Path) -> Mapping[str, Any]:
            made.append(stage)
            with self.reading(*read), Caveats.collecting() as found, peak_memory(device) as peak:
                notes = self.MAKERS[stage.kind](self, stage, folder)
            took = {self.store.GPU_BYTES: peak.bytes} if stage.fitted and peak.bytes else {}
            return {**notes, **found.notes(), **took}

        with self._turn_to_make(stage) as held:
            folder: Path = (
                self.store.make(stage.kind, key, build, self.checkpoints(key).seconds)
                if self.runtime.world_size == 1
                else self._ensure_together(stage, build)
            )
            if made and self.runtime.rank == 0 and stage.fitted and _keeps(held):
                self._checkpoints.pop(key).remove()  # if it is made again, its time begins anew
        if made and self.runtime.rank == 0:
            self.announce(stage, time.monotonic() - start)
        return folder

    @contextmanager
    def _turn(self, kind: str, key: str, done: Callable[[], bool]) -> Iterator[Held | None]:
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
    def _turn_to_make(self, stage: Stage) -> Iterator[Held | None]:
        """Wait until this process alone may make a stage; yield the lock, where it needs one. The
        checkpoints belong to one process: they are fetched first, and removed in the end.
        """
        kind, key = stage.kind, stage.key
        if self.runtime.rank != 0:
            yield None
            return
        with self._turn(kind, key, lambda: self.store.has(kind, key)) as held:
            if held is not None:
                if stage.fitted:
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
                self.store.make(stage.kind, stage.key, build, self.checkpoints(stage.key).seconds)
            elif stage.fitted:
                with tempfile.TemporaryDirectory(prefix="raxalign-") as discarded:
                    build(Path(discarded))
            barrier()
        return self.store.open(stage.kind, stage.key)

    def run_trial(self, key: str) -> list[dict[str, Any]]:
        """Run the evaluations of a trial that the ledger does not have, on one worker; return the
        records of all of them, in the order of the tasks. One that another process makes now, for a
        trial that shares it, is waited for.

        Where the trial may be pruned, what decides on that runs first, and `Pruned` is raised where
        it is. Its checkpoint stays.
        """
        trial, ledger = self.plan.by_key[key], self.ledger
        shop, ordered = self._in_order(key)
        for task, evaluation in ordered:
            with shop._turn("evaluation", evaluation, partial(ledger.has, evaluation)) as held:
                if held is not None:
                    shop.evaluate(evaluation, task, trial.encoder)
        return [ledger.read(evaluation) for evaluation in trial.evaluations.values()]

    def train_trial(self, key: str) -> None:
        """Make what the evaluations of a trial read that the ledger does not have, in a group of
        workers. One worker evaluates afterwards (`run_trial`), so that the others are free.

        Raises `Pruned` as `run_trial` does.
        """
        shop, ordered = self._in_order(key)
        for _, evaluation in ordered:
            if not share_value(self.runtime.rank == 0 and self.ledger.has(evaluation)):
                shop._ensure_inputs(shop.plan.stages[evaluation])

    def is_trained(self, key: str) -> bool:
        """Return whether the storage has what `train_trial` makes."""
        entries = self.plan.by_key[key].evaluations.values()
        missing = [entry for entry in entries if not self.ledger.has(entry)]
        stages = [self.plan.stages[entry] for entry in self.plan.closure(missing)]
        return all(s.inline or self.store.has(s.kind, s.key) for s in stages if s.trained)

    def _in_order(self, key: str) -> tuple[Workshop, list[tuple[str, str]]]:
        """Return the tasks and evaluations of a trial, first what decides on its pruning, and the
        workshop that watches that.
        """
        watched = Watched.of(self.plan, key)
        shop = replace(self, watched=watched) if watched is not None else self
        first = watched.evaluation.key if watched is not None else ""
        evaluations = self.plan.by_key[key].evaluations.items()
        return shop, sorted(evaluations, key=lambda entry: entry[1] != first)

    def _ensure_inputs(self, stage: Stage) -> Path | None:
        """Make what an evaluation reads; return the folder of the task's own training, if it has
        one.
        """
        trained = self.ensure(stage.inputs["trained"]) if "trained" in stage.inputs else None
        self.ensure(stage.inputs["aligned"])
        if trained is None or self.plan.stages[stage.inputs["trained"]].task is None:
            return trained
        return trained / Stage.TASK

    def evaluate(self, key: str, task: str, encoder: str) -> None:
        """Make an entry of the ledger and what it reads; task and encoder have the grid's names."""
        stage = self.plan.stages[key]
        trained = self._ensure_inputs(stage)
        start = time.monotonic()
        plugin, runtime = stage.plugin(), self.runtime_for(stage)
        with self.reading(stage):
            aligned, inputs = self._evaluated(stage), self.task_inputs(stage)
            with Caveats.collecting() as found:
                given = (aligned, stage.languages, inputs, runtime, trained)
                outcome: Outcome = plugin.evaluate(*given)
        if _is_from_outside(plugin):
            self._aligned.clear()  # it may have changed the encoder, which the next task reads
        _refuse_impossible(stage, outcome)
        record = {
            **stage.evaluated(task, encoder),
            "scores": [{**vars(score), "value": float(score.value)} for score in outcome.scores],
            **_unseen(stage, outcome),
            "notes": {
                **outcome.notes,
                **_joined(
                    self._training_caveats(stage, Caveats.thin_support(task, outcome.notes)),
                    found.notes(f"{task}: "),
                ),
                **self._left_out(stage),
                "links": self._links_digests(stage),
            },
            "seconds": time.monotonic() - start,
            "device": self.runtime.device,
            "machine": machine(self.runtime.device),
            "threads": self.runtime.threads,
            "precision": stage.precision,
            **({"base_precision": base} if (base := stage.base_precision) != "fp32" else {}),
            **({"compiled": True} if stage.compiled else {}),
            "versions": versions(),
            "created": time.time(),
        }
        self.ledger.write(key, record, outcome.predictions)

    def _evaluated(self, stage: Stage) -> AlignedEncoder:
        """Return the encoder that an evaluation reads: in the space of the language that its task
        was trained on, where that is not the pivot's and training read it without its transforms.
        """
        aligned, hub = self.aligned(stage.inputs["aligned"]), stage.params.get("hub")
        trained = stage.inputs.get("trained", "")
        if not aligned.weights_changed:
            before = self.plan.stages[stage.inputs["aligned"]].inputs["encoder"]
            readers = sum(s.inputs.get("trained") == trained for s in self.plan.stages.values())
            first = self.plan.start_of(before) if readers > 1 else None
            self.keep_states(aligned.encoder, before, stage.plugin(), first.key if first else "")
        start = self.plan.stages.get(trained)
        if hub is None or start is None or start.kind != "tuned" or "encoder" not in start.inputs:
            return aligned
        return aligned.seen_from(str(stage.params["pivot"]), str(hub))

    def _behind(
        self, stage: Stage, kinds: Container[str]
    ) -> Iterator[tuple[Stage, Mapping[str, Any]]]:
        """Yield the stages of some kinds that a result depends on, each with its notes, where the
        storage has them or had them before their weights were dropped.
        """
        for key in self.plan.closure(list(stage.inputs.values())):
            entry = self.plan.stages[key]
            if entry.kind in kinds and not entry.inline:
                manifest = self.storage.manifest_of(entry.kind, key)
                if manifest is not None:
                    yield entry, manifest.notes

    def _links_digests(self, stage: Stage) -> dict[str, Any]:
        """Return the digests of all links that a result depends on: a word aligner without a seed
        makes other links another time.
        """
        return {
            f"{entry.params['lang']}/{entry.params['part']}/{entry.key[:12]}": (
                notes.get("links_digest")
            )
            for entry, notes in self._behind(stage, {"pairs"})
        }

    def _training_caveats(self, stage: Stage, evaluated_on: Mapping[str, str]) -> dict[str, Any]:
        """Return the caveats of the trainings that a result depends on: `unknown_in_training`
        (maker -> language -> share), `loss_not_lowered`, `loss_still_falling`, `cut_batches`,
        `fitted_on` (maker -> language -> what a map over pairs rests on), `thin_support`, with what
        the evaluation itself found thin, and `partial`, of word pairs too.
        """
        thin, cut = dict(evaluated_on), set[str]()
        fitted, unknown, flat, falling, partial = (dict[str, Any]() for _ in range(5))
        for entry, notes in self._behind(stage, {"aligned", "tuned", "encoder", "pairs"}):
            partial |= {f"{entry.maker}: {k}": said for k, said in notes.get("partial", {}).items()}
            if entry.kind == "pairs":
                continue
            unknown |= {entry.maker: notes["unknown"]} if "unknown" in notes else {}
            flat |= notes.get("loss_not_lowered", {})
            falling |= notes.get("loss_still_falling", {})
            cut |= set(notes.get("cut_batches", ()))
            for reading in (Caveats.thin_support, Caveats.counted) if entry.trained else ():
                thin |= reading(entry.maker, notes)
            if entry.kind == "aligned":
                rests = {k: v for k, v in notes.items() if isinstance(v, Mapping) and "rank" in v}
                fitted |= {entry.maker: rests} if rests else {}
        found = {
            "unknown_in_training": unknown,
            "loss_not_lowered": flat,
            "loss_still_falling": falling,
            "cut_batches": sorted(cut),
            "fitted_on": fitted,
            "thin_support": thin,
            "partial": partial,
        }
        return {name: value for name, value in found.items() if value}

    def _left_out(self, stage: Stage) -> dict[str, Any]:
        """Return how many held-out lines of the text that an evaluation reads were left out, and
        how many lines of any part have escaped marks, each with the number of lines: `left_out` and
        `escaped` (language -> part -> the two numbers), where there are any.
        """
        found: dict[str, dict[str, Any]] = {}
        for entry, notes in self._behind(stage, {"bitext"}):
            parts = {part: n for part, n in notes["counts"].items() if isinstance(n, Mapping)}
            for part, counts in parts.items():
                lines, escaped = counts.get("lines", counts["kept"]), counts.get("escaped", 0)
                some = {"left_out": lines - counts["kept"]}
                some["escaped"] = escaped if escaped > ESCAPES * lines else 0
                for kind in filter(some.get, some):
                    of_lang = found.setdefault(kind, {}).setdefault(str(entry.params["lang"]), {})
                    of_lang[part] = [some[kind], lines]
        return found


def _planned(stage: Stage) -> dict[Path, str]:
    """Return the local files that a stage reads, each with its SHA-256 in the plan. Raises
    `DataError` for one that has come since into a folder which is opened as a whole, and for one
    at a relative place.
    """
    places = stage.places
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
    elif (stage.trained or stage.kind == "evaluation") and stage.catalogue is not None:
        plugin, pivot = stage.plugin(), stage.params["pivot"]
        for lang in stage.languages:
            yield from ((f"{n}/{lang}", s) for n, s in plugin.sources(lang, pivot).items())


def _is_from_outside(plugin: object) -> bool:
    return inspect.getsourcefile(type(plugin)) in Catalog.outside()


def _keeps(held: Held | None) -> bool:
    """Return whether checkpoints are this process's to remove. Who cannot ask leaves them."""
    with suppress(StorageError):
        return held is None or held.is_held()
    return False


def _unseen(stage: Stage, outcome: Outcome) -> dict[str, list[str]]:
    """Return the names in scores that are of languages which no method has aligned: of one, or of
    a pair that it is in.
    """
    names = labels_with(stage.unseen, (*stage.languages, str(stage.params["pivot"])))
    found = [
        lang for lang in dict.fromkeys(score.lang for score in outcome.scores) if lang in names
    ]
    return {"unseen": found} if found else {}


def _refuse_impossible(stage: Stage, outcome: Outcome) -> None:
    """Raise `PluginFault` for a score that its metric cannot have, by what the task declares, and
    of a task from outside for what no reader of results would find.
    """
    task = type(stage.plugin())
    file, faults = inspect.getsourcefile(task) or task.__module__, list[str]()
    for score in outcome.scores:
        declared = Measured.find(task.metrics, score.metric)
        if declared and (fault := declared.fault(score.value, mean=score.lang in MEANS)):
            remedy = "Correct the score, or its unit or range in the task's `metrics`"
            faults.append(f"{score} {fault}. {remedy}")
    if file in Catalog.outside():
        labels = labels_with((*stage.languages, str(stage.params["pivot"])), ())
        faults += outcome.faults({*labels, *MEANS}, stage.plugin().main_metric)
    if faults:
        told = f"task {Catalog.name_of(stage.maker)}: {faults[0]}"
        raise PluginFault(file, told, line=inspect.getsourcelines(task)[1])


def _joined(of_trainings: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caveats of trainings and those of the evaluation, which may train further."""
    found = {**of_trainings, **own}
    for name in of_trainings.keys() & own.keys():
        if isinstance(own[name], Mapping):
            found[name] = {**of_trainings[name], **own[name]}
    return found
