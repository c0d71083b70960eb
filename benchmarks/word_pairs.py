"""Word pairs: everything but tokenisation and the word aligner, in sentence pairs per second, and
its peak memory.

    python benchmarks/word_pairs.py [--sentences 250000] [--words 20]

Makes a bitext of random words, then builds its word pairs twice as a grid does: a training set's,
and those of a held-out run over test, dev and training together. The word aligner is the real one
with its program left out: words are numbered and written for it, and the files that it would have
written are ready and are read. The cost of the sentences alone is measured too: reading the bitext
and writing it again. Prints one JSON object. The budget is 50,000 sentence pairs/s at intersection
and one-to-one, and under 2 GiB.
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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raxalign.corpora.text.dataset import DatasetWriter, read_table
from raxalign.corpora.text.sentences import sentence_columns
from raxalign.pairing.aligners import eflomal
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.build import (
    HeldoutSources,
    Recipe,
    Workplace,
    build_heldout,
    build_training,
)
from raxalign.pairing.pharaoh import write_links

HELDOUT = 1024
SCHEMA = pa.schema({"id": pa.int64(), **sentence_columns("src"), **sentence_columns("tgt")})
BUDGET = {"sentence_pairs_per_s": 50_000, "peak_mib": 2048}


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
        write_links(folder / f"run.{name}", everything)
        write_links(folder / f"training.{name}", everything.part(2 * HELDOUT, len(everything)))


def sentences(random: np.random.Generator, lengths: np.ndarray) -> tuple[pa.Array, ...]:
    """Random sentences of those lengths, word frequencies as Zipf has them: their words, text and
    starts.
    """
    vocabulary = pa.array([f"word{i}" for i in range(60_000)])
    words = vocabulary.take(pa.array(random.zipf(1.2, int(lengths.sum())) % 60_000))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.cumsum(pc.utf8_length(words).to_numpy() + 1)
    ends = np.concatenate([[0], ends])  # with the blank after each word
    starts = pa.array(ends[:-1] - np.repeat(ends[offsets[:-1]], lengths), pa.int32())
    columns = [pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), p) for p in (words, starts)]
    return columns[0], pc.binary_join(columns[0], " "), columns[1]


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
    """Builds both artifacts in this process and prints the seconds and the peak of its memory."""
    aligner = eflomal.Eflomal(eflomal.Eflomal.Params())
    recipe, workplace = Recipe(aligner, "de", "en"), Workplace(folder / "work")
    seconds = {"sentences_alone": clock(lambda: copy(folder / "training", folder / "copy"))}
    leave_out_program(folder, "training")
    seconds["training"] = clock(
        lambda: build_training(folder / "training", recipe, workplace, folder / "pairs")
    )
    leave_out_program(folder, "run")
    sources = HeldoutSources(folder / "heldout", folder / "training")
    build = lambda: build_heldout(  # noqa: E731
        sources, recipe, workplace, folder / "run", keep_training=True
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


def leave_out_program(folder: Path, name: str) -> None:
    """Lets the files of links that lie ready stand for the program's output."""

    def run(_command: list[str], scratch: Path, _threads: int) -> None:
        for direction in ("forward", "reverse"):
            (scratch / direction).hardlink_to(folder / f"{name}.{direction}")

    eflomal._run = run


def copy(source: Path, target: Path) -> None:
    """Reads a bitext and writes it again."""
    table = read_table(source)
    with DatasetWriter(target, SCHEMA, {}) as writer:
        for batch in table.to_batches(8192):
            writer.write(batch)


def clock(work: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Makes the bitext, measures in another process, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=250_000)
    parser.add_argument("--words", type=int, default=20, help="mean number of words of a side")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.measure)
        return
    folder = Path(tempfile.mkdtemp(prefix="word-pairs-"))
    try:
        make(folder, asked.sentences, asked.words)
        # A process of its own: the peak is then that of the build, not of making the bitext.
        child = subprocess.run(
            [sys.executable, __file__, "--measure", str(folder)],
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(child.stdout)
    finally:
        shutil.rmtree(folder)
    seconds = found["seconds"]
    rates = {name: round(asked.sentences / seconds[name]) for name in seconds}
    ratios = {
        name: round(seconds[name] / seconds["sentences_alone"], 2)
        for name in ("training", "heldout_run")
    }
    print(
        json.dumps(
            {
                "sentence_pairs_per_s": rates,
                "ratio_to_sentences_alone": ratios,
                "peak_mib": round(found["peak_mib"]),
                "budget": BUDGET,
            }
        )
    )


if __name__ == "__main__":
    main()
