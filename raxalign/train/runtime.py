"""Where a training or an evaluation runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from raxalign.lazy import torch
from raxalign.options.run import Checkpointing, Precision


class TokenRate:
    """Counts the tokens that pass a module's word embeddings. It never waits for the device."""

    NAME: ClassVar = "tokens_per_second"
    """The last part of the name under which a training run reports its speed."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.count, self._since = 0, time.monotonic()
        words: dict[str, torch.nn.Embedding] = {}  # of embeddings next to each other the largest
        for name, part in module.named_modules():
            if isinstance(part, torch.nn.Embedding):
                parent = name.rpartition(".")[0]
                words[parent] = max(words.get(parent, part), part, key=lambda e: e.num_embeddings)
        self._hooks = [part.register_forward_pre_hook(self._add) for part in words.values()]

    def take(self) -> float | None:
        """Return the tokens per second since this was last called; None where none were read."""
        now, count = time.monotonic(), self.count
        seconds, self._since, self.count = now - self._since, now, 0
        return count / seconds if count and seconds > 0 else None

    def close(self) -> None:
        """Take the counters off the module."""
        for hook in self._hooks:
            hook.remove()

    def _add(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], torch.Tensor):
            self.count += given[0].numel()


@dataclass(frozen=True)
class Moment:
    """Where a training is: `step` of its `steps` optimiser steps, and whether no step is left."""

    step: int
    steps: int

    @property
    def is_last(self) -> bool:
        """Whether the training is at its end."""
        return self.step >= self.steps


class Watch(Protocol):
    """What hears the scores, on the first worker alone, although all workers measure them. It may
    end a training, and changes nothing else of it.

    `languages` are those whose development sets are scored at each selection, beside those that
    choose the weights, and `metric` is the name of the score.
    """

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that are scored."""

    @property
    def metric(self) -> str:
        """The name of the score."""

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        """Take the scores of a selection (language -> score); return whether the training ends
        here. The same selection may come again after the death of a process.
        """


class Pruned(Exception):
    """A training was ended early by its watch, with a checkpoint at this step."""

    def __init__(self, name: str, at: Moment) -> None:
        self.at = at
        super().__init__(f"{name}: ended at step {at.step} of {at.steps}")


def _ignore(metrics: Mapping[str, float], step: int) -> None:
    """The report of a run that nobody watches."""


def _nothing() -> None:
    """What is done after a checkpoint that stays, and for a training that nobody takes over."""


@dataclass(frozen=True)
class Runtime:
    """Where a computation runs.

    `device` is a torch device name. `report(metrics, step)` takes training curves; only rank 0
    calls it. `checkpoints` is a folder that survives the process (None: no checkpoints). A thread
    writes one every `checkpoint_seconds`. With `checkpoint_every` it is instead written every so
    many optimiser steps, and the next step waits for it. `saved` is called on rank 0 after each
    checkpoint, by the thread that wrote it. `threads` is the process's share of the cores.
    `owned` is called before each step; on rank 0 it raises `LeaseLost` where another process has
    taken over the training.
    `watch` hears the scores of dev selections and may end the training early (None: nothing does).
    `precision` is that of the encoder's products, and `compiled` says whether its blocks are.
    `shares` are the parts of a global batch that each draw dropout of their own, whichever worker
    computes them (0: as many as there are workers). Besides the seed, only these three change a
    result, and `replays`, which adds padding, its rounding. `checkpointing` says when the backward
    pass computes the activations of blocks again instead of keeping them (``auto``: once memory has
    run out). With `prefetch` a thread prepares the next step (None: where the device is a GPU).
    With `replays` steps whose inputs have the same shapes are recorded and started at once, where
    the objective permits it.
    """

    device: str = "cpu"
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    threads: int = 1
    report: Callable[[Mapping[str, float], int], None] = field(default=_ignore)
    checkpoints: Path | None = None
    checkpoint_seconds: float = 600.0
    checkpoint_every: int | None = None
    saved: Callable[[], None] = field(default=_nothing)
    owned: Callable[[], None] = field(default=_nothing)
    watch: Watch | None = None
    precision: Precision = "fp32"
    compiled: bool = False
    shares: int = 0
    checkpointing: Checkpointing = "auto"
    prefetch: bool | None = None
    replays: bool = False

    @property
    def prepares_ahead(self) -> bool:
        """Whether a thread prepares the next step. On a CPU it would take the step's cores."""
        return self.device.startswith("cuda") if self.prefetch is None else self.prefetch
