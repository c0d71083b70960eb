"""Parts of the evaluations of transfer tasks: what is evaluated, which epoch is chosen (by
development sets alone, never the test side), which model is for which languages, and means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from raxalign.corpora.readers.hub import MissingSplit
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.tasks.base import Score

if TYPE_CHECKING:
    from raxalign.tasks.transfer.trained import TrainedModel


TARGET_DEV = "the {} chosen on each language's own development set: this is not a zero-shot result"
"""The warning in the notes of a result that labelled data of the target languages helped."""

Selection = Literal["pivot-dev", "mean-dev", "target-dev", "last"]
SplitT = TypeVar("SplitT", bound=str)
RowsT = TypeVar("RowsT")


def read_given(
    read: Callable[[SplitT, str], RowsT],
    splits: Sequence[SplitT],
    languages: Sequence[str],
    readers: Collection[str] = (),
) -> dict[tuple[str, SplitT], RowsT]:
    """Reads what is evaluated, by language and split; a split that the hub's set lacks for a
    language is left out.

    `readers` are the languages whose development sets choose. Raises `MissingSplit` where such a
    set is lacking, or a language has no split.
    """
    found: dict[tuple[str, SplitT], RowsT] = {}
    for lang in languages:
        lacking: list[MissingSplit] = []
        for split in splits:
            try:
                found[lang, split] = read(split, lang)
            except MissingSplit as missing:
                lacking.append(missing)
                if len(lacking) == len(splits) or (split == "dev" and lang in readers):
                    raise
    return found


def missing_splits(
    found: Collection[tuple[str, str]], splits: Sequence[str], languages: Sequence[str]
) -> dict[str, object]:
    """Returns a note that names each language and split that was not found, as ``th/dev``, where
    there is one.
    """
    missing = [
        f"{lang}/{split}" for lang in languages for split in splits if (lang, split) not in found
    ]
    return {"missing_splits": missing} if missing else {}


def languages_of(
    models: Sequence[TrainedModel], languages: Sequence[str], pivot: str
) -> list[tuple[TrainedModel, list[str]]]:
    """Returns the languages that each model is for: all, the one that it was trained on, or that of
    its transforms and the pivot (whose score is then the mean over models). Raises `DataError`
    where a language has no model.
    """
    pairs = [
        (
            model,
            [
                lang
                for lang in languages
                if model.lang in (None, lang) and (model.toward in (None, lang) or lang == pivot)
            ],
        )
        for model in models
        if model.toward is None or model.toward in languages
    ]
    pairs = [(model, spoken) for model, spoken in pairs if spoken]
    missing = set(languages) - {lang for _, spoken in pairs for lang in spoken}
    if missing:
        raise DataError(
            "trained model",
            f"there is no model for {', '.join(sorted(missing))}: the training was for other"
            " languages",
        )
    return pairs


def scores_of(
    found: Mapping[tuple[str, str, str], Sequence[float]], languages: Collection[str], pivot: str
) -> list[Score]:
    """Forms the score of each (language, metric, split), which is the mean over the models that are
    for the language, and the means over `languages`.
    """
    scores = [
        Score(lang, metric, split, float(np.mean(values)))
        for (lang, metric, split), values in found.items()
    ]
    return scores + means(scores, languages, pivot)


def means(
    scores: Sequence[Score],
    languages: Collection[str] | None = None,
    pivot: str | None = None,
    metrics: Collection[str] | None = None,
) -> list[Score]:
    """Forms the means of scores over languages, by metric and split: `avg` over all, and where a
    pivot is given, `avg_zero_shot` over the others.

    A split that one of them lacks has no such mean: over fewer languages it would be another
    quantity under the same name. No scores have no mean.

    Args:
        scores: those of all languages; others are not looked at.
        languages: the names of languages, or of pairs or directions of languages, as scores have
            them (None: all that have a score).
        pivot: the name of what was trained on.
        metrics: the metrics that have means (None: all of them).

    Returns:
        the means, in the order of the scores.
    """
    named = list(dict.fromkeys(score.lang for score in scores) if languages is None else languages)
    several = {
        "avg": named,
        **({} if pivot is None else {"avg_zero_shot": [lang for lang in named if lang != pivot]}),
    }
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


def kept(selection: Selection) -> str:
    """What a training leaves behind for a rule: `pivot-dev` and `last` know their epoch when it
    ends, the others need them all.
    """
    return selection if selection in ("pivot-dev", "last") else "every"


def readers(selection: Selection, languages: Sequence[str], pivot: str) -> Sequence[str]:
    """The languages whose development sets a rule reads."""
    return () if selection == "last" else (pivot,) if selection == "pivot-dev" else languages


def best_epoch(accuracies: Sequence[float]) -> int:
    """The 0-based epoch of the largest value, the earlier of equals."""
    return int(np.argmax(accuracies))


def select(selection: Selection, accuracies: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """The index of the chosen epoch for each language, by accuracies (language -> a value for each
    epoch).

    `mean-dev` takes the epoch of the best mean over all languages (Cao et al. 2020), `target-dev`
    the best of each language, which looks at labelled data of the target language, so that the
    result is not zero-shot; the others have one epoch to choose from.

    >>> values = {"en": [0.6, 0.7], "de": [0.5, 0.3]}
    >>> select("mean-dev", values), select("target-dev", values)
    ({'en': 0, 'de': 0}, {'en': 1, 'de': 0})
    """
    if selection == "target-dev":
        return {lang: best_epoch(values) for lang, values in accuracies.items()}
    epoch = (
        best_epoch(np.mean(list(accuracies.values()), axis=0).tolist())
        if selection == "mean-dev"
        else 0
    )
    return dict.fromkeys(accuracies, epoch)
