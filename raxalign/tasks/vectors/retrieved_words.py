"""The words that retrieval finds for linked words, among all words and among first occurrences, and
the metrics over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raxalign.arrays import Bools, Ints
from raxalign.lazy import np, pa, torch
from raxalign.measured import count, share, standard_error
from raxalign.sample import Sample, column, summed, units_of
from raxalign.similarity import Measure, nearest_neighbors
from raxalign.tasks.vectors.directions import (
    DIRECTIONS,
    SearchDirection,
    direction_of,
    mean_accuracy,
)
from raxalign.tasks.vectors.pairs import LinkedWords, SideWords

FoundWords = Mapping[SearchDirection, Ints]
"""The word that a search found for each pair (pairs,), by direction: numbers of target words to the
pivot, of source words from it. Pairs that were not part of the search have -1.
"""


def search(
    pairs: LinkedWords,
    vectors: tuple[torch.Tensor, torch.Tensor],
    pools: tuple[Bools, Bools],
    *,
    measure: Measure,
    k: int,
) -> FoundWords:
    """Find the nearest neighbour of every word of two pools in the other pool.

    Args:
        pairs: the linked words.
        vectors: of all source words (words, hidden) and of all target words.
        pools: which source words and which target words are queries, candidates and neighbourhoods.
        measure: the measure of similarity.
        k: the number of nearest vectors in a hubness term.

    Returns:
        the answers for the pairs whose words are both in their pools.
    """
    asked = pools[0][pairs.src_word] & pools[1][pairs.tgt_word]
    found = {direction: np.full(len(pairs), -1, np.int64) for direction in DIRECTIONS}
    if asked.any():
        words = [np.flatnonzero(pool) for pool in pools]
        src, tgt = (
            side[torch.from_numpy(numbers).to(side.device)]
            for side, numbers in zip(vectors, words, strict=True)
        )
        nearest = nearest_neighbors(src, tgt, measure=measure, k=k)
        queries = (pairs.src_word, *words), (pairs.tgt_word, *words[::-1])
        for direction, answers, (linked, own, others) in zip(
            DIRECTIONS, nearest, queries, strict=True
        ):
            places = np.searchsorted(own, linked[asked])
            found[direction][asked] = others[answers.cpu().numpy()][places]
    return found


def first_occurrences(words: SideWords, read: Bools) -> Bools:
    """Mark the first occurrence of every surface form, in the order of the text, among the words
    that were read.
    """
    first: dict[str, int] = {}
    for word in np.flatnonzero(read).tolist():
        first.setdefault(words.forms[word], word)
    return marked(len(read), list(first.values()))


def marked(size: int, chosen: list[int] | Ints) -> Bools:
    """Return flags (size,) that are true at the chosen places alone."""
    flags = np.zeros(size, dtype=np.bool_)
    flags[chosen] = True
    return flags


@dataclass(frozen=True)
class Answers:
    """What was found for linked words: `contextual` among all candidates, `thinned` among first
    occurrences.

    Without `thinned` the non-contextual metrics are over contextual answers for the first pair of
    each query's type. `units` (sentence pairs,) are the hashes of the pivot's sentences.
    """

    pairs: LinkedWords
    units: Ints
    contextual: FoundWords
    thinned: FoundWords | None
    identical: Bools
    unseen: Bools

    def found(self, direction: SearchDirection, *, contextual: bool) -> Ints:
        """Return the words that a metric is computed from."""
        return (self.contextual if contextual else self.thinned or self.contextual)[direction]

    def correct(self, direction: SearchDirection, *, contextual: bool) -> Bools:
        """Return which pairs were found."""
        _, (_, linked) = self._oriented(direction)
        return np.equal(self.found(direction, contextual=contextual), linked)

    def _oriented(
        self, direction: SearchDirection
    ) -> tuple[tuple[SideWords, Ints], tuple[SideWords, Ints]]:
        """The words of the queries' side with the query of each pair, and those of the answers."""
        src, tgt = self.pairs.sides()
        return (src, tgt) if direction == "to_pivot" else (tgt, src)

    def first(self, direction: SearchDirection, passed: Bools) -> Bools:
        """Return the non-contextual ones of some pairs: those of first occurrences, or the first of
        the query's type among those that passed.
        """
        if self.thinned is not None:
            return passed & (self.thinned[direction] >= 0)
        (side, words), _ = self._oriented(direction)
        first: dict[str, int] = {}
        for pair in np.argsort(words, kind="stable").tolist():
            if passed[pair]:
                first.setdefault(side.forms[words[pair]], pair)
        return marked(len(passed), list(first.values()))

    def chosen(self, direction: SearchDirection, *, contextual: bool, with_seen: bool) -> Bools:
        """Return the pairs that a metric is over."""
        passed = ~self.identical if with_seen else ~self.identical & self.unseen
        return passed if contextual else self.first(direction, passed)

    def metrics(self) -> tuple[dict[str, float], list[str]]:
        """Return values by metric, and the metrics for which there are no pairs."""
        values: dict[str, float] = {}
        absent: list[str] = []
        for name, contextual, with_seen in ACCURACIES:
            picked = [
                self.chosen(d, contextual=contextual, with_seen=with_seen) for d in DIRECTIONS
            ]
            either = np.logical_or.reduce(picked)
            if not either.any():
                unseen = "" if with_seen else "unseen "
                absent.append(f"{name}: no {unseen}pairs of different surface forms")
                continue
            parts = [
                (self.correct(d, contextual=contextual)[pick], self.pairs.row[pick])
                for d, pick in zip(DIRECTIONS, picked, strict=True)
            ]
            values[name], error = mean_accuracy(parts)
            for direction, (right, _) in zip(DIRECTIONS, parts, strict=True):
                values[f"{name}_{direction}"] = float(right.mean())
            values[f"{name}_pairs"] = float(either.sum())
            if error is not None:
                values[f"{name}_stderr"] = error
        return values, absent

    def predictions(self, direction: SearchDirection) -> dict[str, Any]:
        """Return one row per pair, from which all metrics can be computed again.

        `correct` is that of the contextual search, `correct_first` that of the non-contextual one,
        whose columns are null for pairs that were not part of it. `first` marks the pairs of
        `noncontextual_accuracy_all`, `first_unseen` those of `noncontextual_accuracy`, and
        `first_any` those of `first` and the pairs of one surface form that would be. `unit` is the
        same wherever the pivot's sentence is.
        """
        pairs, n = self.pairs, len(self.pairs)
        types, (_, (side, _)) = pairs.types(), self._oriented(direction)
        searched: dict[str, Any] = {}
        for name, right, contextual in (
            ("found", "correct", True),
            ("found_first", "correct_first", False),
        ):
            words = self.found(direction, contextual=contextual)
            missing, correct = words < 0, self.correct(direction, contextual=contextual)
            searched |= {
                f"{name}_id": pa.array(pairs.ids[side.row[words]], mask=missing),
                f"{name}_position": pa.array(side.position[words], mask=missing),
                name: [side.forms[w] if w >= 0 else None for w in words.tolist()],
                right: pa.array(correct, mask=missing),
            }
        return {
            "direction": [direction] * n,
            "id": pairs.ids[pairs.row],
            "unit": self.units[pairs.row],
            "src_position": pairs.src.position[pairs.src_word],
            "tgt_position": pairs.tgt.position[pairs.tgt_word],
            "src": [a for a, _ in types],
            "tgt": [b for _, b in types],
            **searched,
            "identical": self.identical,
            "unseen": self.unseen,
            "first_any": self.first(direction, np.ones(n, dtype=np.bool_)),
            "first": self.chosen(direction, contextual=False, with_seen=True),
            "first_unseen": self.chosen(direction, contextual=False, with_seen=False),
        }


