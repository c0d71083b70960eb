"""Token translation by all shifts of a sweep against one shift at a time, with the outputs of both.

usage: python -m benchmarks.translation [ENCODER_FOLDER] [--sentences 300] [--rounds 3]

Budget: at least 1.35 with three weights after the last block of a small encoder, whose head over
16,000 pieces is more than half of the work. One thread. Both sides run in turn, and the spread of
each over the rounds is printed, because only the ratio means something. Without a folder, a random
BERT (4 layers of 256) is used.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.finetune import folders
from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.translation.shifts import Shift, translate

ALPHAS = (1.0, 2.0, 3.0)
Outputs = dict[Shift, list[np.ndarray]]


def timed(rounds: int, *sides: Callable[[], Outputs]) -> tuple[list[list[float]], list[Outputs]]:
    """CPU-seconds of each side in each round, and the outputs of the last one."""
    seconds: list[list[float]] = [[] for _ in sides]
    outputs: list[Outputs] = [{} for _ in sides]
    for _ in range(rounds):
        for number, side in enumerate(sides):
            start = time.process_time()
            outputs[number] = side()
            seconds[number].append(time.process_time() - start)
    return seconds, outputs


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, object] = {"sentences": options.sentences, "weights": ALPHAS, "budget": 1.35}
    with folders(options.encoder, None, 2000) as (folder, pairs):
        encoder = TransformerEncoder.from_folder(Path(folder))
        stream = AlignedEncoder(encoder)
        words = read_table(pairs).column("src").to_pylist()[: options.sentences]
        rows, step = encoder.pieces(words, "de"), torch.randn(encoder.hidden_size)
        top = encoder.n_layers
        for name, layers in (("last", (top,)), ("upper half", tuple(range(top // 2 + 1, top + 1)))):
            shifts = {Shift(layer, alpha): alpha * step for layer in layers for alpha in ALPHAS}

            def together(shifts: dict[Shift, torch.Tensor] = shifts) -> Outputs:
                return translate(stream, rows, "de", shifts)

            def apart(shifts: dict[Shift, torch.Tensor] = shifts) -> Outputs:
                outputs: Outputs = {}
                for shift, step_H in shifts.items():
                    outputs |= translate(stream, rows, "de", {shift: step_H})
                return outputs

            (ours, theirs), outputs = timed(options.rounds, together, apart)
            found[name] = {
                "ratio": min(theirs) / min(ours),
                "noise": [max(side) / min(side) - 1 for side in (ours, theirs)],
                "identical": all(
                    all(map(np.array_equal, outputs[0][shift], outputs[1][shift]))
                    for shift in shifts
                ),
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
