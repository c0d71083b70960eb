"""The process of a machine that makes the encoder of a grid, and waits before a step of its
training until it hears something.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
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
    """A training that says so before a step, and then waits."""

    stop: int
    line: Connection

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        if step.number == self.stop:
            self.line.send(f"before step {step.number}")
            self.line.recv()
        return super().loss(step, positions)


def train(bench: Workshop, stage: Stage, folder: Path) -> Mapping[str, Any]:
    """Train, and keep the weights."""
    problem = Waiting()
    fit(problem, 22, SETTINGS, bench.runtime_for(stage))
    weights = torch.cat([p.detach().flatten() for p in problem.module.parameters()])
    (folder / "weights").write_bytes(weights.numpy().tobytes())
    problem.line.send("trained to its end")
    return {}


def at(root: str, local: Path) -> Storage:
    """A storage as the machine sees it whose own folder is `local`."""
    storage = Storage(root)
    vars(storage)["local"] = local
    return storage


def main(line: Connection, grid: Path, root: str, local: Path, stop: int) -> None:
    os.environ["RAXALIGN_CACHE"] = str(local / "cache")
    lease.BEAT, lease.EXPIRY, lease.LOOK, checkpoints.SHARE = 0.05, 1.0, 0.02, 1.0
    workshop.MAKERS["encoder"] = train
    Waiting.stop, Waiting.line = stop, line
    torch.set_num_threads(1)
    plan = open_grid(grid, storage=root).plan
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "encoder"]
    runtime = Runtime(checkpoint_every=1)
    bench = Workshop(plan, at(root, local), runtime, tell=line.send)
    found = bench.ensure(key) / "weights"
    line.send(f"has {hashlib.sha256(found.read_bytes()).hexdigest()}")
