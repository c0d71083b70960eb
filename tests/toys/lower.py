"""A task from outside whose main metric is a mean rank and whose other one is a share, of both of
which lower values are better; and a ledger with its results, which are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.trial import Trial
from raxalign.store.ledger import Ledger
from tests.grids import write_grid

PLUGIN = '''
from functools import partial

import raxalign as rx
from raxalign.measured import Measured
from raxalign.sample import Sample

mean = partial(Measured, sample=Sample.of_column)


class Ranks(rx.Task):
    """How far translations are."""

    VERSION = 1
    main_metric = "mean_rank"
    metrics = (
        mean("mean_rank", "Mean rank of the translation.", "lower", range=(0.0, 1e6)),
        mean("orphans", "Share of words that nothing finds.", "lower", unit="share"),
    )
    predicts = frozenset({"id", "mean_rank", "orphans"})

    def evaluate(self, aligned, languages, inputs, runtime, trained):
        raise NotImplementedError
'''
RANKS: Mapping[str, float] = {"none": 0.8, "rotation": 0.5, "finetune": 1.2}
"""The mean rank that each method is made up to have, about; the best weight of three is the
middle one, and the worst seed is the last.
"""
EXAMPLES, WEIGHTS = 400, "lambda: [0.1, 1.0, 10.0]"


def rank_of(trial: Trial) -> float:
    weight = float(trial.params.get("lambda", 1.0))
    return RANKS[trial.kind] - 0.5 * (trial.kind == "finetune" and weight == 1.0)


def lower_grid(folder: Path) -> tuple[Opened, Ledger]:
    """A grid of three methods and five seeds on the task, with all of its results."""
    (folder / "ranks.py").write_text(PLUGIN, encoding="utf-8")
    methods = ("none: {}", "rotation: {}", f"finetune: {{{WEIGHTS}, batch_size: 16}}")
    parts = {"languages": "{together: [de, fr]}", "sentences": "[100]", "seeds": "[0, 1, 2, 3, 4]"}
    parts |= {"methods": methods, "tasks": ("ranks: {}",), "more": "plugins: [ranks.py]\n"}
    file = write_grid(folder, **parts)
    opened = open_grid(file, storage=str(folder / "storage"))
    ledger = opened.storage.ledger
    for trial in opened.plan.trials:
        key = trial.evaluations["ranks"]
        if not ledger.has(key):
            ledger.write(key, *made_up(trial, key))
    return opened, ledger


def made_up(trial: Trial, key: str) -> tuple[dict[str, object], pa.Table]:
    """The record and the predictions of one evaluation."""
    rng, scores, tables = np.random.default_rng(int(key[:8], 16)), [], []
    for split in ("dev", "test"):
        for lang in trial.languages:
            ranks = rng.poisson(rank_of(trial) + 0.05 * (trial.seed or 0), EXAMPLES).astype(float)
            values = {"mean_rank": ranks, "orphans": (ranks > 0).astype(float)}
            for metric, of in values.items():
                value = float(of.mean())
                scores.append({"lang": lang, "metric": metric, "split": split, "value": value})
            same = {"lang": [lang] * EXAMPLES, "split": [split] * EXAMPLES}
            tables.append(pa.table({**same, "id": np.arange(EXAMPLES), **values}))
    record = {"scores": scores, "params": {}, "task": "ranks", "seconds": 1.0}
    return record, pa.concat_tables(tables)
