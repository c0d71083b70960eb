"""fast_align beside eflomal: seconds on the same sentence pairs, and both alignment error rates on
the Hansards' gold links.

    RAXALIGN_TEST_DATA=... python benchmarks/fast_align.py [--sentences 100000] [--threads 1]

The sentences are Tatoeba's: French, Spanish and German with English, one language after the other
until there are enough. The budget is under three times eflomal's time. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from raxalign.pairing.aligners.base import AlignerInputs, Links, WordAligner
from raxalign.pairing.aligners.eflomal import Eflomal
from raxalign.pairing.aligners.fast_align import FastAlign
from raxalign.pairing.error_rate import score_links
from raxalign.pairing.pharaoh import read_blocks
from raxalign.pairing.symmetrize import symmetrize_links
from raxalign.pairing.words import Words

TOKEN = re.compile(r"\w+['’]?|[^\w\s]")
BUDGET = {"fast_align_to_eflomal": 3.0}


def tatoeba(data: Path, lang: str, side: str) -> list[list[str]]:
    """One side of a language's sentence pairs."""
    with (data / "tatoeba" / f"{lang}-en.{side}").open(encoding="utf-8") as file:
        return [TOKEN.findall(line) for line in file]


def gold(data: Path) -> tuple[Links, Links]:
    """The sure and the possible links of the Hansards, which count from 1."""
    (block,) = read_blocks(data / "gold-links" / "enfr.gold")
    links = Links(block.links.offsets, block.links.src - 1, block.links.tgt - 1)
    sure = np.flatnonzero(~block.possible)
    return Links.from_codes(np.sort(links.codes()[sure]), len(links)), links


def run(
    kind: type[WordAligner], src: Words, tgt: Words, threads: int
) -> tuple[Links, Links, float]:
    """Forward links, reverse links, and the seconds they took."""
    with tempfile.TemporaryDirectory() as work:
        inputs = AlignerInputs(range(len(src)), None, {}, Path(work), threads)
        start = time.perf_counter()
        forward, reverse = kind(kind.Params()).align(src, tgt, inputs)
        return forward, reverse, time.perf_counter() - start


def main() -> None:
    """Times both word aligners, scores both, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    if "RAXALIGN_TEST_DATA" not in os.environ:
        sys.exit("RAXALIGN_TEST_DATA is not set: it names the folder with real data")
    data = Path(os.environ["RAXALIGN_TEST_DATA"])
    src, tgt = (
        [s for lang in ("fr", "es", "de") for s in tatoeba(data, lang, side or lang)][
            : asked.sentences
        ]
        for side in (None, "en")
    )
    hansards = [
        line.split("|||")
        for line in (data / "gold-links" / "enfr.src-tgt").read_text(encoding="utf-8").splitlines()
    ]
    english = Words.of([s.split() for s, _ in hansards] + tatoeba(data, "fr", "en"))
    french = Words.of([t.split() for _, t in hansards] + tatoeba(data, "fr", "fr"))
    sure, possible = gold(data)
    seconds, error_rates = {}, {}
    for kind in (FastAlign, Eflomal):
        name = kind.__module__.rpartition(".")[2]
        *_, seconds[name] = run(kind, Words.of(src), Words.of(tgt), asked.threads)
        forward, reverse, _ = run(kind, english, french, asked.threads)
        found = symmetrize_links(
            forward.part(0, len(sure)), reverse.part(0, len(sure)), "intersection"
        )
        error_rates[name] = round(score_links(found, sure, possible).error_rate, 4)
    ratio = seconds["fast_align"] / seconds["eflomal"]
    shown = {
        "sentence_pairs": len(src),
        "fast_align_to_eflomal": round(ratio, 3),
        "seconds": {k: round(v, 2) for k, v in seconds.items()},
    }
    print(json.dumps({**shown, "alignment_error_rate": error_rates, "budget": BUDGET}))


if __name__ == "__main__":
    main()
