"""Entities and words counted sentence by sentence, and the scores that are ratios of the counts'
sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from raxalign.arrays import Ints
from raxalign.lazy import np
from raxalign.measured import share
from raxalign.tasks.tagging.scheme import OUTSIDE, iob2

Counts = Mapping[str, tuple["Ints", "Ints"]]
"""For each metric two numbers per sentence; the metric is the sum of the first ones divided by that
of the second ones.
"""

WORDS_MEASURED = (share("accuracy", "Share of the words whose tag is right."),)
"""What taggers of words report."""
ENTITIES_MEASURED = (
    share("f1", "Harmonic mean of precision and recall over entities."),
    share("precision", "Share of the entities found that are right in type and both ends."),
    share("recall", "Share of the given entities that are found with type and both ends."),
    *WORDS_MEASURED,
)
"""What taggers of entities report."""


def entities_of(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Return (type, first word, last word) of each entity, found as conlleval finds them.

    >>> sorted(entities_of(["I-PER", "I-PER", "B-PER", "O", "I-LOC"]))
    [('LOC', 4, 4), ('PER', 0, 1), ('PER', 2, 2)]
    """
    found, begin = set(), 0
    for place, (tag, following) in enumerate(pairwise([*iob2(tags), OUTSIDE])):
        begin = place if tag.startswith("B-") else begin
        if tag != OUTSIDE and not following.startswith("I-"):
            found.add((tag[2:], begin, place))
    return found


def count(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, entities: bool
) -> Counts:
    """Right words and words of each sentence, and for entities those that are right (type and both
    ends), given and found.

    F1 is twice the right ones divided by those given and those found together.
    """
    pairs = list(zip(gold, predicted, strict=True))
    words = np.array(
        [(sum(x == y for x, y in zip(a, b, strict=True)), len(a)) for a, b in pairs], dtype=np.int64
    ).reshape(-1, 2)
    counts = {"accuracy": (words[:, 0], words[:, 1])}
    if entities:
        sets = [(entities_of(a), entities_of(b)) for a, b in pairs]
        sizes = np.array([(len(a), len(b), len(a & b)) for a, b in sets], dtype=np.int64).reshape(
            -1, 3
        )
        given, found, right = sizes.T
        counts |= {
            "f1": (2 * right, given + found),
            "precision": (right, found),
            "recall": (right, given),
        }
    return counts


def values(counts: Counts) -> dict[str, float]:
    """The metrics over all sentences; what would be 0/0 is 0."""
    totals = {
        metric: (int(part.sum()), int(whole.sum())) for metric, (part, whole) in counts.items()
    }
    return {metric: part / whole if whole else 0.0 for metric, (part, whole) in totals.items()}
