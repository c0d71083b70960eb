"""What the evaluations of transfer tasks have in common: which model is for which languages, and the means over languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raxalign.errors import DataError
from raxalign.tasks.base import Score

if TYPE_CHECKING:
    from raxalign.tasks._trained_models import TrainedModel


def languages_of(models: Sequence[TrainedModel], languages: Sequence[str], pivot: str) -> list[tuple[TrainedModel, list[str]]]:
    """The languages that each model is for: all, or its own and the pivot (whose score is then the mean over models)."""
    pairs = [(model, [lang for lang in languages if model.toward in (None, lang) or lang == pivot]) for model in models]
    pairs = [(model, spoken) for model, spoken in pairs if model.toward is None or model.toward in languages]
    missing = set(languages) - {lang for _, spoken in pairs for lang in spoken}
    if missing:
        raise DataError("trained model", f"there is no model for {', '.join(sorted(missing))}: the training was for other languages")
    return pairs


def means(scores: Sequence[Score], languages: Sequence[str], pivot: str) -> list[Score]:
    """For each metric and split the means over all languages (`avg`), and over those that are not the pivot (`avg_zero_shot`)."""
    found = []
    for metric, split in dict.fromkeys((score.metric, score.split) for score in scores):
        value = {score.lang: score.value for score in scores if (score.metric, score.split) == (metric, split)}
        others = [lang for lang in languages if lang != pivot]
        found.append(Score("avg", metric, split, float(np.mean([value[lang] for lang in languages]))))
        if others:
            found.append(Score("avg_zero_shot", metric, split, float(np.mean([value[lang] for lang in others]))))
    return found
