"""The gradients of one step, in micro-batches that fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

from raxalign.config.run import Precision
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.train.chance import DROPOUT, mix, seed_generators
from raxalign.train.checkpoint import TrainProgress
from raxalign.train.devices import arithmetic
from raxalign.train.objective import Objective, Prepared, Step
from raxalign.train.recompute import recomputed
from raxalign.train.runtime import Runtime


class Ahead:
    """Prepares the steps of one training, each one step ahead where it was asked for.

    The result does not depend on it: what an objective prepares is a function of the step (see
    `HostSided`). An error of the thread is raised where its step is taken, as if it had been
    prepared there.
    """

    def __init__(self, objective: Objective, *, works: bool) -> None:
        """Make one that has prepared nothing; without `works` it never prepares anything."""
        self._objective, self._works = objective, works
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="raxalign-ahead")
        self._next: tuple[tuple[int, int], Future[Prepared | None]] | None = None

    def ask(self, step: Step | None) -> None:
        """Have a step prepared by the thread (None: there is none)."""
        if self._works and step is not None:
            self._drop()
            made = self._thread.submit(self._objective.prepare, step)
            self._next = ((step.number, step.micro), made)

    def take(self, step: Step) -> Step:
        """Return a step with what was prepared for it; raises what preparing it raised."""
        if not self._works:
            return step
        if self._next is not None and self._next[0] == (step.number, step.micro):
            made, self._next = self._next[1], None
            return replace(step, prepared=made.result())
        self._drop()  # the first step, or micro-batches that became smaller
        return replace(step, prepared=self._objective.prepare(step))

    def close(self) -> None:
        """End the thread; what it is at is waited for, and its result and error are dropped."""
        self._drop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _drop(self) -> None:
        if self._next is not None:
            self._next[1].cancel()
            self._next = None


class MicroBatches:
    """Computes the gradients of the steps of one training. Where memory runs out, it keeps fewer
    activations, and then halves the micro-batches; later steps begin with what was found.
    """

    def __init__(self, objective: Objective, runtime: Runtime, name: str) -> None:
        """Make one. `runtime` says how memory may be saved, and `name` is for messages."""
        self._objective, self._runtime, self._name = objective, runtime, name
        self._blocks = () if runtime.checkpointing == "never" else objective.blocks()
        self._ahead = Ahead(objective, works=runtime.prepares_ahead)

    def recomputes(self, progress: TrainProgress) -> bool:
        """Return whether the backward pass computes activations again."""
        asked = self._runtime.checkpointing == "always"
        return (asked or progress.recomputes) and bool(self._blocks)

    def compute(
        self, number: int, step_of: Callable[[int], Step | None], progress: TrainProgress
    ) -> tuple[Step, torch.Tensor]:
        """Return a step, and this worker's share of its loss (a scalar), whose gradients are then
        in the parameters. `step_of` returns the step of a number in the micro-batches of
        `progress`, which remembers what fits into memory; None after the last step. Raises
        `RaxalignError` where a single row does not fit.
        """
        while True:
            step = step_of(number)
            assert step is not None, "the training is not over"
            try:
                return step, self._accumulate(step, step_of, progress)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                self._save_memory(step, progress, error)
            self._objective.module.zero_grad(set_to_none=True)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def close(self) -> None:
        """End the thread that prepares steps."""
        self._ahead.close()

    def _save_memory(self, step: Step, progress: TrainProgress, error: Exception) -> None:
        """Choose what needs less memory from now on. Raises `RaxalignError` where nothing does."""
        if self._blocks and not self.recomputes(progress):
            progress.recomputes = True
            return
        if step.micro == 1:
            raise RaxalignError(
                f"{self._name}: memory ran out at step {step.number + 1} with a single row in the"
                f" micro-batch ({error}). Use shorter sentences, fewer trials at once, or a larger"
                " device"
            ) from error
        progress.micro = -(-max(map(len, step.micro_batches())) // 2)

    def _accumulate(
        self, step: Step, step_of: Callable[[int], Step | None], progress: TrainProgress
    ) -> torch.Tensor:
        """Return the loss of this worker's micro-batches, with their gradients in place."""
        self._seed(step.first, step.rank)
        # autocast is the encoder's own; TF32 must hold in the backward pass too
        precision: Precision = "tf32" if self._runtime.precision == "tf32" else "fp32"
        kept = recomputed(self._blocks) if self.recomputes(progress) else nullcontext()
        with arithmetic(precision, self._runtime.device), kept:
            step = self._ahead.take(step)
            self._objective.begin(step)
            total = torch.zeros((), device=self._runtime.device)
            for i, positions in enumerate(step.micro_batches()):
                part, own = step.part_of(positions)
                if i and own[0] == (share := part.share_of(own)):
                    self._seed(part, share)
                loss = self._objective.loss(step, positions)
                if i == 0:
                    # now, because a backward pass leaves the interpreter to other threads
                    self._ahead.ask(step_of(step.number + 1))
                if loss.requires_grad:  # a micro-batch may have nothing in it that is counted
                    loss.backward()  # type: ignore[no-untyped-call]
                total = total + loss.detach()
        return total

    def _seed(self, step: Step, share: int) -> None:
        seed_generators(mix(self._runtime.seed, step.number, share, DROPOUT))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: CUDA has an exception for it, and the CPU's allocator raises a
    plain RuntimeError.
    """
    full = "DefaultCPUAllocator: can't allocate memory"
    return isinstance(error, torch.OutOfMemoryError) or full in str(error)
