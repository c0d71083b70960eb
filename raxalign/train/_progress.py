"""Where a training is, and how it gets back there after the process died."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raxalign import lazy
from raxalign.train._gradients import share_state
from raxalign.train._writer import Writer
from raxalign.train.checkpoint import (
    Tensors,
    module_state,
    optimizer_state,
    read_checkpoint,
    restore_module,
    restore_optimizer,
    with_prefix,
    without_prefix,
)
from raxalign.train.group import share_value
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


@dataclass
class Progress:
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
        names = ("step", "micro", "recomputes", "losses", "scores", "selected")
        now = {name: copy.copy(getattr(self, name)) for name in names}
        return {"fingerprint": fingerprint, **now}

    @classmethod
    def of(cls, record: Any, best: Tensors | None) -> Progress:
        """Return the progress that `record` wrote down."""
        scores = [(int(step), float(score)) for step, score in record["scores"]]
        return cls(
            record["step"],
            record["micro"],
            record.get("recomputes", False),  # earlier versions had no such state
            list(record["losses"]),
            scores,
            record["selected"],
            best,
        )


class Keeper:
    """Saves and restores one training."""

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        runtime: Runtime,
        folder: Path | None,
        fingerprint: str,
    ) -> None:
        """Make the keeper of a training that has not begun.

        Args:
            module: What is trained.
            optimizer: Its optimiser.
            runtime: When checkpoints are due; only the first worker writes them.
            folder: Where they are (None: nothing is saved).
            fingerprint: Tells the training from others in the same folder.
        """
        self.module, self.optimizer, self.runtime = module, optimizer, runtime
        self.folder, self.fingerprint = folder, fingerprint
        writes = folder is not None and runtime.rank == 0
        self.writer = Writer(folder, runtime.saved) if writes and folder is not None else None
        self.saved_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Return whether this worker saves after a step. By the clock nothing is due while the
        checkpoint before is being written, so that no step waits for it.
        """
        if self.writer is None:
            return False
        if self.runtime.checkpoint_every is not None:
            return step % self.runtime.checkpoint_every == 0
        late = time.monotonic() - self.saved_at >= self.runtime.checkpoint_seconds
        return late and not self.writer.busy

    def save(self, progress: Progress, *, now: bool = False) -> None:
        """Begin a checkpoint, on the first worker. One of a given step, and one that must be there
        `now`, is waited for.
        """
        if self.writer is None:
            return
        tensors = {
            **with_prefix("module", module_state(self.module)),
            **with_prefix("optimizer", optimizer_state(self.optimizer)),
        }
        record = progress.record(self.fingerprint)
        self.writer.begin(progress.step, record, tensors, progress.best)
        self.saved_at = time.monotonic()
        if now or self.runtime.checkpoint_every is not None:
            self.writer.wait()

    def close(self) -> None:
        """Wait until the last checkpoint is written. Raises what writing it raised."""
        if self.writer is not None:
            self.writer.wait()

    def resume(self) -> Progress | None:
        """Go back to the last checkpoint, which the first worker reads; None where there is none,
        and then all workers start from the first one's weights.
        """
        several, found = self.runtime.world_size > 1, None
        if self.folder is not None and self.runtime.rank == 0:
            found = read_checkpoint(self.folder, self.fingerprint)
        record: Any = found.record if found else None
        if several:
            record = share_value(record)
        if record is None:
            if several:
                share_state(module_state(self.module).values())
            return None
        tensors = found.tensors if found else {}
        if several:
            tensors = _on_every_worker(tensors, self.runtime.device)
        restore_module(self.module, without_prefix("module", tensors))
        restore_optimizer(self.optimizer, without_prefix("optimizer", tensors))
        return Progress.of(record, found.best if found else None)

    def finish(self, progress: Progress, *, selected: bool) -> None:
        """Put the best weights into the module, on every worker, where some were `selected`."""
        if progress.best is not None:
            restore_module(self.module, progress.best)
        if selected and self.runtime.world_size > 1:
            share_state(module_state(self.module).values())
            progress.scores, progress.selected = share_value((progress.scores, progress.selected))  # type: ignore[misc]
        progress.best = None
        self.optimizer.zero_grad(set_to_none=True)
        self.module.eval()


def _on_every_worker(tensors: Tensors, device: str) -> Tensors:
    """The first worker's tensors on every worker, on its device."""
    described: Any = share_value(
        [(key, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for key, t in tensors.items()]
    )
    whole = {
        key: (
            tensors[key].to(device)
            if tensors
            else torch.empty(shape, dtype=getattr(torch, kind), device=device)
        )
        for key, shape, kind in described
    }
    share_state(whole.values())
    return whole
