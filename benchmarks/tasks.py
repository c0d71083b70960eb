"""Training of XNLI, a tagger and MLQA against the `Trainer` of transformers with batches by length.

usage: python -m benchmarks.tasks [ENCODER_FOLDER] [--tasks xnli slots mlqa] [--rows 960]
[--batch 32] [--rounds 3]

Budgets: at least 1.15 times the speed of `Trainer`, whose batches are padded, and at least 0.8 of
the bare side's, which runs the encoder alone over the same batches and back. The rows of the bare
side are packed before the clock runs exactly as ours are, since padded ones would flatter us.

Ours and `Trainer` train one epoch on the same rows, from the same encoder and head, on one thread;
ours is the whole training, tokenisation included, less the time of reading the file (of which only
the first rows are used), and `Trainer` is given rows that are divided into pieces. Nothing is
dropped out. The losses of our steps are compared with those of the plain model over padded batches
in the same order, which must be equal to 1e-4. The rows are real ones where RAXALIGN_TEST_DATA
names a folder of them, else the phrasebook's. Without an encoder's folder, a random BERT (4 layers
of 256) is used, whose pieces are learnt from real sentences where they are there: from others,
words of real rows would fall into letters, and all windows of MLQA be full. Core-seconds; all sides
run in turn, and the best round of each counts.

`Trainer` sorts by length within stretches of rows / (4 x batch) batches, 50 at most. When there are
few batches, a stretch is one or two of them, and it hardly sorts at all, which flatters us: use
many rows, or small batches.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.bare import packed, states
from benchmarks.plain_task import NO_LABEL, Plain, Reference, Rows, examples, padded
from benchmarks.sentences import folders, sources
from benchmarks.table import Row, at_least, at_most, show, spread
from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.taggers.head import Placed
from raxalign.tasks.taggers.scheme import OUTSIDE
from raxalign.train.loop import fit
from raxalign.train.objective import Objective, Step
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime

REAL = {
    "xnli": "xnli/train-{pivot}.tsv",
    "slots": "slots-facebook/train.{pivot}.conll",
    "mlqa": "xquad/train.{pivot}.json",
}
MORE: Mapping[str, Mapping[str, object]] = {"slots": {"tagger": "linear"}}
SIZES = {"xnli": 1.0, "slots": 4.0, "mlqa": 0.125}
"""How many times as many rows, and as large batches, a task has: as many subword tokens in as many
steps as the others. In small batches the optimiser takes most of a step, and in few of them what is
paid once (the first step, and writing the model) takes all.
"""
TRAINER, BARE, GAP = 1.15, 0.8, 1e-4


class Bare(Objective):
    """Records the batches of a training, without training anything."""

    def __init__(self) -> None:
        self.module: nn.Module = nn.Linear(1, 1)
        self.batches: list[list[int]] = []

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Note the rows of the batch."""
        self.batches.append(step.rows[positions].tolist())
        loss: torch.Tensor = self.module(torch.zeros(1)).sum()
        return loss


