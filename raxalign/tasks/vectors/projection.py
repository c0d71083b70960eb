"""Words as points of a plane: occurrences of linked words, and the word types that are linked most
often.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.tasks.vectors.linked_words import Bools, LinkedWords, Words

Side = tuple[npt.NDArray[np.float32], Bools]
"""Vectors (N, L, H) of all words, and which words have one."""

_STRINGS = ("lang", "split", "kind", "side", "word")
POINTS = pa.schema(
    [
        *((name, pa.string()) for name in _STRINGS),
        *((name, pa.int64()) for name in ("layer", "pair", "id", "position")),
        ("x", pa.float64()),
        ("y", pa.float64()),
    ]
)
"""A row a point; the two points of a `pair` are linked. `id` and `position` are those of an
occurrence.
"""


def projected_words(
    label: str,
    pairs: LinkedWords,
    src: Side,
    tgt: Side,
    layers: tuple[int, int],
    counts: tuple[int, int],
    how: str,
    seed: int,
) -> pa.Table:
    """Points of occurrences at the highest of the `layers` and of types at the lowest, each kind in
    a plane of its own.

    `counts` are the pairs of occurrences, evenly spread over the linked pairs, and of types.
    """
    pairs = pairs.keep(src[1][pairs.src_word] & tgt[1][pairs.tgt_word])
    parts = [
        _occurrences(label, pairs, src, tgt, layers[1], counts[0], how, seed),
        _types(label, pairs, src, tgt, layers[0], counts[1], how, seed),
    ]
    return pa.concat_tables(parts)


def _occurrences(
    label: str, pairs: LinkedWords, src: Side, tgt: Side, layer: int, most: int, how: str, seed: int
) -> pa.Table:
    chosen = (
        np.unique(np.linspace(0, len(pairs) - 1, min(most, len(pairs))).astype(np.int64))
        if len(pairs)
        else np.zeros(0, np.int64)
    )
    words = [
        (side, vectors[numbers[chosen], -1], numbers[chosen])
        for side, (vectors, _), numbers in _sides(pairs, src, tgt)
    ]
    forms = [[side.forms[number] for number in numbers.tolist()] for side, _, numbers in words]
    ids = np.concatenate([pairs.ids[side.row[numbers]] for side, _, numbers in words])
    positions = np.concatenate([side.position[numbers] for side, _, numbers in words])
    return _table(
        label,
        "occurrence",
        layer,
        forms,
        np.concatenate([vectors_NH for _, vectors_NH, _ in words]),
        ids,
        positions,
        how,
        seed,
    )


def _sides(
    pairs: LinkedWords, src: Side, tgt: Side
) -> list[tuple[Words, Side, npt.NDArray[np.int64]]]:
    """For each side its words, its vectors and the words of every link."""
    return [(pairs.src, src, pairs.src_word), (pairs.tgt, tgt, pairs.tgt_word)]


def _types(
    label: str, pairs: LinkedWords, src: Side, tgt: Side, layer: int, most: int, how: str, seed: int
) -> pa.Table:
    stop = _stop_words(label)
    types = [(a.lower(), b.lower()) for a, b in pairs.types()]
    counts = Counter(
        pair
        for pair in types
        if all(word.isalpha() for word in pair) and pair[1] not in stop and pair[0] != pair[1]
    )
    chosen = [
        pair for pair, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    ]
    means = np.zeros((2 * len(chosen), src[0].shape[-1]), np.float32)
    for half, (_, (vectors, _), numbers) in enumerate(_sides(pairs, src, tgt)):
        for place, pair in enumerate(chosen):
            here = [
                number
                for number, other in zip(numbers.tolist(), types, strict=True)
                if other == pair
            ]
            means[half * len(chosen) + place] = vectors[here, 0].mean(0)
    forms = [[pair[k] for pair in chosen] for k in (0, 1)]
    none = np.full(2 * len(chosen), -1, np.int64)
    return _table(label, "type", layer, forms, means, none, none, how, seed)


def _stop_words(label: str) -> frozenset[str]:
    """Those of the pivot; the other language's words are left out with their translations. Only
    English has a list.
    """
    if not label.endswith("-en"):
        return frozenset()
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def _table(
    label: str,
    kind: str,
    layer: int,
    forms: list[list[str]],
    vectors_NH: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    how: str,
    seed: int,
) -> pa.Table:
    from raxalign.tasks.vectors.probe import project

    n = len(forms[0])
    places = project(vectors_NH, how, seed)
    columns = {
        "lang": [label] * (2 * n),
        "split": ["test"] * (2 * n),
        "kind": [kind] * (2 * n),
        "side": ["src"] * n + ["tgt"] * n,
        "word": [*forms[0], *forms[1]],
        "layer": [layer] * (2 * n),
        "pair": [*range(n), *range(n)],
        "id": ids,
        "position": positions,
        "x": places[:, 0],
        "y": places[:, 1],
    }
    return pa.table(columns, schema=POINTS)