def word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of an accuracy of retrieval, from the flags of its predictions: one part
    per direction.
    """
    name, direction = direction_of(metric)
    with_seen, family = name.endswith("_all"), name.removesuffix("_all")
    contextual = family == "contextual_accuracy"
    correct = "correct" if contextual else "correct_first"
    if family not in ("contextual_accuracy", "noncontextual_accuracy") or (
        correct not in table.column_names
    ):
        return None

    def flags(name: str) -> Bools:
        return column(table, name).astype(bool)

    if contextual:
        chosen = ~flags("identical") if with_seen else ~flags("identical") & flags("unseen")
    else:
        chosen = flags("first" if with_seen else "first_unseen")
    directions = column(table, "direction")
    if direction:
        chosen &= directions == direction
    if not chosen.any():
        return None
    gains = flags(correct)[chosen].astype(float)
    return summed(units_of(table)[chosen], directions[chosen], gains, np.ones(len(gains)))


ACCURACIES = (
    ("contextual_accuracy", True, False),
    ("noncontextual_accuracy", False, False),
    ("contextual_accuracy_all", True, True),
    ("noncontextual_accuracy_all", False, True),
)
"""(name, whether among all words, whether over seen pairs too)."""

_FAMILIES = "{contextual|noncontextual}_accuracy"
MEASURED = (
    share(
        "contextual_accuracy",
        "Share of unseen pairs that are found among all words, the mean of both directions.",
    ),
    share(
        "noncontextual_accuracy",
        "Share of unseen pairs that are found among first occurrences, the mean of both"
        " directions.",
    ),
    share("contextual_accuracy_all", "The contextual accuracy over seen pairs too."),
    share("noncontextual_accuracy_all", "The non-contextual accuracy over seen pairs too."),
    share(
        f"{_FAMILIES}_{{to_pivot|from_pivot|all_to_pivot|all_from_pivot}}",
        "The accuracy of one direction, over unseen pairs or over all of them.",
        role="part",
    ),
    count(f"{_FAMILIES}_{{pairs|all_pairs}}", "Number of pairs that an accuracy is the share of."),
    standard_error(
        f"{_FAMILIES}_{{stderr|all_stderr}}",
        "Standard error of the mean of both directions, clustered by sentence.",
    ),
)
"""What retrieval reports."""
COLUMNS = {
    "direction": "string",
    **dict.fromkeys(("id", "unit", "src_position", "tgt_position"), "int64"),
    **dict.fromkeys(("src", "tgt"), "string"),
    "found_id": "int64",
    "found_position": "int64",
    "found": "string",
    "found_first_id": "int64",
    "found_first_position": "int64",
    "found_first": "string",
    **dict.fromkeys(("correct", "correct_first", "identical", "unseen"), "bool"),
    **dict.fromkeys(("first_any", "first", "first_unseen"), "bool"),
}
"""The columns of the predictions."""
