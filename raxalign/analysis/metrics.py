"""What the name of a metric says: whether it is worth a table, and how a reader writes it."""

from __future__ import annotations

import re

FEW = 30
"""Pairs: an accuracy over fewer is an accident of the data."""
_LAYER = re.compile(r"layer\d+_.+")
_SPOKEN = {"f1": "F1", "mrr": "MRR", "bleu1": "BLEU-1"}
COUNTS = ("_pairs", "_stderr", "_count", "_coverage")
DIRECTIONS = ("_to_pivot", "_from_pivot")


def is_main(metric: str) -> bool:
    """Return whether a metric is more than a count, an error, one direction, or one point of a
    sweep over layers (and weights).

    >>> is_main("contextual_accuracy"), is_main("contextual_accuracy_pairs")
    (True, False)
    >>> is_main("layer3_alpha1_bleu1")
    False
    """
    return not metric.endswith((*COUNTS, *DIRECTIONS)) and not _LAYER.fullmatch(metric)


def less_is_better(metric: str) -> bool:
    """Return whether the smallest value of a metric is the best one.

    >>> less_is_better("alignment_error_rate"), less_is_better("f1")
    (True, False)
    """
    return metric.endswith("_error_rate")


def spoken(metric: str) -> str:
    """Return a metric as a reader writes it.

    >>> spoken("contextual_accuracy"), spoken("mrr"), spoken("bleu1_sacrebleu")
    ('contextual accuracy', 'MRR', 'BLEU-1 sacrebleu')
    """
    return " ".join(_SPOKEN.get(part, part) for part in metric.split("_"))
