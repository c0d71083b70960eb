"""Measures of similarity between vectors, and exact nearest neighbours by them."""

from raxalign.similarity.measures import (
    MEASURES,
    NEIGHBORS_ABOUT,
    Measure,
    Terms,
    hubness,
    measure_about,
    mutual_nearest,
    scaled,
    scored,
    softmax_terms,
    uses_neighbors,
)
from raxalign.similarity.neighbors import nearest_neighbors
from raxalign.similarity.scaled_vectors import Tiling

__all__ = [
    "MEASURES",
    "NEIGHBORS_ABOUT",
    "Measure",
    "Terms",
    "Tiling",
    "hubness",
    "measure_about",
    "mutual_nearest",
    "nearest_neighbors",
    "scaled",
    "scored",
    "softmax_terms",
    "uses_neighbors",
]