class Side:
    """One task: its rows, and three trainings on them."""

    def __init__(self, kind: str, folder: Path, options: argparse.Namespace) -> None:
        real = os.environ.get("RAXALIGN_TEST_DATA")
        data: Any = {"train": str(Path(real, REAL[kind]))} if real else "phrasebook"
        task = catalog("tasks")[kind]
        self.kind, self.folder = kind, folder
        params = task.Params(
            data=data,
            max_train=options.rows,
            batch_size=options.batch,
            epochs=1,
            dropout=0.0,
            selection="last",
            **MORE.get(kind, {}),
        )
        self.task = task(params)
        told: Any = self.task.settings() if kind == "slots" else params
        self.settings: TrainSettings = told.settings()
        self.reading = 0.0
        self.rows = self._read(TransformerEncoder.from_folder(folder), told)

    def _read(self, encoder: TransformerEncoder, params: Any) -> Rows:
        data: Any = self.task.head(TaskInputs("en"))
        encoder.max_positions = min(encoder.max_positions, params.max_length)
        if self.kind == "xnli":
            found = self._timed(data.data.rows)
            labels = found.numbers(data.scheme.labels).tolist()
            first, second = (list(found.texts(name)) for name in ("first", "second"))
            return Rows(encoder.pieces(first, "en", second), labels, 3)
        if self.kind == "mlqa":
            questions = self._timed(data.data.rows).answered()
            windows = questions.training_windows(encoder, "en", data.sizes)
            return Rows(windows.rows, windows.cuts_S5[:, 3:].tolist(), 2)
        sentences = self._timed(data.data.rows)
        placed = Placed.of(encoder.pieces(sentences.words(), "en"))
        tags = sorted(
            {tag for row in sentences.rows for tag in row.tags}, key=lambda t: (t != OUTSIDE, t)
        )
        labels = []
        for row, length, firsts, words in zip(
            sentences.rows, placed.rows.lengths, placed.firsts, placed.words, strict=True
        ):
            numbers = np.full(length, NO_LABEL)
            numbers[firsts] = [tags.index(row.tags[word]) for word in words]
            labels.append(numbers.tolist())
        return Rows(placed.rows, labels, len(tags))

    def _timed(self, read: Callable[[str, str], Any]) -> Any:
        seconds = []
        for _ in range(3):  # the first one loads libraries, too
            start = time.process_time()
            found = read("train", "en")
            seconds.append(time.process_time() - start)
        self.reading = min(seconds)
        return found

    def ours(self) -> tuple[float, list[float]]:
        """CPU-seconds of the training without the reading, and the loss of each step."""
        losses: list[float] = []

        def report(values: Mapping[str, float], _: int) -> None:
            losses.extend(value for name, value in values.items() if name.endswith("/loss"))

        aligned = AlignedEncoder(TransformerEncoder.from_folder(self.folder))
        with tempfile.TemporaryDirectory() as scratch:
            start = time.process_time()
            self.task.train(
                aligned, ("en",), TaskInputs("en"), Runtime(report=report), Path(scratch)
            )
            return time.process_time() - start - self.reading, losses

    def plain(self) -> list[float]:
        """The losses of the plain model in our batches."""
        model = Plain(self.folder, self.kind, self.rows.n_outputs)
        rows = examples(self.rows)
        return fit(Reference(model, rows), len(rows), self.settings, Runtime()).losses

    def bare(self) -> Callable[[], float]:
        """What runs forwards and backwards over our batches, and returns its CPU-seconds."""
        encoder, recorder = TransformerEncoder.from_folder(self.folder), Bare()
        fit(recorder, len(self.rows.pieces), self.settings, Runtime())
        chosen = [self.rows.pieces.take(np.array(batch)) for batch in recorder.batches]
        ready = [packed(encoder, [rows], rows.fitting_width()) for rows in chosen]

        def run() -> float:
            start = time.process_time()
            for rows in ready:
                states(encoder, rows).sum().backward()
                encoder.model.zero_grad(set_to_none=True)
            return time.process_time() - start

        return run

    def theirs(self, batch: int) -> float:
        """CPU-seconds of `Trainer`."""
        from transformers import Trainer, TrainingArguments

        model = Plain(self.folder, self.kind, self.rows.n_outputs)
        with tempfile.TemporaryDirectory() as scratch:
            arguments = TrainingArguments(
                output_dir=scratch,
                per_device_train_batch_size=batch,
                num_train_epochs=1,
                learning_rate=self.settings.learning_rate,
                train_sampling_strategy="group_by_length",
                remove_unused_columns=False,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
            )
            trainer = Trainer(
                model=model,
                args=arguments,
                train_dataset=examples(self.rows),
                data_collator=padded,
            )
            start = time.process_time()
            trainer.train()
            return time.process_time() - start


def measure(side: Side, options: argparse.Namespace) -> dict[str, object]:
    """Run all sides of one task in turn, compare their losses, and show the ratios."""
    ours, theirs, floor, losses = [], [], [], list[float]()
    bare = side.bare()
    for _ in range(options.rounds):
        seconds, losses = side.ours()
        ours.append(seconds)
        theirs.append(side.theirs(options.batch))
        floor.append(bare())
    gap = float(np.abs(np.array(losses) / np.array(side.plain()) - 1).max())
    lengths = side.rows.pieces.lengths
    ratio, to_bare = min(theirs) / min(ours), min(floor) / min(ours)
    source = "real rows" if os.environ.get("RAXALIGN_TEST_DATA") else "phrasebook"
    what = f"training of {side.kind}, {len(lengths):,} {source}"
    noise = spread(ours, theirs)
    show(Row(f"{what}: rows/s", ratio, at_least(TRAINER), noise, "`Trainer`, batches by length"))
    noise = spread(ours, floor)
    show(Row(f"{what}: rows/s", to_bare, at_least(BARE), noise, "bare packed steps"))
    show(Row(f"{what}: difference of losses", gap, at_most(GAP), 0.0, "padded batches"))
    return {
        "ratio": ratio,
        "ratio_to_bare": to_bare,
        "noise": [spread(part) for part in (ours, theirs, floor)],
        "rows": len(lengths),
        "pieces_per_row": [float(lengths.mean()), int(lengths.max())],
        "rows_per_second": [len(lengths) / min(part) for part in (ours, theirs, floor)],
        "largest_relative_difference_of_losses": gap,
        "losses_equal": gap <= GAP,
    }


def without_dropout(encoder: str, scratch: Path) -> Path:
    """A copy of the encoder's folder in which nothing is dropped out."""
    folder = Path(shutil.copytree(encoder, scratch / "encoder", copy_function=shutil.copyfile))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {name: 0.0 for name in config if name.endswith(("dropout", "dropout_prob"))}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("--tasks", nargs="+", choices=[*REAL], default=[*REAL])
    for name, value in (("rows", 960), ("batch", 32), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    if options.rows > 100 * options.batch:
        parser.error(
            "--rows is at most 100 batches: the curves have a point for each step up to there"
        )
    torch.set_num_threads(1)
    gc.disable()  # or reading takes another time beside a training than by itself
    found: dict[str, object] = {"batch": options.batch, "budget": TRAINER}
    with (
        folders(options.encoder, None, 20_000, sources()[-1]) as (encoder, _),
        tempfile.TemporaryDirectory() as scratch,
    ):
        folder = without_dropout(str(encoder), Path(scratch))
        for kind in options.tasks:
            sized = argparse.Namespace(**vars(options))
            sized.rows, sized.batch = (
                max(1, int(SIZES[kind] * size)) for size in (options.rows, options.batch)
            )
            found[kind] = measure(Side(kind, folder, sized), sized)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
