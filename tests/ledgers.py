"""Made-up results in a real ledger: every evaluation of a plan gets scores and predictions that
agree with each other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from raxalign.plan.load import Opened, open_grid
from raxalign.plan.trial import Trial
from raxalign.store.ledger import Ledger
from tests.grids import write_grid

LANGS = ("de", "fr", "es")
SENTENCES = 60


def made_up(folder: Path, **parts: object) -> tuple[Opened, Ledger]:
    """A grid of three methods, two sizes, a λ axis and two seeds on retrieval and XNLI, with all of
    its results.
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
    for trial in opened.plan.trials:
        for task, key in trial.evaluations.items():
            if not ledger.has(key):
                fill(ledger, opened, trial, task, key)
    return opened, ledger


def fill(ledger: Ledger, opened: Opened, trial: Trial, task: str, key: str) -> None:
    """Scores and predictions of one evaluation."""
    stage = opened.plan.stages[key]
    rng = np.random.default_rng(int(key[:8], 16))
    skill = (
        0.35
        + {"none": 0.0, "rotation": 0.1, "finetune": 0.25}.get(trial.kind, 0.05)
        + 0.02 * np.log2((trial.sentences or 100) / 100)
    )
    skill -= 0.1 * abs(np.log10(float(trial.params.get("lambda", 1.0))))
    if stage.maker == "xnli":
        scores, table = nli(("en", *trial.languages), skill, rng)
    else:
        scores, table = words(trial.languages, skill, rng)
    record = {
        "scores": scores,
        "params": stage.params["task"],
        "task": stage.maker,
        "seconds": 2.0,
        "created": 1_800_000_000.0,
    }
    ledger.write(key, record, table)


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
            scores.append(
                {"lang": lang, "metric": "accuracy", "split": part, "value": float(right.mean())}
            )
            same = {
                "lang": [lang] * SENTENCES,
                "split": [part] * SENTENCES,
                "toward": pa.array([None] * SENTENCES, pa.string()),
            }
            tables.append(
                pa.table(
                    {
                        **same,
                        "id": np.arange(SENTENCES),
                        "label": labels[gold],
                        "predicted": labels[predicted],
                    }
                )
            )
    return scores, pa.concat_tables(tables)


def words(
    langs: tuple[str, ...], skill: float, rng: np.random.Generator
) -> tuple[list[dict], pa.Table]:
    scores, tables, pairs = [], [], 2 * SENTENCES
    for part in ("dev", "test"):
        for place, lang in enumerate(langs):
            both = []
            for direction in ("to_pivot", "from_pivot"):
                correct = rng.random(pairs) < skill + 0.02 * place
                unseen = np.arange(pairs) % 4 != 0
                both.append((correct, unseen))
                fixed = {
                    "lang": [f"{lang}-en"] * pairs,
                    "split": [part] * pairs,
                    "direction": [direction] * pairs,
                }
                flags = {
                    "correct": correct,
                    "identical": np.zeros(pairs, bool),
                    "unseen": unseen,
                    "first": unseen,
                    "first_unseen": unseen,
                }
                flags |= {"correct_first": correct, "first_any": unseen}
                tables.append(
                    pa.table({**fixed, "id": np.repeat(np.arange(SENTENCES), 2), **flags})
                )
            for metric, chosen in (
                ("contextual_accuracy", True),
                ("contextual_accuracy_all", False),
                ("noncontextual_accuracy", True),
            ):
                values = [
                    float(correct[unseen].mean() if chosen else correct.mean())
                    for correct, unseen in both
                ]
                scores.append(
                    {
                        "lang": f"{lang}-en",
                        "metric": metric,
                        "split": part,
                        "value": float(np.mean(values)),
                    }
                )
            scores.append(
                {
                    "lang": f"{lang}-en",
                    "metric": "contextual_accuracy_pairs",
                    "split": part,
                    "value": 90.0,
                }
            )
    return scores, pa.concat_tables(tables)
