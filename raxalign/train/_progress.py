"""Where a training is, and how it gets back there after the process died."""

from __future__ import annotations

import copy
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign.train.checkpoint import (
    Checkpoint,
    Tensors,
    copied,
    module_state,
    read_checkpoint,
    restore_module,
    restore_training,
    training_state,
    write_checkpoint,
)
from raxalign.train.group import share_state, share_value
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    import torch


@dataclass
class TrainProgress:
    """Where a training is; all but the tensors of `best` goes into a checkpoint's record.

    `micro` and `recomputes` are what was found to fit into memory: the rows of a micro-batch, and
    whether the backward pass computes activations again.
    """

    step: int = 0
    micro: int = 1
    recomputes: bool = False
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    selected: int | None = None
    best: Tensors | None = None

    def record(self, fingerprint: str) -> dict[str, Any]:
        """Return the plain data of a checkpoint, which do not change with the training."""
        plain = {name: copy.copy(value) for name, value in vars(self).items() if name != "best"}
        return {"fingerprint": fingerprint, **plain}

    @classmethod
    def of(cls, record: Any, best: Tensors | None) -> TrainProgress:
        """Return the progress that `record` wrote down. Earlier versions had no `recomputes`."""
        given = {name: record[name] for name in vars(cls()) if name in record}
        scores = [(int(step), float(score)) for step, score in record["scores"]]
        return cls(**{**given, "scores": scores, "best": best})


class Saver:
    """Saves and restores one training. A thread writes the checkpoints, one at a time, from copies
    of the tensors, while the training goes on.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        runtime: Runtime,
        folder: Path | None,
        fingerprint: str,
    ) -> None:
        """Make those of a training that has not begun.

        Args:
            module: What is trained.
            optimizer: Its optimiser.
            runtime: When checkpoints are due; only the first worker writes them.
            folder: Where they are (None: nothing is saved).
            fingerprint: Tells the training from others in the same folder.
        """
        self.module, self.optimizer, self.runtime = module, optimizer, runtime
        self.folder, self.fingerprint = folder, fingerprint
        self._thread = ThreadPoolExecutor(1, "raxalign-checkpoint")
        self._written: Future[None] | None = None
        self._saved_at = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._written is not None and not self._written.done()

    def due(self, step: int) -> bool:
        """Return whether this worker saves after a step. By the clock nothing is due while the
        checkpoint before is being written, so that no step waits for it.
        """
        if self.folder is None or self.runtime.rank != 0:
            return False
        if self.runtime.checkpoint_every is not None:
            return step % self.runtime.checkpoint_every == 0
        late = time.monotonic() - self._saved_at >= self.runtime.checkpoint_seconds
        return late and not self.busy

    def save(self, progress: TrainProgress, *, now: bool = False) -> None:
        """Begin a checkpoint, on the first worker. One of a given step, and one that must be there
        `now`, is waited for. Raises what writing the one before raised.
        """
        if self.folder is None or self.runtime.rank != 0:
            return
        self.wait()
        tensors = copied(training_state(self.module, self.optimizer))
        checkpoint = Checkpoint(progress.record(self.fingerprint), tensors, progress.best)
        self._written = self._thread.submit(self._write, self.folder, progress.step, checkpoint)
        self._saved_at = time.monotonic()
        if now or self.runtime.checkpoint_every is not None:
            self.wait()

    def _write(self, folder: Path, step: int, checkpoint: Checkpoint) -> None:
        write_checkpoint(folder, step, checkpoint)
        self.runtime.saved()

    def wait(self) -> None:
        """Wait until the last checkpoint is written. Raises what writing it raised, once."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def close(self) -> None:
        """Likewise, and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def resume(self) -> TrainProgress | None:
        """Go back to the last checkpoint, which the first worker reads; None where there is none,
        and then all workers start from the first one's weights.
        """
        found = None
        if self.folder is not None and self.runtime.rank == 0:
            found = read_checkpoint(self.folder, self.fingerprint)
        best = found.best if found else None
        shared: Any = (found.record, found.tensors) if found else None
        if self.runtime.world_size > 1:
            shared = share_value(shared)
            if shared is None:
                share_state(module_state(self.module).values())
        if shared is None:
            return None
        record, tensors = shared
        restore_training(self.module, self.optimizer, tensors)
        return TrainProgress.of(record, best)

    def finish(self, progress: TrainProgress, *, selected: bool) -> None:
        """Put the best weights into the module, on every worker, where some were `selected`."""
        if progress.best is not None:
            restore_module(self.module, progress.best)
        if selected and self.runtime.world_size > 1:
            share_state(module_state(self.module).values())
            progress.scores, progress.selected = share_value((progress.scores, progress.selected))  # type: ignore[misc]
        progress.best = None
        self.optimizer.zero_grad(set_to_none=True)
        self.module.eval()
