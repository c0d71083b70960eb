"""Where a training is, and how it gets back there after the process died."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from raxalign.train._checkpoint import (
    Checkpoint,
    Tensors,
    module_state,
    optimizer_state,
    read_checkpoint,
    restore_module,
    restore_optimizer,
    with_prefix,
    without_prefix,
    write_checkpoint,
)
from raxalign.train._gradients import share_state
from raxalign.train.group import share_value
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")


@dataclass
class Progress:
    """Where a training is; all but the tensors of `best` goes into a checkpoint's record."""

    step: int = 0
    micro: int = 1
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    selected: int | None = None
    best: Tensors | None = None

    def record(self, fingerprint: str) -> dict[str, Any]:
        """Return the plain data of a checkpoint."""
        names = ("step", "micro", "losses", "scores", "selected")
        return {"fingerprint": fingerprint, **{name: getattr(self, name) for name in names}}

    @classmethod
    def of(cls, record: Any, best: Tensors | None) -> Progress:
        """Return the progress that `record` wrote down."""
        scores = [(int(step), float(score)) for step, score in record["scores"]]
        return cls(
            record["step"],
            record["micro"],
            list(record["losses"]),
            scores,
            record["selected"],
            best,
        )


@dataclass(frozen=True)
class Keeper:
    """Saves and restores one training; `folder` None saves nothing. `fingerprint` tells it from
    other trainings in the same folder.
    """

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    runtime: Runtime
    folder: Path | None
    fingerprint: str

    def save(self, progress: Progress, *, now: bool = False) -> None:
        """Write a checkpoint, on the first worker, every `checkpoint_every` steps, or `now`."""
        due = now or progress.step % self.runtime.checkpoint_every == 0
        if self.folder is None or self.runtime.rank != 0 or not due:
            return
        tensors = {
            **with_prefix("module", module_state(self.module)),
            **with_prefix("optimizer", optimizer_state(self.optimizer)),
        }
        write_checkpoint(
            self.folder,
            progress.step,
            Checkpoint(progress.record(self.fingerprint), tensors, progress.best),
        )
        self.runtime.saved()

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
