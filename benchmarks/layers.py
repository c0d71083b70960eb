"""A layer profile against the same measures of one layer, in one run.

usage: python -m benchmarks.layers [--sentences 200] [--threads 2] [--repeats 2]

Prints the time of `representation` with seven measures over the layers 1 to 12 of a random BERT (12
layers of 384), divided by that over layer 12 alone; budget 1.3. Both read the sentence pairs of the
phrasebook once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.sentences import phrasebook_pairs, random_bert
from benchmarks.table import Row, at_most, in_turn, show, spread
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.representation import Representation
from raxalign.train.runtime import Runtime

BUDGET = 1.3
MEASURES = ["mexa", "cka", "margin", "hubness", "retrieval", "language_probe", "anisotropy"]


def profile(aligned: AlignedEncoder, inputs: TaskInputs, sentences: int, layers: str) -> None:
    """Evaluate all measures at some layers."""
    given = {"unit": "sentences", "sentence_pooling": "weighted", "projection": "none"}
    params = {**given, "measures": MEASURES, "layers": layers, "max_sentences": sentences}
    task = Representation(Representation.Params.model_validate(params))
    task.evaluate(aligned, ("de",), inputs, Runtime(), None)


def main() -> None:
    """Measure both in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="raxalign-bench-") as scratch:
        pairs = phrasebook_pairs(Path(scratch) / "pairs" / "data", options.sentences)
        folder = random_bert(Path(scratch) / "encoder", pairs, layers=12, width=384)
        aligned = AlignedEncoder(TransformerEncoder.from_folder(folder))
        inputs = TaskInputs("en", bitext={"de": pairs.parent})
        run = partial(profile, aligned, inputs, options.sentences)
        run("12")
        works = [partial(run, "1-12"), partial(run, "12")]
        every, one = in_turn(options.repeats, time.perf_counter, *works)
    print(f"12 layers: {min(every):.2f} s, one: {min(one):.2f} s")
    ratio, noise = min(every) / min(one), spread(every, one)
    show(Row("measures of 12 layers", ratio, at_most(BUDGET), noise, "one layer"))


if __name__ == "__main__":
    main()
