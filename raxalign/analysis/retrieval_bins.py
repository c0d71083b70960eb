"""Word retrieval in groups of words: by universal part of speech (Cao et al. 2020, Table 4) and by
difference of frequency ranks (their Figure 3).

All is computed from the predictions of retrieval, one row per pair and direction. An accuracy is
the mean of those of the directions that have pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy.typing as npt

from raxalign.corpora.text.words import look_up_form
from raxalign.lazy import np, pa

GROUPS: Mapping[str, tuple[str, ...]] = {
    "lexical-overlap": ("NUM", "PUNCT", "PROPN"),
    "closed-class": ("DET", "ADP", "CONJ", "PRON", "AUX"),
    "open-class": ("NOUN", "ADV", "ADJ", "VERB"),
}
RANK_EDGES = (0, 10, 30, 100, 300, 1_000, 3_000, 10_000)
_JOINED = {"CCONJ": "CONJ", "SCONJ": "CONJ"}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bin:
    """A group of words: how often their translation was found, and over how many queries (both
    directions counted); None without any.
    """

    name: str
    accuracy: float | None
    queries: int


def by_part_of_speech(
    table: pa.Table, tags: Sequence[str | None], *, identical: bool = False
) -> list[Bin]:
    """Non-contextual accuracy, seen pairs kept, of each part of speech, each group's followed by
    the plain mean over its parts.

    Args:
        table: predictions of one language and split.
        tags: a universal part of speech for each row (None: unknown, left out); CCONJ and SCONJ are
            one, as in the paper.
        identical: keep pairs of one surface form, which the paper's retrieval leaves out.

    >>> GROUPS["open-class"]
    ('NOUN', 'ADV', 'ADJ', 'VERB')
    """
    chosen = _flags(table, "first_any" if identical else "first")
    answers = _answers(table, "correct_first")
    names = np.array([_JOINED.get(tag or "", tag or "") for tag in tags])
    bins = []
    for group, parts in GROUPS.items():
        found = [_bin(part, answers, chosen & (names == part)) for part in parts]
        known = [part.accuracy for part in found if part.accuracy is not None]
        mean = float(np.mean(known)) if known else None
        bins += [*found, Bin(f"{group}-average", mean, sum(part.queries for part in found))]
    return bins


def by_rank_difference(
    table: pa.Table, src_ranks: Mapping[str, int], tgt_ranks: Mapping[str, int]
) -> list[Bin]:
    """Contextual accuracy over unseen pairs of different forms by the difference of their words'
    frequency ranks, in bins ``[edge, next edge)`` of `RANK_EDGES`, the last one open; the last
    entry of the list counts the pairs with a word that has no rank.
    """
    chosen = ~_flags(table, "identical") & _flags(table, "unseen")
    sides = (("src", src_ranks), ("tgt", tgt_ranks))
    a, b = (np.array([r.get(w, np.nan) for w in table[side].to_pylist()]) for side, r in sides)
    gaps = np.nan_to_num(np.abs(a - b), nan=-1.0)
    places = np.searchsorted(np.asarray(RANK_EDGES), gaps, side="right") - 1
    answers = _answers(table, "correct")
    names = [f"{low:,}–{high - 1:,}" for low, high in pairwise(RANK_EDGES)]
    names.append(f"{RANK_EDGES[-1]:,} and more")
    bins = [
        _bin(name, answers, chosen & (gaps >= 0) & (places == place))
        for place, name in enumerate(names)
    ]
    return [*bins, _bin("no rank", answers, chosen & (gaps < 0))]


def ranks_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the rank of every word form by its count, from 1; equally frequent ones share the
    smallest rank.

    >>> ranks_of({"a": 2, "b": 1, "c": 1})
    {'a': 1, 'b': 2, 'c': 2}
    """
    above, first = 0, {}
    for size, many in sorted(Counter(counts.values()).items(), reverse=True):
        first[size] = above + 1
        above += many
    return {word: first[size] for word, size in counts.items()}


def majority_tags(tagged: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Return the most frequent part of speech of every word form of a tagged text, the first met of
    equals.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in tagged:
        for word, tag in zip(words, tags, strict=True):
            counts[look_up_form(word)][tag] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def tags_of_types(
    table: pa.Table, side: Literal["src", "tgt"], tags: Mapping[str, str]
) -> list[str | None]:
    """Return a tag for each row by the form of one side's word, as written or else lower-cased."""
    return [tags.get(word, tags.get(word.lower())) for word in table[side].to_pylist()]


def tags_of_places(
    table: pa.Table, side: Literal["src", "tgt"], tags: Mapping[int, Sequence[str]]
) -> list[str | None]:
    """Return a tag for each row by the place of one side's word; `tags` maps the id of a sentence
    pair to the tags of that side's words.
    """
    places = zip(table["id"].to_pylist(), table[f"{side}_position"].to_pylist(), strict=True)
    return [
        tags[id_][place] if id_ in tags and place < len(tags[id_]) else None
        for id_, place in places
    ]


def _answers(table: pa.Table, correct: str) -> tuple[Array, Array]:
    """Whether each row's answer is right, and its direction, (rows,) each."""
    return _flags(table, correct), np.array(table["direction"].to_pylist())


def _bin(name: str, answers: tuple[Array, Array], chosen: Array) -> Bin:
    """The bin of some rows."""
    right, ways = (side[chosen] for side in answers)
    values = [float(right[ways == way].mean()) for way in np.unique(ways)]
    return Bin(name, float(np.mean(values)) if values else None, int(chosen.sum()))


def _flags(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].to_numpy(zero_copy_only=False)).astype(np.bool_)
