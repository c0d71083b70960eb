"""Made-up results in a real ledger: every evaluation of a plan gets scores and predictions that
agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raxalign.grid.load import Opened, open_grid
from raxalign.grid.trial import Trial
from raxalign.store.ledger import Ledger
from tests.grids import write_grid

LANGS = ("de", "fr", "es")
SENTENCES = 60
METRICS = ("contextual_accuracy", "noncontextual_accuracy")


Fill = Callable[[Ledger, Opened, Trial, str], None]


def made_up(folder: Path, write: Fill | None = None, **parts: object) -> tuple[Opened, Ledger]:
    """A grid of three methods, two sizes, a λ axis and two seeds on retrieval and XNLI, with all of
    its results, which `write` may write.
    """
    options: dict[str, object] = {
        "languages": "{together: [de, fr, es]}",
        "sentences": "[100, 200]",
        "seeds": "[0, 1]",
        "methods": (
            "none: {}",
            "rotation: {}",
            "finetune: {lambda: [0.1, 1.0, 10.0], batch_size: 16}",
        ),
        "tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}"),
        "more": "published: [cao2020]\n",
    }
    file = write_grid(folder, **{**options, **parts})  # type: ignore[arg-type]
    opened = open_grid(file, storage=str(folder / "storage"))
    ledger = opened.storage.ledger
    fill_all(ledger, opened, write)
    return opened, ledger


def fill_all(ledger: Ledger, opened: Opened, write: Fill | None = None) -> None:
    """Give a ledger the results of a grid that it lacks."""
    for trial in opened.plan.trials:
        for key in trial.evaluations.values():
            if not ledger.has(key):
                (write or fill)(ledger, opened, trial, key)


def fill(ledger: Ledger, opened: Opened, trial: Trial, key: str) -> None:
    """Scores and predictions of one evaluation."""
    stage, rng = opened.plan.stages[key], np.random.default_rng(int(key[:8], 16))
    skill = 0.35 + {"none": 0.0, "rotation": 0.1, "finetune": 0.25}.get(trial.kind, 0.05)
    skill += 0.02 * np.log2((trial.sentences or 100) / 100)
    skill -= 0.1 * abs(np.log10(float(trial.params.get("lambda", 1.0))))
    if stage.maker == "xnli":
        scores, table = nli(("en", *trial.languages), skill, rng)
    else:
        scores, table = words(trial.languages, skill, rng)
    record = {"scores": scores, "params": stage.params["task"], "task": stage.maker}
    ledger.write(key, {**record, "seconds": 2.0, "created": 1_800_000_000.0}, table)


def score(lang: str, metric: str, split: str, value: float) -> dict[str, Any]:
    return {"lang": lang, "metric": metric, "split": split, "value": float(value)}


def nli(
    langs: tuple[str, ...],
    skill: float,
    rng: np.random.Generator,
    split: tuple[str, ...] = ("dev", "test"),
) -> tuple[list[dict], pa.Table]:
    scores, tables, labels = [], [], np.array(["entailment", "neutral", "contradiction"])
    for part in split:
        for place, lang in enumerate(langs):
            right = rng.random(SENTENCES) < skill + 0.25 * (lang == "en") + 0.02 * place
            gold = np.arange(SENTENCES) % 3
            predicted = np.where(right, gold, (gold + 1) % 3)
            scores.append(score(lang, "accuracy", part, right.mean()))
            same = {"lang": [lang] * SENTENCES, "split": [part] * SENTENCES}
            same |= {"toward": pa.array([None] * SENTENCES, pa.string())}
            own = {"label": labels[gold], "predicted": labels[predicted]}
            tables.append(pa.table({**same, "id": np.arange(SENTENCES), **own}))
    return scores, pa.concat_tables(tables)


def words(
    langs: tuple[str, ...], skill: float, rng: np.random.Generator
) -> tuple[list[dict], pa.Table]:
    scores, tables, pairs = [], [], 2 * SENTENCES
    unseen, ids = np.arange(pairs) % 4 != 0, np.repeat(np.arange(SENTENCES), 2)
    flags = dict.fromkeys(("unseen", "first", "first_unseen", "first_any"), unseen)
    flags["identical"] = np.zeros(pairs, bool)
    for part in ("dev", "test"):
        for place, lang in enumerate(langs):
            both = []
            for direction in ("to_pivot", "from_pivot"):
                correct = rng.random(pairs) < skill + 0.02 * place
                both.append(correct)
                fixed = {"lang": f"{lang}-en", "split": part, "direction": direction}
                same = {name: [value] * pairs for name, value in fixed.items()}
                own = {"correct": correct, "correct_first": correct}
                tables.append(pa.table({**same, "id": ids, **flags, **own}))
            for metric in METRICS:
                value = np.mean([correct[unseen].mean() for correct in both])
                scores.append(score(f"{lang}-en", metric, part, value))
            scores.append(score(f"{lang}-en", "contextual_accuracy_pairs", part, 90.0))
    return scores, pa.concat_tables(tables)
