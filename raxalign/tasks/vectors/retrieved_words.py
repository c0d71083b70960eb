"""The words that retrieval finds for linked words, and the metrics over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from raxalign.arrays import Bools, Ints
from raxalign.lazy import np, pa, torch
from raxalign.measured import Measured, count, share, standard_error
from raxalign.sample import Sample, column, summed, units_of
from raxalign.similarity import nearest_neighbors
from raxalign.similarity.measures import Measure
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
    """Find the nearest neighbour of every word of two pools in the other pool; return the answers
    for the pairs whose words are both in their pools. The pools say which source words and which
    target words are queries, candidates and neighbourhoods; `vectors` (words, H) are those of all
    words of either side.
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
    """Mark the first occurrence of every surface form among the words that were read."""
    first: dict[str, int] = {}
    for word in np.flatnonzero(read).tolist():
        first.setdefault(words.forms[word], word)
    flags = np.zeros(len(read), dtype=np.bool_)
    flags[list(first.values())] = True
    return flags


@dataclass(frozen=True)
class Answers:
    """What was found for linked words: `contextual` among all candidates, `thinned` among first
    occurrences. `units` (sentence pairs,) are the hashes of the pivot's sentences.
    """

    pairs: LinkedWords
    units: Ints
    contextual: FoundWords
    thinned: FoundWords
    identical: Bools
    unseen: Bools

    def _oriented(
        self, direction: SearchDirection
    ) -> tuple[tuple[SideWords, Ints], tuple[SideWords, Ints]]:
        """The words of the queries' side with the query of each pair, and those of the answers."""
        src, tgt = self.pairs.sides()
        return (src, tgt) if direction == "to_pivot" else (tgt, src)

    def flags(self, direction: SearchDirection) -> dict[str, Bools]:
        """Return what predictions say of each pair, from which all metrics can be computed again.

        `correct` is that of the contextual search, `correct_first` that of the non-contextual one.
        `first` marks the pairs of `noncontextual_accuracy_all`, `first_unseen` those of
        `noncontextual_accuracy`, and `first_any` those of `first` and the pairs of one surface form
        that would be.
        """
        _, (_, linked) = self._oriented(direction)
        first, distinct = self.thinned[direction] >= 0, ~self.identical
        return {
            "correct": np.equal(self.contextual[direction], linked),
            "correct_first": np.equal(self.thinned[direction], linked),
            "identical": self.identical,
            "unseen": self.unseen,
            "first_any": first,
            "first": first & distinct,
            "first_unseen": first & distinct & self.unseen,
        }

    def metrics(self) -> tuple[dict[str, float], list[str]]:
        """Return values by metric, and the metrics for which there are no pairs."""
        values: dict[str, float] = {}
        absent: list[str] = []
        flags = {direction: self.flags(direction) for direction in DIRECTIONS}
        for name in ACCURACIES:
            asked = {way: _asked(name, own.__getitem__) for way, own in flags.items()}
            either = np.logical_or.reduce([chosen for chosen, _ in asked.values()])
            if not either.any():
                unseen = "" if name.endswith("_all") else "unseen "
                absent.append(f"{name}: no {unseen}pairs of different surface forms")
                continue
            parts = {
                way: (right[chosen], self.pairs.row[chosen])
                for way, (chosen, right) in asked.items()
            }
            values[name], error = mean_accuracy(list(parts.values()))
            values |= {f"{name}_{way}": float(right.mean()) for way, (right, _) in parts.items()}
            values[f"{name}_pairs"] = float(either.sum())
            if error is not None:
                values[f"{name}_stderr"] = error
        return values, absent

    def predictions(self, direction: SearchDirection) -> dict[str, Any]:
        """Return one row per pair. Columns of a search are null for pairs that were not part of it.
        `unit` is the same wherever the pivot's sentence is.
        """
        pairs, n, flags = self.pairs, len(self.pairs), self.flags(direction)
        types, (_, (side, _)) = pairs.types(), self._oriented(direction)
        searched: dict[str, Any] = {}
        for suffix, found in (("", self.contextual), ("_first", self.thinned)):
            words, missing = found[direction], found[direction] < 0
            searched |= {
                f"found{suffix}_id": pa.array(pairs.ids[side.row[words]], mask=missing),
                f"found{suffix}_position": pa.array(side.position[words], mask=missing),
                f"found{suffix}": [side.forms[w] if w >= 0 else None for w in words.tolist()],
                f"correct{suffix}": pa.array(flags[f"correct{suffix}"], mask=missing),
            }
        return {
            "direction": [direction] * n,
            "id": pairs.ids[pairs.row],
            "unit": self.units[pairs.row],
            "src_position": pairs.src.position[pairs.src_word],
            "tgt_position": pairs.tgt.position[pairs.tgt_word],
            "src": [a for a, _ in types],
            "tgt": [b for _, b in types],
            **flags,
            **searched,
        }


def _asked(name: str, flag: Callable[[str], Bools]) -> tuple[Bools, Bools]:
    """The pairs that an accuracy is over, and which are right, by the flags of predictions."""
    with_seen = name.endswith("_all")
    if name.startswith("noncontextual"):
        return flag("first" if with_seen else "first_unseen"), flag("correct_first")
    distinct = ~flag("identical")
    return distinct if with_seen else distinct & flag("unseen"), flag("correct")


def word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of an accuracy of retrieval: one part per direction."""
    name, direction = direction_of(metric)
    correct = "correct_first" if name.startswith("noncontextual") else "correct"
    if name not in ACCURACIES or correct not in table.column_names:
        return None
    chosen, right = _asked(name, lambda flag: column(table, flag).astype(bool))
    directions = column(table, "direction")
    if direction:
        chosen = chosen & (directions == direction)
    if not chosen.any():
        return None
    gains = right[chosen].astype(float)
    return summed(units_of(table)[chosen], directions[chosen], gains, np.ones(len(gains)))


ACCURACIES = (
    "contextual_accuracy",
    "noncontextual_accuracy",
    "contextual_accuracy_all",
    "noncontextual_accuracy_all",
)
"""Accuracies among all words and among first occurrences, over unseen pairs and over all."""

_FAMILIES = "{contextual|noncontextual}_accuracy"
MEASURED = (
    Measured(
        "contextual_accuracy",
        "Share of unseen pairs that are found among all words, the mean of both directions.",
        unit="share",
        over_all_pairs="contextual_accuracy_all",
    ),
    Measured(
        "noncontextual_accuracy",
        "Share of unseen pairs that are found among first occurrences, the mean of both"
        " directions.",
        unit="share",
        over_all_pairs="noncontextual_accuracy_all",
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
