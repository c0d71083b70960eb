"""How a reader writes the name of a metric, and how many examples a value needs."""

from __future__ import annotations

FEW = 30
"""Pairs: an accuracy over fewer is an accident of the data."""
_SPOKEN = {"f1": "F1", "mrr": "MRR", "bleu1": "BLEU-1"}


def spoken(metric: str) -> str:
    """Return a metric as a reader writes it.

    >>> spoken("contextual_accuracy"), spoken("mrr"), spoken("bleu1_sacrebleu")
    ('contextual accuracy', 'MRR', 'BLEU-1 sacrebleu')
    """
    return " ".join(_SPOKEN.get(part, part) for part in metric.split("_"))
