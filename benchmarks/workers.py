"""What the sum of gradients over two workers costs: time per step and peak memory, against the same
training without it.

usage: python -m benchmarks.workers [--layers 6] [--hidden 512] [--vocab 30000] [--steps 6]
[--rounds 3] [--rows 8] [--tokens 64]

Two processes with one thread each train a random BERT, connected by gloo on this machine. They do
so alone, each on half of the rows, and then together. Both sides run in turn in the same processes,
and the best round of each counts. Memory is the peak of one process above what it held before the
training, in units of the size of all gradients. Budgets: 1.5 times the time, and 0.5 gradients
more memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.multiprocessing.spawn import spawn
from transformers import BertConfig, BertModel

from benchmarks.table import Row, at_most, show, spread
from raxalign.train.loop import fit
from raxalign.train.objective import Objective, Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime

WORKERS = 2
SLOWER, MORE = 1.5, 0.5


class Length(Objective):
    """The mean square of an encoder's states over random pieces. It notes when steps end."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.module = BertModel(
            BertConfig(
                vocab_size=options.vocab,
                hidden_size=options.hidden,
                num_hidden_layers=options.layers,
                num_attention_heads=options.hidden // 64,
                intermediate_size=4 * options.hidden,
            )
        )
        rows = WORKERS * options.rows * options.steps
        self.ids_BT = torch.randint(options.vocab, (rows, options.tokens))
        self.ends: list[float] = []

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows."""
        states = self.module(self.ids_BT[torch.from_numpy(step.rows[positions])]).last_hidden_state
        mean: torch.Tensor = states.pow(2).mean() * (len(positions) / len(step.rows))
        return mean

    def end(self, step: Step) -> None:  # noqa: ARG002
        """Note the time."""
        self.ends.append(time.perf_counter())


def memory(name: str) -> int:
    """Return a line of this process's status, in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found is not None, "this needs Linux"
    return 1024 * int(found[1])


def measured(options: argparse.Namespace, rank: int, world_size: int) -> tuple[float, float]:
    """Return the seconds of a step after the first one, and the peak of memory above the start, in
    gradients.
    """
    objective, rows = Length(options), options.rows * world_size
    size = sum(p.numel() * p.element_size() for p in objective.module.parameters())
    torch.distributed.barrier()
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    before = memory("VmRSS")
    fit(
        objective,
        rows * options.steps,
        TrainSettings(learning_rate=1e-5, batch_size=rows, epochs=1),
        Runtime(rank=rank, world_size=world_size),
    )
    return float(np.diff(objective.ends).mean()), (memory("VmHWM") - before) / size


def work(rank: int, folder: str, options: argparse.Namespace) -> None:
    """One of the workers: both sides, in turn."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORKERS
    )
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "together": []}
    for _ in range(options.rounds):
        found["alone"].append(measured(options, rank, 1))
        found["together"].append(measured(options, rank, WORKERS))
    Path(folder, f"{rank}.json").write_text(json.dumps(found), "utf-8")
    torch.distributed.barrier()
    os._exit(0)  # threads of gloo may abort an interpreter that shuts down


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = {"layers": 6, "hidden": 512, "vocab": 30_000, "steps": 6, "rounds": 3}
    for name, value in (defaults | {"rows": 8, "tokens": 64}).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder, options), nprocs=WORKERS)
        found = json.loads(Path(folder, "0.json").read_text("utf-8"))
    seconds = {side: [s for s, _ in rounds] for side, rounds in found.items()}
    peaks = {side: min(m for _, m in rounds) for side, rounds in found.items()}
    size = sum(p.numel() for p in Length(options).module.parameters())
    what = f"{size / 1e6:.0f} M parameters, {WORKERS} workers"
    bare, noise = "the same workers, each alone", spread(*seconds.values())
    ratio = min(seconds["together"]) / min(seconds["alone"])
    show(Row(f"{what}: time of a step", ratio, at_most(SLOWER), noise, bare))
    more = peaks["together"] - peaks["alone"]
    show(Row(f"{what}: further memory", more, at_most(MORE), None, bare, "gradients"))


if __name__ == "__main__":
    main()
