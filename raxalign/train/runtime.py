"""Where a training or an evaluation runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from raxalign.options.run import Checkpointing, Precision

TOKENS = "tokens_per_second"
"""The last part of the name under which a training reports its speed."""


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
    result. `checkpointing` says when the backward pass computes the activations of blocks again
    instead of keeping them (``auto``: once memory has run out). With `prefetch` a thread prepares
    the next step (None: where the device is a GPU). With `replays` steps whose inputs have the same
    shapes are recorded and started at once, where the objective permits it.
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
