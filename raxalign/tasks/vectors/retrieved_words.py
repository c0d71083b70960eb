"""The words that retrieval finds for linked words, among all words and among first occurrences, and
the metrics over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign import lazy
from raxalign.measured import count, share, standard_error
from raxalign.similarity import Measure, nearest_neighbors
from raxalign.tasks.vectors.accuracy import DIRECTIONS, SearchDirection, accuracy, mean_accuracy
from raxalign.tasks.vectors.linked_words import Bools, Ints, LinkedWords, Words

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import torch
else:
    np = lazy.load("numpy")
    pa = lazy.load("pyarrow")
    torch = lazy.load("torch")


@dataclass(frozen=True)
class Found:
    """The words that one search found for the pairs (pairs,): `to_pivot` are numbers of target
    words, `from_pivot` of source words.

    Pairs that were not part of the search have -1.
    """

    to_pivot: Ints
    from_pivot: Ints

    def toward(self, direction: SearchDirection) -> Ints:
        """Return the words found in one direction."""
        return self.to_pivot if direction == "to_pivot" else self.from_pivot

    @property
    def asked(self) -> Bools:
        """The pairs that were part of the search (pairs,)."""
        return self.to_pivot >= 0


def search(
    pairs: LinkedWords,
    vectors: tuple[torch.Tensor, torch.Tensor],
    pools: tuple[Bools, Bools],
    *,
    measure: Measure,
    k: int,
) -> Found:
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
    found = Found(*(np.full(len(pairs), -1, np.int64) for _ in DIRECTIONS))
    if asked.any():
        src_words, tgt_words = (np.flatnonzero(pool) for pool in pools)
        src, tgt = (
            v[torch.from_numpy(w).to(v.device)]
            for v, w in zip(vectors, (src_words, tgt_words), strict=True)
        )
        ahead, back = nearest_neighbors(src, tgt, measure=measure, k=k)
        found.to_pivot[asked] = tgt_words[ahead.cpu().numpy()][
            np.searchsorted(src_words, pairs.src_word[asked])
        ]
        found.from_pivot[asked] = src_words[back.cpu().numpy()][
            np.searchsorted(tgt_words, pairs.tgt_word[asked])
        ]
    return found


def first_occurrences(words: Words, read: Bools) -> Bools:
    """Mark the first occurrence of every surface form, in the order of the text, among the words
    that were read.
    """
    first: dict[str, int] = {}
    for word in np.flatnonzero(read).tolist():
        first.setdefault(words.forms[word], word)
    chosen = np.zeros_like(read)
    chosen[list(first.values())] = True
    return chosen


@dataclass(frozen=True)
class Answers:
    """What was found for linked words: `contextual` among all candidates, `thinned` among first
    occurrences.

    Without `thinned` the non-contextual metrics are over contextual answers for the first pair of
    each query's type. `units` (sentence pairs,) are the hashes of the pivot's sentences.
    """

    pairs: LinkedWords
    units: Ints
    contextual: Found
    thinned: Found | None
    identical: Bools
    unseen: Bools

    def found(self, *, contextual: bool) -> Found:
        """Return the answers that a metric is computed from."""
        return self.contextual if contextual or self.thinned is None else self.thinned

    def correct(self, direction: SearchDirection, *, contextual: bool) -> Bools:
        """Return which pairs were found."""
        linked = self.pairs.tgt_word if direction == "to_pivot" else self.pairs.src_word
        return np.equal(self.found(contextual=contextual).toward(direction), linked)

    def first(self, direction: SearchDirection, passed: Bools) -> Bools:
        """Return the non-contextual ones of some pairs: those of first occurrences, or the first of
        the query's type among those that passed.
        """
        if self.thinned is not None:
            return passed & self.thinned.asked
        words, side = (
            (self.pairs.src_word, self.pairs.src)
            if direction == "to_pivot"
            else (self.pairs.tgt_word, self.pairs.tgt)
        )
        first: dict[str, int] = {}
        for pair in np.argsort(words, kind="stable").tolist():
            if passed[pair]:
                first.setdefault(side.forms[words[pair]], pair)
        chosen = np.zeros(len(passed), dtype=np.bool_)
        chosen[list(first.values())] = True
        return chosen

    def chosen(self, direction: SearchDirection, *, contextual: bool, with_seen: bool) -> Bools:
        """Return the pairs that a metric is over."""
        passed = ~self.identical if with_seen else ~self.identical & self.unseen
        return passed if contextual else self.first(direction, passed)

    def metrics(self) -> tuple[dict[str, float], list[str]]:
        """Return values by metric, and the metrics for which there are no pairs."""
        values: dict[str, float] = {}
        absent: list[str] = []
        for name, contextual, with_seen in ACCURACIES:
            picked = {
                d: self.chosen(d, contextual=contextual, with_seen=with_seen) for d in DIRECTIONS
            }
            either = np.logical_or.reduce(list(picked.values()))
            if not either.any():
                absent.append(
                    f"{name}: no {'' if with_seen else 'unseen '}pairs of different surface forms"
                )
                continue
            parts = [
                (self.correct(d, contextual=contextual)[picked[d]], self.pairs.row[picked[d]])
                for d in DIRECTIONS
            ]
            values[name], error = mean_accuracy(parts)
            values |= {
                f"{name}_{d}": accuracy(right)
                for d, (right, _) in zip(DIRECTIONS, parts, strict=True)
            }
            values[f"{name}_pairs"] = float(either.sum())
            if error is not None:
                values[f"{name}_stderr"] = error
        return values, absent

    def table(self, label: str, split: str) -> pa.Table:
        """Make one row per pair and direction, from which all metrics can be computed again.

        `correct` is that of the contextual search, `correct_first` that of the non-contextual one,
        whose columns are null for pairs that were not part of it. `first` marks the pairs of
        `noncontextual_accuracy_all`, `first_unseen` those of `noncontextual_accuracy`, and
        `first_any` those of `first` and the pairs of one surface form that would be. `unit` is the
        same wherever the pivot's sentence is.
        """
        tables = [
            pa.table(dict(self._columns(label, split, direction)), schema=predictions_schema())
            for direction in DIRECTIONS
        ]
        return pa.concat_tables(tables)

    def _columns(
        self, label: str, split: str, direction: SearchDirection
    ) -> Iterator[tuple[str, Sequence[object] | Bools | Ints | pa.Array]]:
        pairs, n = self.pairs, len(self.pairs)
        side, types = pairs.tgt if direction == "to_pivot" else pairs.src, pairs.types()
        yield from (("lang", [label] * n), ("split", [split] * n), ("direction", [direction] * n))
        yield from (("id", pairs.ids[pairs.row]), ("unit", self.units[pairs.row]))
        yield from (
            ("src_position", pairs.src.position[pairs.src_word]),
            ("tgt_position", pairs.tgt.position[pairs.tgt_word]),
        )
        yield from (("src", [a for a, _ in types]), ("tgt", [b for _, b in types]))
        for contextual, name in ((True, "found"), (False, "found_first")):
            words = self.found(contextual=contextual).toward(direction)
            missing = words < 0
            yield f"{name}_id", pa.array(pairs.ids[side.row[words]], mask=missing)
            yield f"{name}_position", pa.array(side.position[words], mask=missing)
            yield name, [side.forms[w] if w >= 0 else None for w in words.tolist()]
            yield (
                name.replace("found", "correct"),
                pa.array(self.correct(direction, contextual=contextual), mask=missing),
            )
        yield from (("identical", self.identical), ("unseen", self.unseen))
        yield "first_any", self.first(direction, np.ones(n, dtype=np.bool_))
        yield "first", self.chosen(direction, contextual=False, with_seen=True)
        yield "first_unseen", self.chosen(direction, contextual=False, with_seen=False)


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
_STRINGS = ("lang", "split", "direction", "src", "tgt", "found", "found_first")
_FLAGS = ("correct", "correct_first", "identical", "unseen", "first_any", "first", "first_unseen")
_PLACES = (
    "found_id",
    "found_position",
    "found",
    "found_first_id",
    "found_first_position",
    "found_first",
)
_ORDER = (
    *_STRINGS[:3],
    "id",
    "unit",
    "src_position",
    "tgt_position",
    "src",
    "tgt",
    *_PLACES,
    *_FLAGS,
)


def predictions_schema() -> pa.Schema:
    """Return the columns of the predictions."""
    return pa.schema(
        [
            (
                name,
                pa.string() if name in _STRINGS else pa.bool_() if name in _FLAGS else pa.int64(),
            )
            for name in _ORDER
        ]
    )
