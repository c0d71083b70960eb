"""The results and the report of a large grid: 1,000 trials with 200 metrics each.

usage: python -m benchmarks.report_speed [TRIALS]

Budgets at this size: `results` in 5 s and `report` in 60 s. Predictions (600 word pairs per
language) are stored with each result, so that every value is tested against the encoder as it was.
Seconds are those of cores, given as multiples of starting Python with the lightest of our libraries
too, as in `plan_speed`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.plan_speed import lightest, report, seconds
from raxalign.grid.load import open_grid

GRID = """
name: report-speed
pivot: en
encoder: {{kind: scratch, layers: 1, hidden_size: 16, heads: 1, intermediate: 32,
  vocab_size: 300, steps: 2, batch_size: 8}}
languages: {{together: [de, fr, es, bg, el]}}
corpus: {{source: phrasebook, size: 12000, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: [100, 200, 400, 800, 1000]
seeds: [{seeds}]
methods:
  none: {{}}
  finetune: {{lambda: [{lambdas}]}}
tasks:
  retrieval: {{}}
published: [cao2020, pan2021, kulshreshtha2020, liu2020, weam2021]
"""
LANGS = ("de", "fr", "es", "bg", "el")
PAIRS = 600


def main() -> None:
    """Make the ledger, then time both commands."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seeds, lambdas = 5, trials // 25
    floor = lightest()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAXALIGN_STORAGE"] = f"{folder}/storage"
        grid = Path(folder, "grid.yaml")
        values = ", ".join(f"{(i + 1) / 10:g}" for i in range(lambdas))
        grid.write_text(
            GRID.format(seeds=", ".join(map(str, range(seeds))), lambdas=values), encoding="utf-8"
        )
        metrics = fill(grid)
        raxalign = (sys.executable, "-m", "raxalign")
        rows = f"{seeds * lambdas * 5:,} trials x {metrics} metrics"
        out = ("--out", f"{folder}/out")
        took = seconds(*raxalign, "results", str(grid), "--format", "json")
        limits = (5.0, 60.0) if trials >= 1000 else (None, None)
        report(f"`results` of {rows} as JSON", took, limits[0], floor)
        report(f"`results` of {rows}", seconds(*raxalign, "results", str(grid)), limits[0], floor)
        took = seconds(*raxalign, "report", str(grid), *out)
        report(f"`report` of {rows}", took, limits[1], floor)


def fill(grid: Path) -> int:
    """Results of every evaluation of the plan; returns how many values each has."""
    opened = open_grid(grid)
    ledger, rng, count = opened.storage.ledger, np.random.default_rng(0), 0
    for number, trial in enumerate(opened.plan.trials):
        for key in trial.evaluations.values():
            skill = 0.3 + 0.3 * rng.random()
            scores, table = evaluation(skill, rng)
            ledger.write(key, {"scores": scores, "params": {}, "task": "retrieval"}, table)
            count = len(scores)
        if number % 250 == 0:
            print(f"{number} trials written", flush=True)
    return count


def evaluation(skill: float, rng: np.random.Generator) -> tuple[list[dict[str, object]], pa.Table]:
    """Twenty metrics on dev and test in five languages, with the predictions of two of them."""
    scores: list[dict[str, object]] = []
    tables = []
    for split in ("dev", "test"):
        for lang in LANGS:
            label, correct = f"{lang}-en", rng.random((2, PAIRS)) < skill
            value = float(correct.mean())
            metrics = {
                "contextual_accuracy": value,
                "contextual_accuracy_all": value,
                "contextual_accuracy_pairs": float(PAIRS),
            }
            metrics |= {f"more_{i}": float(rng.random()) for i in range(17)}
            scores += [
                {"lang": label, "metric": metric, "split": split, "value": number}
                for metric, number in metrics.items()
            ]
            for direction, right in zip(("to_pivot", "from_pivot"), correct, strict=True):
                fixed = {
                    "lang": [label] * PAIRS,
                    "split": [split] * PAIRS,
                    "direction": [direction] * PAIRS,
                    "id": np.arange(PAIRS) // 4,
                }
                flags = dict.fromkeys(
                    ("unseen", "first_any", "first", "first_unseen"), np.ones(PAIRS, bool)
                )
                tables.append(
                    pa.table(
                        {
                            **fixed,
                            "correct": right,
                            "correct_first": right,
                            "identical": np.zeros(PAIRS, bool),
                            **flags,
                        }
                    )
                )
    return scores, pa.concat_tables(tables)


if __name__ == "__main__":
    main()
