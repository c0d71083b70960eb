"""States and gradients of packed rows, plain and compiled, for several shapes. Prints one JSON
object; `test_packing` runs it in a process of its own.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch._dynamo.utils import counters

from raxalign.encoders.models.rows import Packed, Rows
from raxalign.encoders.models.transformer import TransformerEncoder
from tests.encoders.architectures import folder_of, model_of

SHAPES = ((6, 30), (9, 30), (14, 25), (20, 33), (11, 28))


def gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-8))


def run(encoder: TransformerEncoder, n: int, width: int) -> list[torch.Tensor]:
    """All layers' states of some sentences, then the gradients of all weights except the biases
    of keys, which change nothing and have gradients of rounding alone.
    """
    random = np.random.default_rng(n)
    lengths = random.integers(3, 20, n)
    packed = Packed.of([Rows.of(random.integers(5, 60, lengths.sum()), lengths)], 0, width)
    states = encoder.states(packed, (1, 2, 3))
    encoder.model.zero_grad()
    torch.stack(states).sin().sum().backward()
    gradients = [
        weight.grad
        for name, weight in encoder.model.named_parameters()
        if weight.grad is not None and not name.endswith("key.bias")
    ]
    return [*(state.detach() for state in states), *gradients]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    plain = TransformerEncoder.from_folder(folder_of(folder, model_of("bert", head=False)))
    compiled = plain.with_model(copy.deepcopy(plain.model))
    compiled.compiled = True
    found = []
    for n, width in SHAPES:
        pairs = zip(run(compiled, n, width), run(plain, n, width), strict=True)
        found += [gap(one, other) for one, other in pairs]
    copied = copy.deepcopy(compiled.model)
    left = [name for name, part in copied.named_modules() if "forward" in vars(part)]
    stats = counters["stats"]
    record = {"gap": max(found), "values": len(found), "graphs": stats["unique_graphs"]}
    breaks = sum(counters["graph_break"].values())
    sys.stdout.write(json.dumps({**record, "breaks": breaks, "left": left}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
