"""A probe of languages, how far all vectors point one way, measures of pairs, and a plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from raxalign.arrays import Bools, Floats, Ints, spread_evenly
from raxalign.languages import same_language
from raxalign.lazy import np
from raxalign.sample import Array
from raxalign.tasks.vectors.pairs import LinkedWords

_BLOCK = 1024  # queries whose cosines with all candidates are in memory at once
_TIE = 1e-12  # cosines of equal vectors differ by rounding


@dataclass(frozen=True)
class _Search:
    """What queries find: the cosine `own` with the translation, the largest one with any other
    candidate (`best`), the mean of the k largest (`near`), each (N,), and how many queries have
    each candidate among their k nearest (`occurrences`, (N,)).
    """

    own: Floats
    best: Floats
    near: Floats
    occurrences: Ints


@dataclass(frozen=True)
class PairMeasures:
    """The measures of pairs of unit vectors (N, H), which are at least two."""

    EACH: ClassVar = ("mexa", "retrieval", "margin")
    """The measures that have one value per pair, whose mean is theirs."""

    src_NH: Floats
    tgt_NH: Floats
    k: int

    @classmethod
    def of(cls, src_NH: Array, tgt_NH: Array, k: int) -> PairMeasures:
        """Return the measures of the vectors of pairs, in a language and in the pivot; `k` is at
        most the number of pairs.
        """
        return cls(unit_vectors(src_NH), unit_vectors(tgt_NH), min(k, len(src_NH)))

    @cached_property
    def _searches(self) -> tuple[_Search, _Search]:
        """To the pivot and from it."""
        return _search(self.src_NH, self.tgt_NH, self.k), _search(self.tgt_NH, self.src_NH, self.k)

    def mexa(self) -> Floats:
        """Return 1 for each pair whose s_ii is larger than all others of its row and its column, 0
        for other ones (Kargaran et al. 2024).
        """
        return np.asarray(self._found(_TIE)[0] & self._found(_TIE)[1], np.float64)

    def retrieval(self) -> Floats:
        """Return the share of the two directions in which no other candidate is nearer than the
        translation, for each pair: 0, one half or 1.
        """
        return np.asarray(np.mean(self._found(-_TIE), axis=0), np.float64)

    def margin(self) -> Floats:
        """Return s_ii minus the mean cosine of x_i and y_i with their k nearest neighbours, for
        each pair (Artetxe & Schwenk 2019, the margin `distance`).
        """
        to, back = self._searches
        return to.own - (to.near + back.near) / 2

    def hubness(self) -> float | None:
        """Return the skewness of N_k, the number of queries that have a candidate among their k
        nearest neighbours, the mean of both directions (Radovanović et al. 2010); None where
        all candidates are neighbours.
        """
        if self.k >= len(self.src_NH):
            return None
        return float(np.mean([skewness(found.occurrences) for found in self._searches]))

    @staticmethod
    def linear_cka(first_NH: Array, second_NH: Array) -> float | None:
        """Return linear CKA, |Y^T X|² / (|X^T X| |Y^T Y|) with centred coordinates (Kornblith et
        al. 2019); None where the vectors of a side are all the same.

        It is biased upwards where there are few vectors for their width.
        """
        x, y = (np.asarray(side, np.float64) - np.mean(side, 0) for side in (first_NH, second_NH))
        own = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
        return float(np.sum((y.T @ x) ** 2)) / own if own > 0 else None

    @staticmethod
    def unbiased_cka(first_NH: Array, second_NH: Array) -> float | None:
        """Return linear CKA with the unbiased estimator of HSIC (Song et al. 2012), as in Nguyen
        et al. (2021); None below four vectors, or where a side has no estimate above 0.
        """
        if len(first_NH) < 4:
            return None
        # HSIC does not depend on the means, and numbers about 0 round less
        x, y = (np.asarray(side, np.float64) - np.mean(side, 0) for side in (first_NH, second_NH))
        own = _hsic(x, x) * _hsic(y, y)
        return _hsic(x, y) / float(np.sqrt(own)) if own > 0 else None

    def _found(self, lead: float) -> tuple[Bools, Bools]:
        """Whether s_ii exceeds all others by a lead, in both directions."""
        to, back = self._searches
        return to.own > to.best + lead, back.own > back.best + lead


def unit_vectors(vectors_NH: Array) -> Floats:
    """Return vectors (N, H) of length 1 in float64, or 0."""
    wide = np.asarray(vectors_NH, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(lengths > 0, lengths, 1.0)


def _search(queries_NH: Floats, candidates_NH: Floats, k: int) -> _Search:
    n = len(queries_NH)
    own, best, near = np.empty(n), np.empty(n), np.empty(n)
    occurrences = np.zeros(n, np.int64)
    for start in range(0, n, _BLOCK):
        part = slice(start, start + _BLOCK)
        cosines_BN = queries_NH[part] @ candidates_NH.T
        rows = np.arange(len(cosines_BN))
        nearest_BK = np.argpartition(-cosines_BN, k - 1, axis=1)[:, :k]
        near[part] = np.take_along_axis(cosines_BN, nearest_BK, 1).mean(1)
        occurrences += np.bincount(nearest_BK.ravel(), minlength=n)
        own[part] = cosines_BN[rows, start + rows]
        cosines_BN[rows, start + rows] = -np.inf
        best[part] = cosines_BN.max(1)
    return _Search(own, best, near, occurrences)


def skewness(values: Array) -> float:
    """Return the third standardised moment; 0 where all values are the same.

    >>> round(skewness(np.array([0, 0, 0, 4])), 4)
    1.1547
    """
    apart = np.asarray(values, np.float64) - np.mean(values)
    spread = float(np.sqrt(np.mean(apart**2)))
    return float(np.mean(apart**3)) / spread**3 if spread > 0 else 0.0


def _hsic(x: Floats, y: Floats) -> float:
    """The unbiased HSIC of linear kernels K and L without diagonals, of centred vectors (N, H)."""
    n, squares_x, squares_y = len(x), np.sum(x**2, 1), np.sum(y**2, 1)
    product = float(np.sum((y.T @ x) ** 2) - squares_x @ squares_y)  # tr(KL)
    rows_x, rows_y = x @ x.sum(0) - squares_x, y @ y.sum(0) - squares_y  # K1, L1
    apart = float(rows_x.sum() * rows_y.sum()) / ((n - 1) * (n - 2))
    return (product + apart - 2 / (n - 2) * float(rows_x @ rows_y)) / (n * (n - 3))


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


@dataclass(frozen=True)
class LinkedVectors:
    """Linked words, with float32 vectors (N, L, H) of all words of either side at several layers,
    and which of them (N,) have one.
    """

    PLANE: ClassVar = {
        **dict.fromkeys(("kind", "side", "word"), "string"),
        **dict.fromkeys(("layer", "pair", "id", "position"), "int64"),
        **dict.fromkeys(("x", "y"), "float64"),
    }
    """The columns of one row per point of the plane; the two points of a `pair` are linked. `id`
    and `position` are those of an occurrence.
    """

    pairs: LinkedWords
    vectors: Sequence[Array]
    read: Sequence[Bools]

    def both_read(self) -> LinkedVectors:
        """Return the links alone whose words both have a vector."""
        src, tgt = self.read
        kept = self.pairs.keep(src[self.pairs.src_word] & tgt[self.pairs.tgt_word])
        return replace(self, pairs=kept)

    def occurrences(self, most: int) -> dict[str, Any]:
        """Return linked pairs that are evenly spread over the text, with their vectors at the
        highest layer, source words before target words.
        """
        chosen = spread_evenly(len(self.pairs), most)
        parts = []
        for (side, words), vectors in zip(self.pairs.sides(), self.vectors, strict=True):
            numbers = words[chosen]
            forms = [side.forms[number] for number in numbers.tolist()]
            ids = self.pairs.ids[side.row[numbers]]
            parts.append((forms, ids, side.position[numbers], vectors[numbers, -1]))
        (src, *of_src), (tgt, *of_tgt) = parts
        ids, positions, vectors = map(np.concatenate, zip(of_src, of_tgt, strict=True))
        return {"word": [*src, *tgt], "id": ids, "position": positions, "vectors": vectors}

    def frequent_types(self, most: int, pivot: str) -> dict[str, Any]:
        """Return the word types most often linked, by the means of their vectors at the lowest
        layer, source words before target words. Stop words of an English pivot are left out.
        """
        stop = _stop_words() if same_language(pivot, "en") else frozenset()
        types = [(a.lower(), b.lower()) for a, b in self.pairs.types()]
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
            for (_, words), vectors in zip(self.pairs.sides(), self.vectors, strict=True)
            for here in places
        ]
        none = np.full(len(means), -1, np.int64)
        forms = [pair[side] for side in (0, 1) for pair in chosen]
        return {"word": forms, "id": none, "position": none, "vectors": np.array(means, np.float32)}

    @staticmethod
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


def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
