"""Speed of fine-tuning alignment against the plain way, with the losses of both, and against its
bare forwards and backwards.

usage: python -m benchmarks.finetune [ENCODER_FOLDER WORD_PAIRS_FOLDER] [--steps 50] [--batch 8]
[--threads 1] [--rounds 3]

Budgets: at least 2.5 times the tokens per second of the plain way with the same losses to a
relative 1e-4, and at least 0.8 of the bare side's. The plain way runs where the environment
variable RAXALIGN_BENCH_REFERENCES names a folder with finetune_reference.py. The bare side runs the
encoder over both sides of the same pairs and back, and its frozen copy over the target side,
without loss or optimiser. Its rows are packed before the clock runs exactly as ours are, since
padded ones would flatter us. Ours is all steps with the optimiser's, and tokenisation.

Without folders, a random BERT (4 layers of 256) is used and sentences of the phrasebook; where
RAXALIGN_TEST_DATA names a folder of real data, those of Tatoeba too. All sides run in turn, and the
best round of each counts. With one thread the seconds are those of cores, else those of the wall.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.bare import packed, states
from benchmarks.references import plain_way
from benchmarks.sentences import first_rows, folders, sources
from benchmarks.table import Row, at_least, at_most, clock_of, named, show, spread

PLAIN, BARE, GAP = 2.5, 0.8, 1e-4


@dataclass(frozen=True)
class Run:
    """One training: its seconds, its tokens, and the loss of each step."""

    seconds: float
    tokens: int
    losses: list[float]


def ours(encoder: Path, pairs: Path, options: argparse.Namespace) -> Run:
    """Train once in the `released` profile, without dropout; tokenisation, which happens once, is
    measured apart and counts by its share.
    """
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.base import MethodInputs
    from raxalign.methods.families.rows import Bitexts
    from raxalign.methods.finetune import Finetune
    from raxalign.train.runtime import Runtime

    clock, steps = clock_of(options.threads), options.steps
    loaded, losses, marks = TransformerEncoder.from_folder(encoder), [], []
    start = clock()
    rows = Bitexts.read_linked(loaded, {"de": pairs}, "en", 128)
    tokenising = (clock() - start) / len(rows) * steps * options.batch

    def report(
        values: Mapping[str, float], _: int
    ) -> None:  # some steps after the loss was computed
        losses.append(values["finetune/loss"])

    hook = register_optimizer_step_post_hook(lambda *_: marks.append(clock()))
    params = Finetune.Params(profile="released", dropout=False, warmup=0, batch_size=options.batch)
    with tempfile.TemporaryDirectory() as folder:
        used = first_rows(pairs, Path(folder), steps * options.batch)
        inputs = MethodInputs(("de",), "en", {"de": used})
        Finetune(params).align(loaded, inputs, Runtime(report=report))
    hook.remove()
    read = rows.sides(np.arange(steps * options.batch))
    tokens = int(rows.sentences.row_lengths(read).sum())
    seconds = (marks[-1] - marks[0]) * steps / (steps - 1) + tokenising
    return Run(seconds, tokens, losses)


def bare(encoder: Path, pairs: Path, options: argparse.Namespace) -> Callable[[], float]:
    """Return what runs the bare side once and returns its seconds."""
    from raxalign.corpora.text.dataset import read_table
    from raxalign.encoders.models.transformer import TransformerEncoder

    clock, loaded = clock_of(options.threads), TransformerEncoder.from_folder(encoder)
    frozen = TransformerEncoder.from_folder(encoder)
    table, batch = read_table(pairs).slice(0, options.steps * options.batch), options.batch
    src, tgt = (
        loaded.pieces(table.column(name).to_pylist(), lang)
        for name, lang in (("src", "de"), ("tgt", "en"))
    )
    batches = [
        (
            packed(loaded, [src.take(chosen), tgt.take(chosen)]),
            packed(loaded, [tgt.take(chosen)]),
        )
        for chosen in np.split(np.arange(len(src)), range(batch, len(src), batch))
    ]

    def seconds() -> float:
        start = clock()
        for both, held in batches:
            with torch.no_grad():
                states(frozen, held)
            states(loaded, both).sum().backward()
            loaded.model.zero_grad(set_to_none=True)
        return clock() - start

    seconds()  # what is done once is done now
    return seconds


def theirs(encoder: Path, pairs: Path, options: argparse.Namespace) -> Run | None:
    """Run the plain way once, where it is there."""
    sizes = ("--steps", options.steps, "--batch", options.batch)
    found = plain_way("finetune_reference.py", encoder, pairs, *sizes, threads=options.threads)
    if found is None:
        return None
    tokens = round(found["tokens_per_second"] * found["seconds"])
    return Run(found["seconds"], tokens, found["losses"])


def measure(encoder: Path, pairs: Path, source: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run all sides in turn and show their ratios."""
    mine, floor, plain = list[Run](), list[float](), list[Run]()
    alone = bare(encoder, pairs, options)
    for _ in range(options.rounds):
        mine.append(ours(encoder, pairs, options))
        floor.append(alone())
        run = theirs(encoder, pairs, options)
        plain += [run] if run else []
    own = [run.seconds for run in mine]
    what = f"fine-tuning, {source}, batches of {options.batch}, {named(options.threads)}"
    ratio = min(floor) / min(own)
    found: dict[str, Any] = {"ours": mine[0].tokens / min(own), "ratio_to_bare": ratio}
    noise = spread(own, floor)
    show(Row(f"{what}: tokens/s", ratio, at_least(BARE), noise, "bare packed steps"))
    if plain:
        slow = [run.seconds for run in plain]
        found["reference"] = plain[0].tokens / min(slow)
        found["ratio"] = found["ours"] / found["reference"]
        gap = float(np.abs(np.array(mine[0].losses) / np.array(plain[0].losses) - 1).max())
        found["largest_relative_difference_of_losses"] = gap
        noise = spread(own, slow)
        show(Row(f"{what}: tokens/s", found["ratio"], at_least(PLAIN), noise, "the plain way"))
        show(Row(f"{what}: difference of losses", gap, at_most(GAP), 0.0, "the plain way's losses"))
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("pairs", nargs="?")
    for name, value in (("steps", 50), ("batch", 8), ("threads", 1), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    if not 2 <= options.steps <= 100:
        parser.error("--steps is 2 to 100: the curves have a point for each step up to there")
    torch.set_num_threads(options.threads)
    for source in ("pairs given",) if options.pairs else sources():
        rows = max(options.steps * options.batch, 2000)
        with folders(options.encoder, options.pairs, rows, source) as (encoder, pairs):
            print(json.dumps(measure(encoder, pairs, source, options), indent=1))


if __name__ == "__main__":
    main()
