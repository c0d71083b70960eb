"""The geometry of a space: how well a linear probe finds a vector's language, how far all vectors
point one way, and two coordinates of each vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def anisotropy(vectors_NH: npt.NDArray[Any]) -> float | None:
    """Return the mean cosine of all pairs of different vectors, in float64: 0 where directions are
    spread, 1 where all are the same; None below two vectors.

    With u the unit vectors it is (|Σ u|² - N) / (N (N - 1)), exactly. Zero vectors have cosine 0
    with all (Ethayarajh 2019 draws pairs).

    >>> anisotropy(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])) == 1 / 3
    True
    """
    if len(vectors_NH) < 2:
        return None
    wide = np.asarray(vectors_NH, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    units = wide / np.where(lengths > 0, lengths, 1.0)
    own = float(np.square(units).sum())
    return (float(np.square(units.sum(0)).sum()) - own) / (len(units) * (len(units) - 1))


def probe_accuracy(
    first_NH: npt.NDArray[Any],
    second_MH: npt.NDArray[Any],
    first_rows: Ints,
    second_rows: Ints,
    seed: int = 0,
) -> float | None:
    """Return the accuracy of a logistic regression that tells the vectors of two languages apart,
    the mean over both languages (chance is one half).

    A random half of the sentences is for training, the other for testing; coordinates are scaled by
    the training half.

    Args:
        first_NH: the vectors of one language.
        second_MH: the vectors of the other one.
        first_rows: the sentence of each vector (N,); translations have one number.
        second_rows: the sentence of each vector of the other language (M,).
        seed: the seed of the halves.

    Returns:
        the accuracy, or None where a half lacks a language.
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


def project(vectors_NH: npt.NDArray[Any], how: str, seed: int = 0) -> Floats:
    """Return two coordinates of every vector, (N, 2).

    The sign of a direction is such that its largest coordinate is positive. Fewer than three
    vectors lie at the origin.

    Args:
        vectors_NH: the vectors.
        how: `pca`, the two widest directions, or `tsne`, which starts from these.
        seed: the seed of t-SNE.
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
