"""A probe of languages, how far all vectors point one way, and words in a plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from raxalign.arrays import Bools, Floats, Ints, spread_evenly
from raxalign.languages import same_language
from raxalign.lazy import np
from raxalign.sample import Array
from raxalign.tasks.vectors.pair_measures import unit_vectors
from raxalign.tasks.vectors.pairs import LinkedWords


def anisotropy(vectors_NH: Array) -> float | None:
    """Return the mean cosine of all pairs of different vectors, in float64: 0 where directions are
    spread, 1 where all are the same; None below two vectors.

    With u the unit vectors it is (|Σ u|² - N) / (N (N - 1)), exactly. Zero vectors have cosine 0
    with all (Ethayarajh 2019 draws pairs).

    >>> anisotropy(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])) == 1 / 3
    True
    """
    if len(vectors_NH) < 2:
        return None
    units = unit_vectors(vectors_NH)
    own = float(np.square(units).sum())
    return (float(np.square(units.sum(0)).sum()) - own) / (len(units) * (len(units) - 1))


def probe_accuracy(
    first_NH: Array, second_MH: Array, first_rows: Ints, second_rows: Ints, seed: int = 0
) -> float | None:
    """Return the accuracy of a logistic regression that tells the vectors of two languages apart,
    the mean over both languages (chance is one half); None where a half lacks a language.

    A random half of the sentences is for training, the other for testing; coordinates are scaled by
    the training half. `first_rows` (N,) and `second_rows` (M,) number the sentence of each vector;
    translations have one number.
    """
    from sklearn.linear_model import LogisticRegression

    vectors = np.concatenate([first_NH, second_MH]).astype(np.float64)
    labels = np.repeat([0, 1], [len(first_NH), len(second_MH)])
    rows = np.concatenate([first_rows, second_rows])
    sentences = np.random.default_rng(seed).permutation(np.unique(rows))
    training = np.isin(rows, sentences[: len(sentences) // 2])
    if any(len(np.unique(labels[half])) < 2 for half in (training, ~training)):
        return None
    center, scale = vectors[training].mean(0), vectors[training].std(0)
    scaled = (vectors - center) / np.where(scale > 0, scale, 1.0)
    probe = LogisticRegression(max_iter=300).fit(scaled[training], labels[training])
    right = probe.predict(scaled[~training]) == labels[~training]
    return float(np.mean([right[labels[~training] == label].mean() for label in (0, 1)]))


def project(vectors_NH: Array, how: str, seed: int = 0) -> Floats:
    """Return two coordinates of every vector, (N, 2): the two widest directions (`pca`), or those
    of t-SNE, which starts from these (`tsne`). The sign of a direction is such that its largest
    coordinate is positive. Fewer than three vectors lie at the origin.
    """
    vectors = np.asarray(vectors_NH, dtype=np.float64)
    if len(vectors) < 3:
        return np.zeros((len(vectors), 2))
    if how == "pca":
        centered = vectors - vectors.mean(0)
        left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
        places = left[:, :2] * sizes[:2]
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
        largest = places[np.abs(places).argmax(0), [0, 1]]
        return np.asarray(places * np.where(largest < 0, -1.0, 1.0))
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return np.asarray(
        TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors),
        dtype=np.float64,
    )


PLANE = {
    **dict.fromkeys(("kind", "side", "word"), "string"),
    **dict.fromkeys(("layer", "pair", "id", "position"), "int64"),
    **dict.fromkeys(("x", "y"), "float64"),
}
"""The columns of one row per point of the plane; the two points of a `pair` are linked. `id` and
`position` are those of an occurrence.
"""


@dataclass(frozen=True)
class LinkedVectors:
    """Linked words, with float32 vectors (N, L, H) of all words of either side at several layers,
    and which of them (N,) have one.
    """

    pairs: LinkedWords
    vectors: Sequence[Array]
    read: Sequence[Bools]

    def both_read(self) -> LinkedVectors:
        """Return the links alone whose words both have a vector."""
        src, tgt = self.read
        kept = self.pairs.keep(src[self.pairs.src_word] & tgt[self.pairs.tgt_word])
        return replace(self, pairs=kept)


def occurrences(linked: LinkedVectors, most: int) -> dict[str, Any]:
    """Return linked pairs that are evenly spread over the text, with their vectors at the highest
    layer, source words before target words.
    """
    chosen = spread_evenly(len(linked.pairs), most)
    parts = []
    for (side, words), vectors in zip(linked.pairs.sides(), linked.vectors, strict=True):
        numbers = words[chosen]
        forms = [side.forms[number] for number in numbers.tolist()]
        ids = linked.pairs.ids[side.row[numbers]]
        parts.append((forms, ids, side.position[numbers], vectors[numbers, -1]))
    (src, *of_src), (tgt, *of_tgt) = parts
    ids, positions, vectors = map(np.concatenate, zip(of_src, of_tgt, strict=True))
    return {"word": [*src, *tgt], "id": ids, "position": positions, "vectors": vectors}


def frequent_types(linked: LinkedVectors, most: int, pivot: str) -> dict[str, Any]:
    """Return the word types most often linked, by the means of their vectors at the lowest layer,
    source words before target words. Stop words of an English pivot are left out.
    """
    stop = _stop_words() if same_language(pivot, "en") else frozenset()
    types = [(a.lower(), b.lower()) for a, b in linked.pairs.types()]
    counts = Counter(
        pair
        for pair in types
        if all(word.isalpha() for word in pair) and pair[1] not in stop and pair[0] != pair[1]
    )
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    chosen = [pair for pair, _ in ranked[:most]]
    places = [[i for i, other in enumerate(types) if other == pair] for pair in chosen]
    means = [
        vectors[words[here], 0].mean(0)
        for (_, words), vectors in zip(linked.pairs.sides(), linked.vectors, strict=True)
        for here in places
    ]
    none = np.full(len(means), -1, np.int64)
    forms = [pair[side] for side in (0, 1) for pair in chosen]
    return {"word": forms, "id": none, "position": none, "vectors": np.array(means, np.float32)}


def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def points(kind: str, layer: int, found: dict[str, Any], how: str, seed: int) -> dict[str, Any]:
    """Return what `occurrences` or `frequent_types` found as points of a plane of its own."""
    n = len(found["word"]) // 2
    places = project(found.pop("vectors"), how, seed)
    return {
        **found,
        "kind": [kind] * (2 * n),
        "side": ["src"] * n + ["tgt"] * n,
        "layer": [layer] * (2 * n),
        "pair": [*range(n), *range(n)],
        "x": places[:, 0],
        "y": places[:, 1],
    }
