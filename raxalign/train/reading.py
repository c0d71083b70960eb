"""The losses of a training on their way from the device, checked and reported."""

from __future__ import annotations

import math
import time
from typing import Any

from raxalign.lazy import torch
from raxalign.losses import Course, check_step
from raxalign.train.objective import Objective
from raxalign.train.options import TrainSettings, rate_at
from raxalign.train.runtime import TOKENS, Runtime


class TokenRate:
    """Counts the tokens that pass a module's word embeddings. It never waits for the device."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._count, self._since = 0, time.monotonic()
        words: dict[str, torch.nn.Embedding] = {}  # of embeddings next to each other the largest
        for name, part in module.named_modules():
            if isinstance(part, torch.nn.Embedding):
                parent = name.rpartition(".")[0]
                words[parent] = max(words.get(parent, part), part, key=lambda e: e.num_embeddings)
        self._hooks = [part.register_forward_pre_hook(self._add) for part in words.values()]

    def take(self) -> float | None:
        """Return the tokens per second since this was last called; None where none were read."""
        now, count = time.monotonic(), self._count
        seconds, self._since, self._count = now - self._since, now, 0
        return count / seconds if count and seconds > 0 else None

    def close(self) -> None:
        """Take the counters off the module."""
        for hook in self._hooks:
            hook.remove()

    def _add(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], torch.Tensor):
            self._count += given[0].numel()


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
        self._tokens, self._read_at = TokenRate(objective.module), time.monotonic()

    def add(self, loss: torch.Tensor, norm: torch.Tensor) -> None:
        """Take a step's loss and the norm of its gradient, which may not be computed yet."""
        self._unread.append(torch.stack([loss, norm]))

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

    def check(self, losses: list[float], fault: str) -> None:
        """Raise `TrainingDiverged` where the losses, or something else (`fault`), show it."""
        goal, rate = self._objective, self._settings.learning_rate
        course = Course(self._name, self._total, rate, goal.comparable_from, goal.loss_unit)
        check_step(course, losses, rate_at(self._settings, len(losses) - 1, self._total), fault)

    def _report(self, losses: list[float]) -> None:
        """Report a point of the curves: the mean loss since the point before."""
        step, every = len(losses), -(-self._total // _CURVE_POINTS)
        if self._runtime.rank != 0 or (step % every and step != self._total):
            return
        recent = losses[max((step - 1) // every * every, 0) :]
        curves = {
            "loss": sum(recent) / len(recent),
            "learning_rate": rate_at(self._settings, step - 1, self._total),
        }
        rate = self._tokens.take()
        curves |= {TOKENS: rate} if rate is not None else {}
        named = {f"{self._name}/{key}": value for key, value in curves.items()}
        self._runtime.report(named, step)

    def close(self) -> None:
        """Take the counters of tokens off the module."""
        self._tokens.close()
