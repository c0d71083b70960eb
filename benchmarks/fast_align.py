"""fast_align beside eflomal: seconds on the same sentence pairs, and both alignment error rates on
the Hansards' gold links.

usage: python -m benchmarks.fast_align [--sentences 100000] [--threads 1] [--rounds 3]

Where RAXALIGN_TEST_DATA names a folder of real data, the sentences are Tatoeba's: French, Spanish
and German with English, one language after the other until there are enough. Elsewhere they are the
phrasebook's, and there are no error rates. Budget: at most three times eflomal's core-seconds. Both
run in turn, and the best round of each counts. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.sentences import phrasebook_pairs, tatoeba
from benchmarks.table import Row, at_most, children, in_turn, named, show, spread
from raxalign.corpora.text.dataset import read_table
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner
from raxalign.pairing.aligners.eflomal import Eflomal
from raxalign.pairing.aligners.fast_align import FastAlign
from raxalign.pairing.gold import LinkCounts
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

BUDGET = 3.0


def sentences(data: Path | None, count: int) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides of some sentence pairs."""
    if data is None:
        with tempfile.TemporaryDirectory() as folder:
            table = read_table(phrasebook_pairs(Path(folder, "pairs"), count))
            return table.column("src").to_pylist(), table.column("tgt").to_pylist()
    src, tgt = (
        [s for lang in ("fr", "es", "de") for s in tatoeba(data, lang, side or lang)][:count]
        for side in (None, "en")
    )
    return src, tgt


def gold(data: Path) -> tuple[Links, Links]:
    """The sure and the possible links of the Hansards, which count from 1."""
    links, possible = Links.read_marked(data / "gold-links" / "enfr.gold")
    links = Links(links.offsets, links.src - 1, links.tgt - 1)
    sure = np.flatnonzero(~possible)
    return Links.from_codes(np.sort(links.codes()[sure]), len(links)), links


def run(kind: type[WordAligner], src: Words, tgt: Words, threads: int) -> tuple[Links, Links]:
    """Forward links and reverse links."""
    with tempfile.TemporaryDirectory() as work:
        inputs = AlignerInputs(range(len(src)), None, {}, Path(work), threads)
        return kind(kind.Params()).align(src, tgt, inputs)


def error_rate(kind: type[WordAligner], data: Path, threads: int) -> float:
    """The alignment error rate on the Hansards, aligned together with Tatoeba."""
    lines = (data / "gold-links" / "enfr.src-tgt").read_text(encoding="utf-8").splitlines()
    hansards = [line.split("|||") for line in lines]
    english = Words.of([s.split() for s, _ in hansards] + list(tatoeba(data, "fr", "en")))
    french = Words.of([t.split() for _, t in hansards] + list(tatoeba(data, "fr", "fr")))
    sure, possible = gold(data)
    forward, reverse = run(kind, english, french, threads)
    found = Links.symmetrized(
        forward.part(0, len(sure)), reverse.part(0, len(sure)), "intersection"
    )
    return round(LinkCounts.of(found, sure, possible).scores()["alignment_error_rate"], 4)


def main() -> None:
    """Times both word aligners, scores both, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-error-rates", action="store_true")
    asked = parser.parse_args()
    real = os.environ.get("RAXALIGN_TEST_DATA")
    data = Path(real) if real else None
    src, tgt = sentences(data, asked.sentences)
    kinds: dict[str, type[Eflomal | FastAlign]] = {"fast_align": FastAlign, "eflomal": Eflomal}

    def align(kind: type[WordAligner]) -> None:
        run(kind, Words.of(src), Words.of(tgt), asked.threads)

    fast, slow = in_turn(
        asked.rounds,
        lambda: time.process_time() + children(),  # eflomal is a program
        *(lambda kind=kind: align(kind) for kind in kinds.values()),
    )
    ratio, source = min(fast) / min(slow), "Tatoeba" if data else "phrasebook"
    what = f"fast_align, {len(src):,} pairs of {source}, {named(asked.threads)}: time"
    show(Row(what, ratio, at_most(BUDGET), spread(fast, slow), "eflomal"))
    shown: dict[str, object] = {
        "sentence_pairs": len(src),
        "fast_align_to_eflomal": round(ratio, 3),
        "seconds": {"fast_align": round(min(fast), 2), "eflomal": round(min(slow), 2)},
        "budget": BUDGET,
    }
    if data and not asked.no_error_rates:
        shown["alignment_error_rate"] = {
            name: error_rate(kind, data, asked.threads) for name, kind in kinds.items()
        }
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
