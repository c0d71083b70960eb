"""Core-seconds of a step of a method and a task in one training, against those of both alone.

usage: python -m benchmarks.joint [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--method finetune]
[--batch 32] [--steps 30] [--rounds 3]

Budget: at most 1.1 times the sum of a step of XNLI and one of the method. The joint training reads
the same rows in the same batches as both alone. It makes one optimiser's step where they make two.

Only steps are measured, from the end of the first one to that of the last one, on one thread. All
sides run in turn, and the best round of each counts. The rows of XNLI are real ones where
RAXALIGN_TEST_DATA names a folder of them, else the phrasebook's; so are the sentence pairs. Without
folders, a random BERT (4 layers of 256) is used.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.sentences import first_rows, folders, sources
from benchmarks.table import Row, at_most, show, spread
from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.methods.base import MethodInputs
from raxalign.stages.makers import JointTraining
from raxalign.tasks.base import TaskInputs
from raxalign.train.runtime import Runtime

BUDGET = 1.1


@contextmanager
def ends_of_steps() -> Iterator[list[float]]:
    """Yield the core-seconds at the end of each step of an optimiser."""
    ends = list[float]()
    hook = register_optimizer_step_post_hook(lambda *_: ends.append(time.process_time()))
    try:
        yield ends
    finally:
        hook.remove()


class Sides:
    """The trainings of a task and of a method, each alone, and both in one."""

    def __init__(self, encoder: Path, pairs: Path, options: argparse.Namespace) -> None:
        real = os.environ.get("RAXALIGN_TEST_DATA")
        rows = options.steps * options.batch
        self.encoder, self.options = encoder, options
        self.inputs = MethodInputs(("de",), "en", {"de": pairs}, {"de": pairs})
        task = catalog("tasks")["xnli"]
        given: dict[str, Any] = {"data": "phrasebook", "phrasebook": {"train": rows}}
        if real:
            given = {"data": {"train": f"{real}/xnli/train-{{pivot}}.tsv"}, "max_train": rows}
        sizes = {"batch_size": options.batch, "epochs": 1, "selection": "last"}
        self.task = task(task.Params(**given, **sizes))

    def _method(self, **more: Any) -> Any:
        method = catalog("methods")[self.options.method]
        return method(method.Params(batch_size=self.options.batch, **more))

    def task_alone(self) -> None:
        """Train the task."""
        self._tune(TransformerEncoder.from_folder(self.encoder))

    def method_alone(self) -> None:
        """Train the method."""
        encoder = TransformerEncoder.from_folder(self.encoder)
        self._method(steps=self.options.steps).align(encoder, self.inputs, Runtime())

    def both(self) -> None:
        """Train both in one."""
        encoder = TransformerEncoder.from_folder(self.encoder)
        method = self._method(with_task={"task": "xnli"})
        self._tune(encoder, companion=JointTraining(method, encoder, self.inputs).trained)

    def _tune(self, encoder: TransformerEncoder, **more: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            aligned, where = AlignedEncoder(encoder), Path(folder)
            self.task.train(aligned, ("en",), TaskInputs("en"), Runtime(), where, **more)


def measure(encoder: Path, pairs: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run all trainings in turn, show the ratios, and return the best seconds per step."""
    sides = Sides(encoder, pairs, options)
    trainings: dict[str, Callable[[], None]] = {
        "xnli": sides.task_alone,
        options.method: sides.method_alone,
        "both": sides.both,
    }
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    for _ in range(options.rounds):
        for name, training in trainings.items():
            with ends_of_steps() as ends:
                training()
            assert len(ends) == options.steps, f"{name}: {len(ends)} steps"
            seconds[name].append((ends[-1] - ends[0]) / (len(ends) - 1))
    best = {name: min(found) for name, found in seconds.items()}
    alone = best["xnli"] + best[options.method]
    ratio, noise = best["both"] / alone, spread(*seconds.values())
    what = f"joint step of {options.method} and xnli, batches of {options.batch}: time"
    show(Row(what, ratio, at_most(BUDGET), noise, "the sum of both alone"))
    return {"seconds_per_step": best, "both": ratio}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    parser.add_argument("--method", default="finetune")
    for name, value in (("steps", 30), ("batch", 32), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, source = options.steps * options.batch, sources()[-1]
    with (
        folders(options.encoder, options.pairs, rows, source) as (encoder, pairs),
        tempfile.TemporaryDirectory() as scratch,
    ):
        used = first_rows(pairs, Path(scratch), rows)
        print(json.dumps(measure(encoder, used, options), indent=1))


if __name__ == "__main__":
    main()
