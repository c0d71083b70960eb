"""Entities and words counted sentence by sentence, and the scores that the counts make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Counts = Mapping[str, npt.NDArray[np.int64]]
"""A number a sentence: `tokens`, `tokens_right`, and for entities `gold`, `predicted`, `right`."""


def count(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, entities: bool) -> Counts:
    """Right words of each sentence, and its entities by seqeval: gold, predicted, and those with the same type and ends."""
    pairs = list(zip(gold, predicted, strict=True))
    rows = [(len(a), sum(x == y for x, y in zip(a, b, strict=True))) for a, b in pairs]
    found = dict(zip(("tokens", "tokens_right"), np.array(rows, dtype=np.int64).reshape(-1, 2).T, strict=True))
    if entities:
        from seqeval.metrics.sequence_labeling import get_entities

        sets = [(set(get_entities(list(a))), set(get_entities(list(b)))) for a, b in pairs]
        sizes = np.array([(len(a), len(b), len(a & b)) for a, b in sets], dtype=np.int64).reshape(-1, 3)
        found |= dict(zip(("gold", "predicted", "right"), sizes.T, strict=True))
    return found


def values(counts: Counts) -> dict[str, float]:
    """`accuracy`, and for entities `f1`, `precision` and `recall` over all sentences; what would be 0/0 is 0."""
    total = {name: int(numbers.sum()) for name, numbers in counts.items()}
    scores = {"accuracy": _ratio(total["tokens_right"], total["tokens"])}
    if "gold" in total:
        scores["precision"] = _ratio(total["right"], total["predicted"])
        scores["recall"] = _ratio(total["right"], total["gold"])
        scores["f1"] = _ratio(2 * total["right"], total["gold"] + total["predicted"])
    return scores


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
