"""What the maker of a stage works with: the artifacts of other stages, encoders, and the runtime of
this process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.config.run import Precision
from raxalign.encoders.base import EncoderInputs
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.printing import to_stderr
from raxalign.stages.checkpoints import Checkpoints
from raxalign.stages.watching import StudyWatch, Watched
from raxalign.store.lease import Holder, Lease, patient
from raxalign.store.storage import Storage
from raxalign.train.precision import check_compiler, check_precision
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.store.artifacts import ArtifactStore
    from raxalign.store.ledger import Ledger


@dataclass
class Bench(ABC):
    """A plan, a storage, and the place where this process runs.

    Attributes:
        plan: The plan whose stages are made.
        storage: Where artifacts and results are.
        runtime: Device, threads and workers of this process.
        announce: Called with a stage and seconds when a stage was made, not when it was there.
        watched: The training that may end early (None: none does).
        patience: Returns how long the silent holder of a stage's lock is waited for (see `lease`).
        tell: Receives a line for the user on what is waited for.
    """

    plan: Plan
    storage: Storage
    runtime: Runtime
    announce: Callable[[Stage, float], None] = lambda stage, seconds: None  # noqa: ARG005
    watched: Watched | None = None
    patience: Callable[[Holder], float] = patient
    tell: Callable[[str], None] = to_stderr
    _aligned: dict[str, AlignedEncoder] = field(default_factory=dict)
    _held: dict[str, Lease] = field(default_factory=dict)
    _checkpoints: dict[str, Checkpoints] = field(default_factory=dict)

    @abstractmethod
    def ensure(self, key: str) -> Path:
        """Return the folder of a stage's artifact. It is made first, with its inputs, where it is
        missing or damaged.
        """

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

    def checkpoints(self, key: str) -> Checkpoints:
        """Return the checkpoints of a stage's training."""
        if key not in self._checkpoints:
            self._checkpoints[key] = Checkpoints(self.storage, key)
        return self._checkpoints[key]

    def runtime_for(self, stage: Stage) -> Runtime:
        """Return the runtime with the stage's seed and its checkpoints, and its watch where it is
        watched.
        """
        seed, kept = int(str(stage.params.get("seed", 0))), self.checkpoints(stage.key)
        held = self._held.get(stage.key)

        def saved() -> None:
            self.runtime.saved()
            kept.saved()

        check_precision(stage.precision, self.runtime.device)
        if stage.compiled:
            check_compiler(self.runtime.device)
        runtime = replace(
            self.runtime,
            seed=seed,
            checkpoints=kept.folder,
            saved=saved,
            owned=held.check if held is not None else self.runtime.owned,
            precision=stage.precision,
            compiled=stage.compiled,
            shares=stage.shares,
        )
        if self.watched is None or self.watched.training != stage.key:
            return runtime
        return replace(runtime, watch=StudyWatch(self.watched, self.storage))

    def encoder(
        self, key: str, precision: Precision = "fp32", *, compiled: bool = False
    ) -> Encoder:
        """Load the encoder of a stage, fresh and on the device of this process, to compute in a
        precision, and compiled or not. The encoder of a task's training has the weights that the
        training left.
        """
        stage = self.plan.stages[key]
        folder = None if stage.inline else self.ensure(key)
        if stage.kind == "tuned":
            start = self.encoder(stage.inputs["encoder"], precision, compiled=compiled)
            trained: Encoder = stage.plugin().trained_encoder(start, folder)
            return trained
        inputs = EncoderInputs(locations=stage.locations, folder=folder, revisions=stage.digests)
        encoder: Encoder = stage.plugin().load(inputs, self.runtime.device)
        encoder.precision, encoder.compiled = precision, compiled
        return encoder

    def aligned(self, key: str) -> AlignedEncoder:
        """Load the aligned encoder of a stage. The last one stays in memory for the trial's next
        task.
        """
        from raxalign.encoders.models.aligned import AlignedEncoder

        if key not in self._aligned:
            folder = self.ensure(key)
            stage = self.plan.stages[key]
            start = stage.inputs["encoder"]
            self._aligned.clear()
            found = AlignedEncoder.load(folder, lambda: self.encoder(start), self.runtime.device)
            found.encoder.precision = stage.precision
            found.encoder.compiled = stage.compiled
            self._aligned[key] = found
        return self._aligned[key]
