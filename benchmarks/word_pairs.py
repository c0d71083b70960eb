"""Word pairs: everything but tokenisation and the word aligner, in sentence pairs per second, and
its peak memory.

usage: python -m benchmarks.word_pairs [--sentences 250000] [--words 20] [--rounds 3]

Makes a bitext of random words, then builds its word pairs twice as a grid does: a training set's,
and those of a held-out run over test, dev and training together. The word aligner is the real one
with its program left out: words are numbered and written for it, and the files that it would have
written are ready and are read. The cost of the sentences alone is measured too: reading the bitext
and writing it again. Budgets: 50,000 sentence pairs per core-second at intersection and one-to-one,
and under 2 GiB with 250,000. Each round is a process of its own; the best one of each part counts.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.table import ROUNDS, Row, at_least, at_most, show, spread
from raxalign.corpora.text.dataset import DatasetWriter, read_table
from raxalign.corpora.text.sentences import sentence_columns
from raxalign.pairing.aligners import eflomal
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.build import (
    LinkRecipe,
)
from raxalign.pairing.links import Links

HELDOUT = 1024
SCHEMA = pa.schema({"id": pa.int64(), **sentence_columns("src"), **sentence_columns("tgt")})
RATE, PEAK = 50_000, 2048


def make(folder: Path, n: int, mean_words: int) -> None:
    """A bitext in parts and, for it, links such as a word aligner finds: one for most words, the
    directions agreeing on most.
    """
    random = np.random.default_rng(0)
    lengths = {
        side: random.integers(mean_words // 2, mean_words * 3 // 2 + 1, n + 2 * HELDOUT)
        for side in ("src", "tgt")
    }
    columns = [column for side in lengths for column in sentences(random, lengths[side])]
    parts = {
        "heldout/data": (0, HELDOUT),
        "heldout/dev": (HELDOUT, 2 * HELDOUT),
        "training": (2 * HELDOUT, n + 2 * HELDOUT),
    }
    for name, (start, stop) in parts.items():
        with DatasetWriter(folder / name, SCHEMA, {}) as writer:
            for at in range(start, stop, 8192):
                ids = pa.array(range(at, min(at + 8192, stop)), pa.int64())
                writer.write(
                    pa.RecordBatch.from_arrays(
                        [ids, *(column.slice(at, len(ids)) for column in columns)],
                        schema=SCHEMA,
                    )
                )
    for name, explained, other in (("forward", "tgt", "src"), ("reverse", "src", "tgt")):
        own, place = diagonal(random, lengths[explained], lengths[other])
        pair = (place, own) if explained == "tgt" else (own, place)
        offsets = np.concatenate([[0], np.cumsum(lengths[explained])])
        everything = Links(offsets, *(positions.astype(np.int32) for positions in pair))
        everything.write(folder / f"run.{name}")
        everything.part(2 * HELDOUT, len(everything)).write(folder / f"training.{name}")


def sentences(random: np.random.Generator, lengths: np.ndarray) -> tuple[pa.Array, ...]:
    """Random sentences of those lengths, word frequencies as Zipf has them: their words, text and
    starts; no ends, as where each word is in the text as it is.
    """
    vocabulary = pa.array([f"word{i}" for i in range(60_000)])
    words = vocabulary.take(pa.array(random.zipf(1.2, int(lengths.sum())) % 60_000))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.cumsum(pc.utf8_length(words).to_numpy() + 1)
    ends = np.concatenate([[0], ends])  # with the blank after each word
    starts = pa.array(ends[:-1] - np.repeat(ends[offsets[:-1]], lengths), pa.int32())
    columns = [pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), p) for p in (words, starts)]
    none = pa.nulls(len(lengths), columns[1].type)
    return columns[0], pc.binary_join(columns[0], " "), columns[1], none


def diagonal(
    random: np.random.Generator, lengths: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each word's own position, and one near the diagonal of the other side."""
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    own = np.arange(int(lengths.sum())) - starts
    other = np.repeat(others, lengths)
    place = own * other // np.repeat(lengths, lengths) + random.choice(
        [-1, 0, 0, 0, 0, 1], len(own)
    )
    return own, np.clip(place, 0, other - 1)


def measure(folder: Path) -> None:
    """Builds both artifacts in this process; prints the core-seconds and the peak of its memory."""
    aligner = eflomal.Eflomal(eflomal.Eflomal.Params())
    recipe = LinkRecipe(aligner, "de", "en")
    workplace = AlignerInputs((), None, {}, folder / "work", 1)
    seconds = {"sentences_alone": clock(lambda: copy(folder / "training", folder / "copy"))}
    leave_out_program(folder, "training")
    seconds["training"] = clock(
        lambda: recipe.build_training(folder / "training", workplace, folder / "pairs")
    )
    leave_out_program(folder, "run")
    sources = folder / "heldout", folder / "training"
    build = lambda: recipe.build_heldout(  # noqa: E731
        *sources, workplace, folder / "run", keep_training=True
    )
    seconds["heldout_run"] = clock(build)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def leave_out_program(ready: Path, name: str) -> None:
    """Lets the files of links that lie ready stand for the program's output."""

    def run(command: list[str], folder: Path, threads: int) -> None:  # noqa: ARG001 as the real one
        for direction in ("forward", "reverse"):
            (folder / direction).hardlink_to(ready / f"{name}.{direction}")

    eflomal._run = run


def copy(source: Path, target: Path) -> None:
    """Read a bitext and write it again."""
    table = read_table(source)
    with DatasetWriter(target, SCHEMA, {}) as writer:
        for batch in table.to_batches(8192):
            writer.write(batch)


def clock(work: Callable[[], object]) -> float:
    """The core-seconds that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Make the bitext, measure in another process, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=250_000)
    parser.add_argument("--words", type=int, default=20, help="mean number of words of a side")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure)
        return
    folder = Path(tempfile.mkdtemp(prefix="word-pairs-"))
    try:
        make(folder, asked.sentences, asked.words)
        found = [once(folder) for _ in range(asked.rounds)]
    finally:
        shutil.rmtree(folder)
    seconds = {name: [run["seconds"][name] for run in found] for name in found[0]["seconds"]}
    many = f"word pairs of {asked.sentences:,} sentence pairs"
    ratios = {}
    for name, said in (("training", "training"), ("heldout_run", "held-out run")):
        own, bare = seconds[name], seconds["sentences_alone"]
        ratios[name] = round(min(own) / min(bare), 2)
        noise, beside = spread(own, bare), f"{ratios[name]} x reading and writing the sentences"
        rate = asked.sentences / min(own)
        show(Row(f"{many}, {said}: speed", rate, at_least(RATE), noise, beside, "pairs/core-s"))
    peaks = [run["peak_mib"] for run in found]
    limit = at_most(PEAK) if asked.sentences >= 250_000 else None
    show(Row(f"{many}: memory", max(peaks), limit, spread(peaks), "the process", "MiB"))
    rates = {name: round(asked.sentences / min(took)) for name, took in seconds.items()}
    shown = {"sentence_pairs_per_s": rates, "ratio_to_sentences_alone": ratios}
    print(json.dumps({**shown, "peak_mib": [round(peak) for peak in peaks]}))


def once(folder: Path) -> dict[str, Any]:
    """What another process measures, whose peak of memory is that of the build alone, not that of
    making the bitext. What an earlier round made is removed.
    """
    for made in ("work", "copy", "pairs", "run"):
        shutil.rmtree(folder / made, ignore_errors=True)
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.word_pairs", "--measure", str(folder)],
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(child.stdout))


if __name__ == "__main__":
    main()
