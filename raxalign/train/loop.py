"""The training loop: the same result with any number of workers, and of deaths."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from raxalign.caveats import Caveats
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.losses import Course
from raxalign.options.run import Precision
from raxalign.store.key import Json, digest
from raxalign.train.checkpoint import Saver, TrainProgress
from raxalign.train.devices import Recordings, arithmetic, recomputed
from raxalign.train.group import gather_values, share_value, sharing
from raxalign.train.objective import Objective, Prepared, Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Moment, Pruned, Runtime, TokenRate, Watch

EVERY = 16
"""The most steps whose losses are left on the device: to read them the host waits for it."""
SECONDS = 1.0
"""Where a step takes longer than this, its loss is read after it."""

_CURVE_POINTS = 100


class LossReader:
    """Reads the losses of one training. Whatever is kept of a training, as a checkpoint or as the
    best weights, is kept after the losses up to there were read.
    """

    def __init__(
        self, objective: Objective, settings: TrainSettings, total: int, runtime: Runtime, name: str
    ) -> None:
        """Make one that has read nothing of a training of `total` steps. `runtime` receives the
        curves, on the first worker.
        """
        self._objective, self._settings, self._total = objective, settings, total
        self._runtime, self._name = runtime, name
        self._unread: list[torch.Tensor] = []
        self.tokens, self._read_at = TokenRate(objective.module), time.monotonic()

    def add(self, measured: torch.Tensor) -> None:
        """Take a step's loss and the norm of its gradient, (2,), which may not be computed yet."""
        self._unread.append(measured)

    def due(self) -> bool:
        """Return whether the losses are to be read. In a group the clock decides nothing, so that
        all workers end at one step where the training diverged.
        """
        alone = self._runtime.world_size == 1
        return len(self._unread) >= EVERY or (alone and time.monotonic() - self._read_at >= SECONDS)

    def read(self, losses: list[float]) -> None:
        """Add the losses that were not read to those of the steps before, check and report them:
        the one place of a training where the host waits for the device.

        Raises `TrainingDiverged` for the first step that shows it.
        """
        found = torch.stack(self._unread).tolist() if self._unread else []
        self._unread, self._read_at = [], time.monotonic()
        for loss, norm in found:
            losses.append(loss)
            self.check(losses, "" if math.isfinite(norm) else f"gradient norm {norm}")
            self._report(losses)

    @property
    def course(self) -> Course:
        """The training as its losses are judged."""
        goal, rate = self._objective, self._settings.learning_rate
        return Course(self._name, self._total, rate, goal.comparable_from, goal.loss_unit)

    def check(self, losses: list[float], fault: str) -> None:
        """Raise `TrainingDiverged` where the losses, or something else (`fault`), show it."""
        self.course.check(losses, self._settings.rate_at(len(losses) - 1, self._total), fault)

    def _report(self, losses: list[float]) -> None:
        """Report a point of the curves: the mean loss since the point before."""
        step, every = len(losses), -(-self._total // _CURVE_POINTS)
        if self._runtime.rank != 0 or (step % every and step != self._total):
            return
        recent = losses[max((step - 1) // every * every, 0) :]
        curves = {
            "loss": sum(recent) / len(recent),
            "learning_rate": self._settings.rate_at(step - 1, self._total),
        }
        rate = self.tokens.take()
        curves |= {TokenRate.NAME: rate} if rate is not None else {}
        named = {f"{self._name}/{key}": value for key, value in curves.items()}
        self._runtime.report(named, step)


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
        self._now: Step | None = None

    def ask(self, step: Step | None) -> None:
        """Have a step prepared by the thread (None: there is none)."""
        if self._works and step is not None:
            self._drop()
            made = self._thread.submit(self._objective.prepare, step)
            self._next = ((step.number, step.micro), made)

    def take(self, step: Step) -> Step:
        """Return a step with what was prepared for it, the same if it is taken again; raises what
        preparing it raised.
        """
        if not self._works:
            return step
        which = (step.number, step.micro)
        if self._next is not None and self._next[0] == which:
            made, self._next = self._next[1], None
            self._now = replace(step, prepared=made.result())
        elif self._now is None or (self._now.number, self._now.micro) != which:
            self._drop()  # the first step, or micro-batches that became smaller
            self._now = replace(step, prepared=self._objective.prepare(step))
        return self._now

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

    def __init__(
        self,
        objective: Objective,
        runtime: Runtime,
        name: str,
        free: Callable[[], bool],
        *,
        replays: bool,
    ) -> None:
        """Make one. `runtime` says how memory may be saved, and `name` is for messages. `free`
        gives memory back that steps do without, and returns whether there was any.
        """
        self._objective, self._runtime, self._name = objective, runtime, name
        self._blocks = () if runtime.checkpointing == "never" else objective.blocks()
        self._free, self.ahead = free, Ahead(objective, works=runtime.prepares_ahead or replays)

    def recomputes(self, progress: TrainProgress) -> bool:
        """Return whether the backward pass computes activations again."""
        asked = self._runtime.checkpointing == "always"
        return (asked or progress.recomputes) and bool(self._blocks)

    def arithmetic(self) -> AbstractContextManager[None]:
        """A block of the forward and the backward pass: autocast is the encoder's own, and TF32
        must hold in the backward pass too.
        """
        precision: Precision = "tf32" if self._runtime.precision == "tf32" else "fp32"
        return arithmetic(precision, self._runtime.device)

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
                if not self._free():
                    self._save_memory(step, progress, error)
            self._objective.module.zero_grad(set_to_none=True)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

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
        step.first.seed_dropout(step.rank)
        kept = recomputed(self._blocks) if self.recomputes(progress) else nullcontext()
        with self.arithmetic(), kept:
            step = self.ahead.take(step)
            self._objective.begin(step)
            total = torch.zeros((), device=self._runtime.device)
            for i, positions in enumerate(step.micro_batches()):
                part, own = step.part_of(positions)
                if i and own[0] == (share := part.share_of(own)):
                    part.seed_dropout(share)
                loss = self._objective.loss(step, positions)
                if i == 0:
                    # now, because a backward pass leaves the interpreter to other threads
                    self.ahead.ask(step_of(step.number + 1))
                if loss.requires_grad:  # a micro-batch may have nothing in it that is counted
                    loss.backward()  # type: ignore[no-untyped-call]
                total = total + loss.detach()
        return total


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out: CUDA has an exception for it, and the CPU's allocator raises a
    plain RuntimeError.
    """
    full = "DefaultCPUAllocator: can't allocate memory"
    return isinstance(error, torch.OutOfMemoryError) or full in str(error)


@dataclass(frozen=True)
class KeepBest:
    """Which weights a training keeps: those of the best score, and of equal ones the first.

    `score(epoch)` measures the module as it is, in eval mode; epochs count from 1. All workers call
    it, so that they can share the work (`raxalign.train.group`), and the first one's score
    counts. It is called every `every` steps (None: after each epoch) and after the last step,
    but not before step `start`, unless that is the last one. The best score is the highest one, or
    with `lowest` the lowest one. `curve` names it in the reports. `watched` measures the scores
    that `Runtime.watch` asks for, language -> score (None: it cannot be watched).
    """

    score: Callable[[int], float]
    every: int | None = None
    lowest: bool = False
    start: int = 0
    curve: str = "selection"
    watched: Callable[[Watch], Mapping[str, float]] | None = None


@dataclass(frozen=True)
class Fitted:
    """What a training did: the loss of each step, the score of each selection (step, score), the
    step whose weights were kept (None: the last ones), the rows that a micro-batch had at the end,
    whether activations were then computed again in the backward pass, and the steps of this process
    that were started at once (`Runtime.replays`).
    """

    losses: list[float]
    scores: list[tuple[int, float]]
    selected: int | None
    micro: int
    recomputed: bool = False
    replayed: int = 0


def fit(
    objective: Objective,
    n_rows: int,
    settings: TrainSettings,
    runtime: Runtime,
    *,
    name: str = "train",
    keep: KeepBest | None = None,
) -> Fitted:
    """Train `objective.module` in place; it comes back in eval mode.

    Args:
        objective: The loss, and the module that it trains.
        n_rows: The rows that are trained on are 0 to `n_rows` - 1.
        settings: Learning rate, batches, schedule, optimiser.
        runtime: Device, seed, workers and checkpoints.
        name: Names the curves (``<name>/loss``) and the checkpoints; two trainings of one runtime
            need different names.
        keep: Which weights the module has afterwards (None: the last ones).

    Returns:
        The losses, the scores and the step whose weights the module has.

    Raises:
        TrainingDiverged: The loss, the gradient or a weight is not finite, or the loss explodes
            (`Course.explodes`). The message has the step, the rate and the loss.
        Pruned: `runtime.watch` ended the training, which can go on from its checkpoint.
        LeaseLost: Another process has taken over the training.
        RaxalignError: There are no rows, or a single row does not fit into memory.
    """
    devices = [torch.device(runtime.device)] if torch.device(runtime.device).type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        loop = _Loop(objective, n_rows, settings, runtime, name, keep)
        try:
            fitted = loop.run()
        except BaseException as error:
            loop.close(error)
            raise
        loop.close(None)
        return fitted


def adam(parameters: list[torch.nn.Parameter], settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW, which decays matrices alone: biases and norms are vectors."""
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps, fused=True
    )


class _Loop:
    """One training."""

    def __init__(
        self,
        objective: Objective,
        n_rows: int,
        settings: TrainSettings,
        runtime: Runtime,
        name: str,
        keep: KeepBest | None,
    ) -> None:
        self.objective, self.settings, self.runtime = objective, settings, runtime
        self.name, self.keep = name, keep
        self.order = objective.order(n_rows, settings, runtime.seed)
        self.total = self.order.total
        self.module = objective.module
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = adam(self.parameters, settings)
        shapes: Json = [[key, list(t.shape)] for key, t in objective.state().items()]
        folder = runtime.checkpoints / name if runtime.checkpoints else None
        fingerprint = digest([repr(settings), n_rows, runtime.seed, name, shapes])
        self.saver = Saver(objective, self.optimizer, runtime, folder, fingerprint)
        # without dropout nothing depends on who computes which rows
        self.shares = (runtime.shares if settings.dropout else 0) or runtime.world_size
        self.micro = max(1, -(-self.order.batch_size // self.shares))
        self.progress = TrainProgress(micro=self.micro)
        replays = runtime.replays and runtime.world_size == 1 and objective.replays
        replays = replays and all(encoder.can_pack() for encoder in objective.encoders())
        self.recordings: Recordings | None = None
        self.replayed, given = 0, (objective, runtime, name, self.stop_recording)
        self.micro_batches = MicroBatches(*given, replays=replays)
        if replays:
            self.start_recording()
        self.reading = LossReader(objective, settings, self.total, runtime, name)

    def close(self, error: BaseException | None) -> None:
        """End the threads. What went wrong with the last checkpoint is a note on the error that
        ended the training; without one it is raised.
        """
        self.stop_recording()
        self.micro_batches.ahead.close()
        self.reading.tokens.close()
        try:
            self.saver.close()
        except Exception as lost:
            if error is None:
                raise
            error.add_note(f"the last checkpoint could not be written: {lost}")

    def run(self) -> Fitted:
        """Return all steps that are left."""
        self.progress = self.saver.resume() or self.progress
        self.module.train(self.settings.dropout)
        self.maybe_end()  # it may have died between its checkpoint and its end
        while self.progress.step < self.total:
            self.runtime.owned()
            self.advance()
            # after the last step there is nothing to resume
            saves = self.progress.step < self.total and self.saver.due(self.progress.step)
            is_last = self.progress.step == self.total
            if saves or is_last or self.selects() or self.reading.due():
                self.reading.read(self.progress.losses)
            self.maybe_select()
            if saves:
                self.saver.save(self.progress)
            self.maybe_end()
        progress = self.progress
        self.saver.finish(progress, selected=self.keep is not None)
        sums = [parameter.detach().sum() for parameter in self.parameters]
        if sums and not bool(torch.isfinite(torch.stack(sums)).all()):
            # the last step, after a loss that was good
            self.reading.check(progress.losses, "the weights are not finite")
        self.record_caveats()
        again = self.micro_batches.recomputes(progress)
        scores, micro = progress.scores, progress.micro
        return Fitted(progress.losses, scores, progress.selected, micro, again, self.replayed)

    def record_caveats(self) -> None:
        """Record that the loss did not fall, or still fell where the last weights were kept, and
        that some worker had to cut its batches where dropout draws for each part anew.
        """
        found, workers = Caveats.listener(), self.runtime.world_size
        cut = self.settings.dropout and self.progress.micro < self.micro
        if workers > 1:
            cut = any(gather_values(cut, workers))
        if found is None:
            return
        losses, course = self.progress.losses, self.reading.course
        if (ends := course.not_lowered(losses)) is not None:
            found.not_lowered[self.name] = ends
        falling = course.still_falling(losses)
        if falling and self.progress.selected in (None, self.total):
            found.still_falling[self.name] = falling
        if cut:
            found.cut_batches[self.name] = None

    def advance(self) -> None:
        """One optimiser step."""
        rate = self.settings.rate_at(self.progress.step, self.total)
        for group in self.optimizer.param_groups:
            held = isinstance(group["lr"], torch.Tensor)
            group["lr"] = group["lr"].fill_(rate) if held else rate
        if self.module.training != self.settings.dropout:  # this visits every part
            self.module.train(self.settings.dropout)
        if (step := self.replay()) is None:
            number = self.progress.step
            step, total = self.micro_batches.compute(number, self.step_of, self.progress)
            self.reading.add(self.finish(self.objective.gathered(step, self.parameters, total)))
        with torch.no_grad():
            self.objective.end(step)
        self.progress.step += 1

    def finish(self, loss: torch.Tensor) -> torch.Tensor:
        """Change the weights by the gradients; return the loss and the norm of these, (2,)."""
        norm = torch.zeros_like(loss)
        if self.settings.clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip).to(loss)
        self.update()
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack([loss, norm])

    def start_recording(self) -> None:
        """From now on lay out rows in few shapes, and leave the rate of learning on the device."""
        self.recordings = Recordings(self.runtime.device)
        for encoder in self.objective.encoders():
            encoder.even = True
        for group in self.optimizer.param_groups if self.recordings.graphs else ():
            group["lr"] = torch.tensor(float(group["lr"]), device=self.runtime.device)

    def stop_recording(self) -> bool:
        """Take steps operation by operation from now on; return whether any could be replayed."""
        replayed, self.recordings = self.recordings is not None, None
        for encoder in self.objective.encoders() if replayed else ():
            encoder.even = False
        return replayed

    def replay(self) -> Step | None:
        """Take a step whose like was recorded, or record it now, where its rows are computed
        together; None where it is to be taken operation by operation.
        """
        ahead, number = self.micro_batches.ahead, self.progress.step
        if self.recordings is None or (step := self.step_of(number)) is None:
            return None
        if self.micro_batches.recomputes(self.progress) or len(step.micro_batches()) > 1:
            self.stop_recording()
            return None
        step = ahead.take(step)
        self.objective.begin(step)
        step.seed_dropout(step.rank)
        if (measured := self.recorded(self.recordings, step)) is None:
            self.optimizer.zero_grad(set_to_none=True)
            return None
        ahead.ask(self.step_of(number + 1))
        self.reading.add(measured)
        self.replayed += 1
        return step

    def recorded(self, recordings: Recordings, step: Step) -> torch.Tensor | None:
        """Compute a step and change the weights; return its loss and the norm of the gradient.
        None, and the weights are as before, where it is to be taken operation by operation.
        """
        assert step.prepared is not None, "it replays, so that its host's side is apart"
        (part,), (positions,) = step.prepared.parts.values(), step.micro_batches()
        groups, found = self.optimizer.param_groups, None
        tokens, before = self.reading.tokens, self.reading.tokens.count

        def compute() -> torch.Tensor:
            with self.micro_batches.arithmetic():
                loss = self.objective.loss(step, positions)
                if loss.requires_grad:
                    loss.backward()  # type: ignore[no-untyped-call]
            for group in groups:
                group["capturable"] = recordings.graphs
            return self.finish(loss.detach())

        try:
            found = recordings.run(part, compute)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self.stop_recording()
        for group in groups:
            group["capturable"] = False  # torch warns where a step is taken with it
        if recordings.refused:
            self.stop_recording()
        if found is None:
            return None
        found.tokens = tokens.count - before or found.tokens
        tokens.count = before + found.tokens
        return found.made.clone()

    def update(self) -> None:
        """Let Adam change the weights. Raises `RaxalignError` where memory does not hold its
        moments, which no smaller micro-batch would help.
        """
        try:
            self.optimizer.step()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            needed = 16 * sum(parameter.numel() for parameter in self.parameters) / 2**30
            raise RaxalignError(
                f"{self.name}: memory ran out at step {self.progress.step + 1}, in Adam's step."
                f" The trained weights, their gradients and Adam's moments take {needed:.2g} GiB,"
                " whatever the batch. Train fewer weights (`lora`, `freeze`), run fewer trials on"
                " the device at once, or use a larger one"
            ) from error

    def step_of(self, number: int) -> Step | None:
        """Return the step of a number; None after the last one."""
        if number >= self.total:
            return None
        where = self.runtime
        drawn = (*self.order.rows(number), where.seed, where.rank, where.world_size)
        return self.objective.taken(Step(number, *drawn, self.progress.micro, self.shares))

    def maybe_select(self) -> None:
        """Score the module; on the first worker keep its weights if they are the best so far."""
        keep, progress, step = self.keep, self.progress, self.progress.step
        if keep is None or not self.selects():
            return
        with self.reads_weights():
            score = float(keep.score(-(-step // self.order.steps_per_epoch)))
            if self.runtime.rank != 0:
                return
            sign, best = (-1 if keep.lowest else 1), dict(progress.scores)
            progress.scores.append((step, score))
            self.runtime.report({f"{self.name}/{keep.curve}": score}, step)
            if progress.selected is None or sign * score > sign * best[progress.selected]:
                progress.selected, progress.best = step, self.saver.weights()

    @contextmanager
    def reads_weights(self) -> Iterator[None]:
        """A block in which all workers measure the module together."""
        self.module.eval()
        with sharing(self.runtime):
            yield

    def selects(self) -> bool:
        """Return whether the module is scored at this step."""
        keep, step = self.keep, self.progress.step
        if keep is None or not step:
            return False
        every = keep.every or self.order.steps_per_epoch
        return step == self.total or (step % every == 0 and step >= keep.start)

    def maybe_end(self) -> None:
        """Let the watch hear scores. Raise `Pruned`, with a checkpoint, where it ends all."""
        watch, keep = self.runtime.watch, self.keep
        if watch is None or keep is None or keep.watched is None or not self.selects():
            return
        at, ends = Moment(self.progress.step, self.total), False
        with self.reads_weights():
            scores = keep.watched(watch)
        if self.runtime.rank == 0:
            curve = {f"{self.name}/dev_{lang}_{watch.metric}": s for lang, s in scores.items()}
            self.runtime.report(curve, at.step)
            ends = watch.ends(scores, at) and not at.is_last
        if self.runtime.world_size > 1:
            ends = bool(share_value(ends))
        if ends:
            self.saver.save(self.progress, now=True)
            raise Pruned(self.name, at)
