"""The training loop: plain PyTorch, the same result with any number of workers, and after any
number of deaths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from raxalign.caveats import listener
from raxalign.errors import RaxalignError, TrainingDiverged
from raxalign.losses import check_step, not_lowered
from raxalign.store.key import Json, digest
from raxalign.train._checkpoint import (
    Checkpoint,
    Tensors,
    copy_state,
    module_state,
    optimizer_state,
    read_checkpoint,
    restore_module,
    restore_optimizer,
    with_prefix,
    without_prefix,
    write_checkpoint,
)
from raxalign.train._gradients import share_state, share_value, sum_over_workers
from raxalign.train._schedule import Order, TrainSettings, make_order, rate_at
from raxalign.train.objective import Objective, Step, mix
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    import torch
else:
    torch = lazy.load("torch")

__all__ = ["Fitted", "TrainSettings", "TrainingDiverged", "fit"]

_CURVE_POINTS = 100


@dataclass(frozen=True)
class Fitted:
    """What a training did: the loss of each step, the score of each selection (step, score), the
    step whose weights were kept (None: the last ones), and the rows that a micro-batch had in the
    end.
    """

    losses: list[float]
    scores: list[tuple[int, float]]
    selected: int | None
    micro: int


@dataclass
class _Progress:
    """Where a training is; what of it is not a tensor goes into a checkpoint's record."""

    step: int = 0
    micro: int = 1
    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    selected: int | None = None
    best: Tensors | None = None

    def record(self, fingerprint: str) -> dict[str, Any]:
        plain = {
            "step": self.step,
            "micro": self.micro,
            "losses": self.losses,
            "scores": self.scores,
            "selected": self.selected,
        }
        return {"fingerprint": fingerprint, **plain}


def fit(
    objective: Objective,
    n_rows: int,
    settings: TrainSettings,
    runtime: Runtime,
    *,
    name: str = "train",
    select: Callable[[int], float] | None = None,
    select_every: int | None = None,
) -> Fitted:
    """Train `objective.module` in place on the rows 0 to `n_rows` - 1; with `select`, its best
    weights are in it afterwards.

    `name` names the curves (``<name>/loss``) and the checkpoints: two trainings of one runtime have
    different ones. `select(epoch)` scores the module as it is (higher is better, the first of
    equals stays) after each epoch (counted from 1), or every `select_every` steps and at the end;
    it runs on the first worker alone. The module comes back in eval mode. Raises `TrainingDiverged`
    with the step, the rate and the loss when the loss, the gradient or a weight is not finite or
    the loss explodes (`losses.explodes`), and `RaxalignError` when a single row does not fit into
    memory.
    """
    devices = [torch.device(runtime.device)] if torch.device(runtime.device).type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        return _Loop(objective, n_rows, settings, runtime, name, select, select_every).run()


