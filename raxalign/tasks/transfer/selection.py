"""Which epoch of a training is evaluated. Rules read development accuracies only, never the test
side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from raxalign import lazy

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy.load("numpy")


Selection = Literal["pivot-dev", "mean-dev", "target-dev", "last"]


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
