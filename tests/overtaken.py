"""Run as a program: a machine that makes the encoder of a grid. Before the step STOP of its
training it waits for a line on its input. Usage: python -m tests.overtaken GRID ROOT LOCAL STOP.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tests.fake_bucket  # noqa: F401 registers the file system
from raxalign.plan.load import open_grid
from raxalign.plan.stage import Stage
from raxalign.stages import Workshop, checkpoints, workshop
from raxalign.store import lease
from raxalign.store.storage import Storage
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime
from tests.train.problems import Regression

SETTINGS = TrainSettings(learning_rate=0.05, batch_size=4, steps=120)


class Waiting(Regression):
    """A training that waits once, before a step."""

    stop = 0

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        if step.number == self.stop:
            say(f"before step {step.number}")
            sys.stdin.readline()
        return super().loss(step, positions)


def train(bench: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Train, and keep the weights."""
    problem = Waiting()
    fit(problem, 22, SETTINGS, bench.runtime_for(stage))
    weights = torch.cat([p.detach().flatten() for p in problem.module.parameters()])
    (folder / "weights").write_bytes(weights.numpy().tobytes())
    say("trained to its end")
    return {}


def say(text: str) -> None:
    print(text, flush=True)


def at(root: str, local: Path) -> Storage:
    """A storage as the machine sees it whose own folder is `local`."""
    storage = Storage(root)
    vars(storage)["local"] = local
    return storage


def main(grid: Path, root: str, local: Path, stop: int) -> None:
    lease.BEAT, lease.EXPIRY, lease.LOOK, checkpoints.SHARE = 0.05, 1.0, 0.02, 1.0
    workshop.MAKERS["encoder"] = train
    Waiting.stop = stop
    torch.set_num_threads(1)
    plan = open_grid(grid, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    runtime = Runtime(checkpoint_every=1)
    bench = Workshop(plan, at(root, local), runtime, tell=say)
    found = bench.ensure(key) / "weights"
    say(f"has {hashlib.sha256(found.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
