"""Words as points of a plane: occurrences of linked words, and the word types that are linked most
often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.languages import same_language
from raxalign.tasks.vectors.linked_words import Bools, Ints, LinkedWords, Words

Floats = npt.NDArray[np.float32]

_STRINGS = ("lang", "split", "kind", "side", "word")
PLANE = pa.schema(
    [
        *((name, pa.string()) for name in _STRINGS),
        *((name, pa.int64()) for name in ("layer", "pair", "id", "position")),
        ("x", pa.float64()),
        ("y", pa.float64()),
    ]
)
"""One row per point of the plane; the two points of a `pair` are linked. `id` and `position` are
those of an occurrence.
"""


@dataclass(frozen=True)
class LayeredVectors:
    """Vectors (N, L, H) of all words of one language at several layers, and which words have
    one.
    """

    vectors_NLH: Floats
    read_N: Bools


@dataclass(frozen=True)
class Plane:
    """What is projected and how: `occurrences` linked pairs and `types` pairs of word types, by
    `pca` or `tsne` with a seed.
    """

    how: str
    occurrences: int
    types: int
    seed: int


@dataclass(frozen=True)
class LinkedVectors:
    """Linked words with the vectors of both sides, for a language pair named `label`."""

    label: str
    pairs: LinkedWords
    src: LayeredVectors
    tgt: LayeredVectors

    def read(self) -> LinkedVectors:
        """Return the links alone whose words both have a vector."""
        pairs = self.pairs
        both = self.src.read_N[pairs.src_word] & self.tgt.read_N[pairs.tgt_word]
        return LinkedVectors(self.label, pairs.keep(both), self.src, self.tgt)

    def sides(self) -> list[tuple[Words, Floats, Ints]]:
        """Return for each side its words, its vectors and the word of every link."""
        return [
            (self.pairs.src, self.src.vectors_NLH, self.pairs.src_word),
            (self.pairs.tgt, self.tgt.vectors_NLH, self.pairs.tgt_word),
        ]


@dataclass(frozen=True)
class _Pairs:
    """Pairs of words that are projected together: n of one side, then n of the other."""

    kind: str
    layer: int
    words: tuple[Sequence[str], Sequence[str]]
    vectors_NH: Floats
    ids: Ints
    positions: Ints


def projected_words(linked: LinkedVectors, layers: tuple[int, int], plane: Plane) -> pa.Table:
    """Project occurrences at the highest and types at the lowest of the `layers`, each kind in a
    plane of its own.
    """
    linked = linked.read()
    kinds = (
        _occurrences(linked, layers[1], plane.occurrences),
        _types(linked, layers[0], plane.types),
    )
    return pa.concat_tables([_table(linked.label, pairs, plane) for pairs in kinds])


def _occurrences(linked: LinkedVectors, layer: int, most: int) -> _Pairs:
    """Linked pairs evenly spread over the text."""
    pairs = linked.pairs
    chosen = (
        np.unique(np.linspace(0, len(pairs) - 1, min(most, len(pairs))).astype(np.int64))
        if len(pairs)
        else np.zeros(0, np.int64)
    )
    words = [
        (side, vectors_NLH[numbers[chosen], -1], numbers[chosen])
        for side, vectors_NLH, numbers in linked.sides()
    ]
    src, tgt = ([side.forms[number] for number in numbers.tolist()] for side, _, numbers in words)
    return _Pairs(
        "occurrence",
        layer,
        (src, tgt),
        np.concatenate([vectors_NH for _, vectors_NH, _ in words]),
        np.concatenate([pairs.ids[side.row[numbers]] for side, _, numbers in words]),
        np.concatenate([side.position[numbers] for side, _, numbers in words]),
    )


def _types(linked: LinkedVectors, layer: int, most: int) -> _Pairs:
    """The word types most often linked, by the means of their vectors."""
    stop = _stop_words(linked.label)
    types = [(a.lower(), b.lower()) for a, b in linked.pairs.types()]
    counts = Counter(
        pair
        for pair in types
        if all(word.isalpha() for word in pair) and pair[1] not in stop and pair[0] != pair[1]
    )
    chosen = [
        pair for pair, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    ]
    means = np.zeros((2 * len(chosen), linked.src.vectors_NLH.shape[-1]), np.float32)
    for half, (_, vectors_NLH, numbers) in enumerate(linked.sides()):
        for place, pair in enumerate(chosen):
            here = [
                number
                for number, other in zip(numbers.tolist(), types, strict=True)
                if other == pair
            ]
            means[half * len(chosen) + place] = vectors_NLH[here, 0].mean(0)
    none = np.full(2 * len(chosen), -1, np.int64)
    words = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
    return _Pairs("type", layer, words, means, none, none)


def _stop_words(label: str) -> frozenset[str]:
    """Return the stop words of the pivot, for English alone; the other language's words are left
    out with their translations.
    """
    parts = label.split("-")
    if not any(same_language("-".join(parts[n:]), "en") for n in range(1, len(parts))):
        return frozenset()
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def _table(label: str, pairs: _Pairs, plane: Plane) -> pa.Table:
    from raxalign.tasks.vectors.probe import project

    n = len(pairs.words[0])
    places = project(pairs.vectors_NH, plane.how, plane.seed)
    columns = {
        "lang": [label] * (2 * n),
        "split": ["test"] * (2 * n),
        "kind": [pairs.kind] * (2 * n),
        "side": ["src"] * n + ["tgt"] * n,
        "word": [*pairs.words[0], *pairs.words[1]],
        "layer": [pairs.layer] * (2 * n),
        "pair": [*range(n), *range(n)],
        "id": pairs.ids,
        "position": pairs.positions,
        "x": places[:, 0],
        "y": places[:, 1],
    }
    return pa.table(columns, schema=PLANE)
