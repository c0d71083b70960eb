"""Which development sets choose the weights that are evaluated, and means over languages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from raxalign.lazy import np
from raxalign.tasks.base import Score

Selection = Literal["pivot-dev", "mean-dev", "target-dev", "last"]


def kept(selection: Selection) -> str:
    """What a training leaves behind for a rule: `pivot-dev` and `last` know their epoch when it
    ends, the others need them all.
    """
    return selection if selection in ("pivot-dev", "last") else "every"


def readers(selection: Selection, languages: Sequence[str], pivot: str) -> Sequence[str]:
    """The languages whose development sets a rule reads."""
    return () if selection == "last" else (pivot,) if selection == "pivot-dev" else languages


def select(selection: Selection, accuracies: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The index of the chosen epoch for each language, by accuracies (language -> a value for each
    epoch); the earlier of equals.

    `mean-dev` takes the epoch of the best mean over all languages (Cao et al. 2020), `target-dev`
    the best of each language, which looks at labelled data of the target language, so that the
    result is not zero-shot.

    >>> values = {"en": [0.6, 0.7], "de": [0.5, 0.3]}
    >>> select("mean-dev", values), select("target-dev", values)
    ({'en': 0, 'de': 0}, {'en': 1, 'de': 0})
    """
    if selection == "target-dev":
        return {lang: int(np.argmax(values)) for lang, values in accuracies.items()}
    epoch = int(np.argmax(np.mean(list(accuracies.values()), axis=0)))
    return dict.fromkeys(accuracies, epoch)


def means(
    scores: Sequence[Score],
    languages: Collection[str] | None = None,
    pivot: str | None = None,
    metrics: Collection[str] | None = None,
    unseen: Collection[str] = (),
) -> list[Score]:
    """Form the means of scores over languages, by metric and split: `avg` over all, and where a
    pivot is given, `avg_zero_shot` over the others; `avg_unseen` over those that neither counts,
    which no method has aligned. `languages` are names of languages, or of pairs or directions of
    languages, as scores have them (None: all that have a score), `metrics` those that have means
    (None: all).

    A split that one of them lacks has no such mean: over fewer languages it would be another
    quantity under the same name. No scores have no mean.
    """
    named = list(dict.fromkeys(score.lang for score in scores) if languages is None else languages)
    aligned = [lang for lang in named if lang not in unseen]
    alone = bool(unseen) and aligned == [pivot]  # the pivot by itself is not a mean over languages
    several = {
        "avg": [] if alone else aligned,
        "avg_unseen": [lang for lang in named if lang in unseen],
    }
    if pivot is not None:
        several["avg_zero_shot"] = [lang for lang in aligned if lang != pivot]
    values: dict[tuple[str, str], dict[str, float]] = {}
    for score in scores:
        if metrics is None or score.metric in metrics:
            values.setdefault((score.metric, score.split), {})[score.lang] = score.value
    return [
        Score(name, metric, split, float(np.mean([value[lang] for lang in over])))
        for (metric, split), value in values.items()
        for name, over in several.items()
        if over and all(lang in value for lang in over)
    ]
