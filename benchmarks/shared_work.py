"""A grid against its trials run one by one on empty storages.

usage: python -m benchmarks.shared_work

Budget (design, §11): a 12-trial grid takes at most 0.4 of the time of its trials run one by one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GRID = """
name: shared
pivot: en
encoder: {kind: scratch, layers: 2, hidden_size: 64, heads: 2, intermediate: 128,
  vocab_size: 1000, steps: 200, batch_size: 16}
languages: {each: [de, fr]}
corpus: {source: phrasebook, size: 4000, split: {test: 200, dev: 100}}
pairs: {aligner: fast_align}
sentences: [1000, 2000]
seeds: [0]
methods:
  rotation: {center: [false, true]}
  finetune: {lambda: 1.0, epochs: 1}
tasks:
  retrieval: {}
"""
TRIALS = [
    f"method={method},language={lang},sentences={sentences}{more}"
    for lang in ("de", "fr")
    for sentences in (1000, 2000)
    for method, more in (
        ("rotation", ",center=False"),
        ("rotation", ",center=True"),
        ("finetune", ""),
    )
]


def run(grid: Path, storage: Path, *arguments: str) -> float:
    """Seconds of one command on an empty storage."""
    start = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "raxalign",
        "grid",
        str(grid),
        "--storage",
        str(storage),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - start


def main() -> None:
    """Print the ratio."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder, "grid.yaml")
        grid.write_text(GRID, encoding="utf-8")
        whole = run(grid, Path(folder, "whole"))
        alone = [
            run(grid, Path(folder, str(number)), "--only", trial)
            for number, trial in enumerate(TRIALS)
        ]
    ratio = whole / sum(alone)
    missed = "" if ratio <= 0.4 else ": MISSED"
    print(
        f"{len(TRIALS)} trials as a grid {whole:.1f} s, one by one {sum(alone):.1f} s: {ratio:.2f}"
        f" (budget 0.4{missed})"
    )


if __name__ == "__main__":
    main()
