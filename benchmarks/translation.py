"""Token translation by all shifts of a sweep against one shift at a time, with the outputs of both.

usage: python -m benchmarks.translation [ENCODER_FOLDER] [--sentences 300] [--rounds 3]

Budget: at least 1.35 with three weights after the last block of a small encoder, whose head over
16,000 pieces is more than half of the work. Core-seconds of one thread. Both sides run in turn, the
best round of each counts, and the noise is printed, because only the ratio means something. Without
a folder, a random BERT (4 layers of 256) is used.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.sentences import folders
from benchmarks.table import Row, at_least, in_turn, show, spread
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.token_translation import Shift, translate

BUDGET = 1.35
ALPHAS = (1.0, 2.0, 3.0)
Outputs = dict[Shift, list[np.ndarray]]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {"sentences": options.sentences, "weights": ALPHAS}
    with folders(options.encoder, None, 2000) as (folder, pairs):
        encoder = TransformerEncoder.from_folder(Path(folder))
        words = read_table(pairs).column("src").to_pylist()[: options.sentences]
        top = encoder.n_layers
        for name, layers in (("last", (top,)), ("upper half", tuple(range(top // 2 + 1, top + 1)))):
            found[name] = measure(encoder, words, layers, options.rounds)
            ratio, noise = found[name]["ratio"], found[name]["noise"]
            blocks = "the last block" if name == "last" else f"{len(layers)} blocks"
            what = f"token translation, {len(ALPHAS)} shifts after {blocks}, {len(words)} sentences"
            budget = at_least(BUDGET) if name == "last" else None
            show(Row(f"{what}: speed", ratio, budget, noise, "one shift at a time"))
    print(json.dumps(found, indent=1))


def measure(
    encoder: TransformerEncoder, words: list[list[str]], layers: tuple[int, ...], rounds: int
) -> dict[str, Any]:
    """Run both sides in turn, and compare their outputs."""
    stream = AlignedEncoder(encoder)
    generator = torch.Generator().manual_seed(0)
    rows, step = encoder.pieces(words, "de"), torch.randn(encoder.hidden_size, generator=generator)
    shifts = {Shift(layer, alpha): alpha * step for layer in layers for alpha in ALPHAS}
    both: list[Outputs] = [{}, {}]

    def together() -> None:
        both[0] = translate(stream, rows, "de", shifts)

    def apart() -> None:
        for shift, step_H in shifts.items():
            both[1] |= translate(stream, rows, "de", {shift: step_H})

    ours, theirs = in_turn(rounds, time.process_time, together, apart)
    same = (all(map(np.array_equal, both[0][shift], both[1][shift])) for shift in shifts)
    return {
        "ratio": min(theirs) / min(ours),
        "noise": spread(ours, theirs),
        "identical": all(same),
    }


if __name__ == "__main__":
    main()