class _Loop:
    """One training."""

    def __init__(
        self,
        objective: Objective,
        n_rows: int,
        settings: TrainSettings,
        runtime: Runtime,
        name: str,
        select: Callable[[int], float] | None,
        select_every: int | None,
    ) -> None:
        self.objective, self.settings, self.runtime, self.name, self.select = (
            objective,
            settings,
            runtime,
            name,
            select,
        )
        self.order: Order = make_order(n_rows, settings, runtime.seed)
        self.total = self.order.total(settings)
        self.select_every = select_every
        self.module = objective.module
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = _adam(self.parameters, settings)
        self.folder = runtime.checkpoints / name if runtime.checkpoints else None
        shapes: Json = [
            [key, list(tensor.shape)] for key, tensor in module_state(self.module).items()
        ]
        self.fingerprint = digest([repr(settings), n_rows, runtime.seed, name, shapes])
        self.progress = _Progress(micro=max(1, -(-settings.batch_size // runtime.world_size)))
        self.reported = 0

    def run(self) -> Fitted:
        self.resume()
        self.reported = self.progress.step
        while self.progress.step < self.total:
            self.advance()
            self.maybe_report()
            self.maybe_select()
            self.maybe_save()
        self.finish()
        progress = self.progress
        if not all(
            bool(torch.isfinite(parameter.detach().sum())) for parameter in self.parameters
        ):  # the last step, after a loss that was good
            self.check(
                rate_at(self.settings, self.total - 1, self.total), "the weights are not finite"
            )
        found, losses = listener(), not_lowered(progress.losses, self.objective.comparable_from)
        if found is not None and losses is not None:
            found.not_lowered[self.name] = losses
        return Fitted(progress.losses, progress.scores, progress.selected, progress.micro)

    def advance(self) -> None:
        """One optimiser step."""
        number = self.progress.step
        rate = rate_at(self.settings, number, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.module.train(self.settings.dropout)
        step, total = self.gradients()
        if self.runtime.world_size > 1:
            total = sum_over_workers(self.parameters, total)
        norm = torch.zeros_like(total)
        if self.settings.clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip).to(total)
        loss, size = torch.stack([total, norm]).tolist()  # the device is asked once
        self.progress.losses.append(loss)
        self.check(rate, "" if math.isfinite(size) else f"gradient norm {size}")
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            self.objective.end(step)
        self.progress.step += 1

    def check(self, rate: float, fault: str) -> None:
        """Raise `TrainingDiverged` where the losses show it, or something else is not finite
        (`fault`).
        """
        start, unit = self.objective.comparable_from, self.objective.loss_unit
        check_step(
            self.name,
            self.progress.losses,
            self.total,
            rate,
            self.settings.learning_rate,
            start=start,
            unit=unit,
            fault=fault,
        )

    def gradients(self) -> tuple[Step, torch.Tensor]:
        """This worker's share of the loss, its gradients in the parameters; with smaller
        micro-batches where memory runs out.
        """
        epoch, rows = self.order.rows(self.progress.step)
        while True:
            micro = self.progress.micro
            step = Step(
                self.progress.step,
                epoch,
                rows,
                self.runtime.seed,
                self.runtime.rank,
                self.runtime.world_size,
                micro,
            )
            try:
                return step, self.accumulate(step)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
                if micro == 1:
                    raise RaxalignError(
                        f"{self.name}: memory ran out at step {step.number + 1} with a single row"
                        f" in the micro-batch ({error}). Use shorter sentences, fewer trials at"
                        " once, or a larger device"
                    ) from error
            self.optimizer.zero_grad(set_to_none=True)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            self.progress.micro = -(-min(micro, len(step.share())) // 2) or 1

    def accumulate(self, step: Step) -> torch.Tensor:
        """The gradients of all micro-batches of this worker, summed."""
        torch.manual_seed(mix(self.runtime.seed, step.number, step.rank, 2))
        self.objective.begin(step)
        share = step.share()
        total = torch.zeros((), device=self.runtime.device)
        for start in range(0, len(share), step.micro):
            loss = self.objective.loss(step, share[start : start + step.micro])
            if loss.requires_grad:  # a micro-batch may have nothing in it that is counted
                loss.backward()  # type: ignore[no-untyped-call]
            total = total + loss.detach()
        return total

    def maybe_report(self) -> None:
        """A point of the curves: the mean loss since the last one."""
        step = self.progress.step
        every = -(-self.total // _CURVE_POINTS)
        if self.runtime.rank != 0 or (step % every and step != self.total):
            return
        losses = self.progress.losses[max((step - 1) // every * every, 0) : step]
        curves = {
            "loss": sum(losses) / len(losses),
            "learning_rate": rate_at(self.settings, step - 1, self.total),
        }
        self.runtime.report({f"{self.name}/{key}": value for key, value in curves.items()}, step)

    def maybe_select(self) -> None:
        """Score the module, and keep it if it is the best so far."""
        step = self.progress.step
        every = self.select_every or self.order.steps_per_epoch
        if self.select is None or self.runtime.rank != 0 or (step % every and step != self.total):
            return
        self.module.eval()
        score = float(self.select(-(-step // self.order.steps_per_epoch)))
        self.progress.scores.append((step, score))
        self.runtime.report({f"{self.name}/selection": score}, step)
        if (
            self.progress.selected is None
            or score > dict(self.progress.scores)[self.progress.selected]
        ):
            self.progress.selected, self.progress.best = step, copy_state(self.module)

    def maybe_save(self) -> None:
        """A checkpoint, when it is time; after the last step there is nothing left to come back
        to.
        """
        step = self.progress.step
        if (
            self.folder is None
            or self.runtime.rank != 0
            or step % self.runtime.checkpoint_every
            or step == self.total
        ):
            return
        tensors = {
            **with_prefix("module", module_state(self.module)),
            **with_prefix("optimizer", optimizer_state(self.optimizer)),
        }
        write_checkpoint(
            self.folder,
            step,
            Checkpoint(self.progress.record(self.fingerprint), tensors, self.progress.best),
        )

    def resume(self) -> None:
        """Go back to the last checkpoint, read by the first worker; without one, all workers begin
        with the first one's weights.
        """
        first, several = self.runtime.rank == 0, self.runtime.world_size > 1
        found = (
            read_checkpoint(self.folder, self.fingerprint)
            if self.folder is not None and first
            else None
        )
        record: Any = found.record if found else None
        if several:
            record = share_value(record)
        if record is not None:
            tensors = found.tensors if found else {}
            if several:
                tensors = self.share_tensors(tensors)
            restore_module(self.module, without_prefix("module", tensors))
            restore_optimizer(self.optimizer, without_prefix("optimizer", tensors))
            scores = [(int(step), float(score)) for step, score in record["scores"]]
            best = found.best if found else None
            self.progress = _Progress(
                record["step"],
                record["micro"],
                list(record["losses"]),
                scores,
                record["selected"],
                best,
            )
        elif several:
            share_state(module_state(self.module).values())

    def share_tensors(self, tensors: Tensors) -> Tensors:
        """The first worker's tensors on every worker, on its device."""
        described: Any = share_value(
            [
                (key, tuple(t.shape), str(t.dtype).removeprefix("torch."))
                for key, t in tensors.items()
            ]
        )
        device = self.runtime.device
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

    def finish(self) -> None:
        """Put the best weights into the module, on every worker."""
        if self.progress.best is not None:
            restore_module(self.module, self.progress.best)
        if self.select is not None and self.runtime.world_size > 1:
            share_state(module_state(self.module).values())
            self.progress.scores, self.progress.selected = share_value(
                (self.progress.scores, self.progress.selected)
            )  # type: ignore[misc]
        self.progress.best = None
        self.optimizer.zero_grad(set_to_none=True)
        self.module.eval()


def _adam(parameters: list[torch.nn.Parameter], settings: TrainSettings) -> torch.optim.AdamW:
    """Adam with decoupled weight decay on matrices; without decay it is plain Adam."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, fused=True
    )


def _is_out_of_memory(error: BaseException) -> bool:
    """CUDA has an exception for it; the CPU's allocator raises a plain RuntimeError."""
    return isinstance(
        error, torch.OutOfMemoryError
    ) or "DefaultCPUAllocator: can't allocate memory" in str(error)
