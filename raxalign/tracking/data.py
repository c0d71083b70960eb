"""The datasets of a cell, as MLflow lists them with a run: names and digests, not the data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raxalign.analysis.cells import Cell
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.trial import Trial

TRAINING, EVALUATION = "training", "evaluation"
_MOST = 40  # of one cell
_LONGEST_DIGEST = 36  # characters that MLflow takes


@dataclass(frozen=True)
class Dataset:
    """A bitext or a file that a cell reads.

    Attributes:
        name: What it is (``phrasebook de-en``).
        digest: The key of its stage, or the digest of the file.
        context: ``training`` or ``evaluation``.
        source: Where it comes from.
        pairs: The number of sentence pairs, where the grid says it.
    """

    name: str
    digest: str
    context: str
    source: str
    pairs: int | None = None

    def entity(self) -> Any:
        """Return it as MLflow takes it."""
        from mlflow.entities import Dataset as Entity
        from mlflow.entities import DatasetInput, InputTag

        profile = None if self.pairs is None else json.dumps({"sentence_pairs": self.pairs})
        source = json.dumps({"source": self.source})
        digest = self.digest[:_LONGEST_DIGEST]
        entity = Entity(self.name, digest, "raxalign", source, profile=profile)
        return DatasetInput(entity, [InputTag("mlflow.data.context", self.context)])


def datasets_of(plan: Plan, cell: Cell) -> list[Dataset]:
    """Return what the trials of a cell learn from and are evaluated on, in the order of their
    languages; at most 40.
    """
    trials = (plan.by_key[key] for key in cell.trials if key in plan.by_key)
    apart = {(trial.languages, *trial.evaluations): trial for trial in trials}
    found = dict.fromkeys(data for trial in apart.values() for data in _of_trial(plan, trial))
    return list(found)[:_MOST]


def _of_trial(plan: Plan, trial: Trial) -> Iterator[Dataset]:
    aligned = [plan.stages[key].inputs for key in plan.aligned(trial)]
    learnt = [key for inputs in aligned for name, key in inputs.items() if name != "encoder"]
    seen = set(plan.closure(learnt))
    for key in plan.closure(learnt):
        yield from _of_stage(plan.stages[key], TRAINING)
    before = [inputs["encoder"] for inputs in aligned]
    encoders = [key for key in plan.closure(before) if plan.stages[key].kind == "encoder"]
    skipped = set(plan.closure(encoders)) - seen
    for task, evaluation in trial.evaluations.items():
        for key in plan.closure([evaluation]):
            stage = plan.stages[key]
            if key not in skipped and key not in seen:
                context = TRAINING if stage.kind == "tuned" else EVALUATION
                yield from _of_stage(stage, context, task)


def _of_stage(stage: Stage, context: str, task: str = "") -> Iterator[Dataset]:
    if stage.kind == "bitext":
        lang, pivot, part = (str(stage.params.get(n, "")) for n in ("lang", "pivot", "part"))
        apart = "" if part == "training" else f" ({part})"
        pairs = stage.params.get("sentences") if part == "training" else None
        source = ", ".join(stage.locations.values()) or stage.maker
        count = pairs if isinstance(pairs, int) else None
        yield Dataset(f"{stage.maker} {lang}-{pivot}{apart}", stage.key, context, source, count)
    elif stage.kind in ("tuned", "evaluation"):
        for name, digest in stage.digests.items():
            yield Dataset(f"{task} {name}", digest, context, stage.locations.get(name, task))
